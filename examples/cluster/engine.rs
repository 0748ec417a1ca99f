//! A PostgreSQL server on a machine of its own, with a standby if it is to have one.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::network::{Machine, address};
use crate::{Result, run, wait_until};

/// The user that a server runs as in a user namespace: it refuses to run as root.
const USER: &str = "1000";

/// Of the board's role.
pub const PASSWORD: &str = "test";

pub struct Server {
    pub machine: Machine,
    number: u8,
    data: PathBuf,
    programs: PathBuf,
}

impl Server {
    /// A server that runs.
    pub fn make(root: &Path, number: u8) -> Result<Self> {
        let server = Self::on_machine(root, number)?;
        let data = &server.data;
        let mut init = server.program("initdb");
        let password = data.with_extension("password");
        fs::write(&password, PASSWORD)?;
        init.arg("-D").arg(data).arg("--pwfile").arg(password);
        run(init.args(["-U", "provost", "-E", "UTF8", "-A", "password"]))?;
        // What a killed server leaves of its memory goes with its folder.
        let settings = "listen_addresses = '*'\nunix_socket_directories = ''\n\
                        max_connections = 200\ndynamic_shared_memory_type = mmap\n";
        append(&data.join("postgresql.conf"), settings)?;
        let doors = "host all,replication all 10.77.0.0/24 password\n";
        append(&data.join("pg_hba.conf"), doors)?;
        server.start()?;
        Ok(server)
    }

    /// A standby that follows a server, which waits for it from now on.
    pub fn standby_of(primary: &Self, root: &Path, number: u8) -> Result<Self> {
        let standby = Self::on_machine(root, number)?;
        let from = format!(
            "host={} user=provost password={PASSWORD} application_name=standby",
            address(primary.number)
        );
        let mut copy = standby.program("pg_basebackup");
        run(copy
            .arg("-D")
            .arg(&standby.data)
            .args(["-R", "-X", "stream", "-c", "fast", "-d", &from]))?;
        standby.start()?;
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")?;
        primary.sql("SELECT pg_reload_conf()")?;
        wait_until("the standby is synchronous", || {
            let rows = primary.query("SELECT sync_state FROM pg_stat_replication")?;
            Ok(rows.trim() == "sync" || rows.trim() == "quorum")
        })?;
        Ok(standby)
    }

    fn on_machine(root: &Path, number: u8) -> Result<Self> {
        let data = root.join(format!("pg{number}"));
        Ok(Self { machine: Machine::make(number)?, number, data, programs: programs()? })
    }

    /// One of the server's programs, on its machine.
    fn program(&self, name: &str) -> Command {
        let mut program = self.machine.command("unshare");
        program.args([
            "--user",
            &format!("--map-user={USER}"),
            &format!("--map-group={USER}"),
            "--",
        ]);
        program.arg(self.programs.join(name));
        program.env("LC_ALL", "C.UTF-8").env("PGPASSWORD", PASSWORD).current_dir("/");
        program
    }

    fn control(&self, what: &[&str]) -> Result<()> {
        let mut control = self.program("pg_ctl");
        control.arg("-D").arg(&self.data).arg("-w").args(what);
        // A server that stays must not hold this program's own pipes.
        control.stdout(Stdio::null()).stderr(Stdio::null());
        let status = control.status()?;
        if status.success() { Ok(()) } else { Err(format!("{control:?}: {status}").into()) }
    }

    pub fn start(&self) -> Result<()> {
        let log = self.data.with_extension("log");
        self.control(&["-l", &log.to_string_lossy(), "start"])
    }

    /// Its own address, which it has beside that of the board.
    pub fn address(&self) -> Ipv4Addr {
        address(self.number)
    }

    pub fn kill(&self) -> Result<()> {
        self.machine.kill_all()
    }

    /// Makes a primary of a standby.
    pub fn promote(&self) -> Result<()> {
        self.control(&["promote"])
    }

    /// Runs a statement; what it returns is dropped.
    pub fn sql(&self, sql: &str) -> Result<()> {
        self.query(sql).map(drop)
    }

    /// The rows of a query, a line each, their columns between `|`.
    pub fn query(&self, sql: &str) -> Result<String> {
        let mut psql = self.program("psql");
        let at = address(self.number).to_string();
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", &at]);
        psql.args(["-U", "provost", "-d", "postgres", "-c", sql]);
        let output = psql.output()?;
        if !output.status.success() {
            return Err(format!("{sql}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn append(file: &Path, text: &str) -> Result<()> {
    Ok(fs::write(file, fs::read_to_string(file)? + text)?)
}

/// The folder of the newest server that is installed.
fn programs() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("PROVOST_TEST_POSTGRES_BIN") {
        return Ok(folder.into());
    }
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest =
        installed.max_by_key(|it| it.file_name().to_str().and_then(|it| it.parse::<u32>().ok()));
    let newest = newest.ok_or("PostgreSQL is not installed: apt-get install postgresql")?;
    Ok(newest.path().join("bin"))
}
