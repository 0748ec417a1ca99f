//! A database of PostgreSQL for a test, and a server that a test may stop.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

use super::program;

/// The common server; `None`, after a line that says so: there is none.
fn common() -> Option<String> {
    let url = std::env::var("PROVOST_TEST_POSTGRES").ok();
    if url.is_none() {
        assert!(std::env::var_os("PROVOST_TEST_ALL").is_none(), "PROVOST_TEST_POSTGRES is not set");
        eprintln!("left out: it needs PostgreSQL, which `.ci/postgres COMMAND` gives it");
    }
    url
}

/// Whether the programs of a server are there; `false`, after a line that says so: they are not.
pub fn has_programs() -> bool {
    common().is_some()
}

/// Runs a statement on a database.
pub fn run(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
}

/// The first column of a query: text.
pub fn rows(url: &str, sql: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let rows = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        rows
    })
}

/// What the last build that had a migration for each change has recorded, made of what this version records.
pub const AS_A_FORMER_BUILD: [&str; 2] = [
    "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
     SELECT version - 1, 'former', success, checksum, 0 FROM _sqlx_migrations",
    "UPDATE _sqlx_migrations SET description = 'turn facts', checksum = decode(
         '4481e9c096251d9fd7b31f058da8109ecc3deb229d23e6434d1efed0f2f6ec85' ||
         '32b5e217c276b316fb6093274f751e6e', 'hex') WHERE version = 36",
];

/// Makes the board that that build has.
pub fn of_a_former_build(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::migrate!("migrations/postgres").run(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
    for sql in AS_A_FORMER_BUILD {
        run(url, sql);
    }
}

/// The URL of a new database on the common server.
pub fn database(name: &str) -> Option<String> {
    let url = common()?;
    run(&url, &format!("CREATE DATABASE {name}"));
    Some(url.replace("/postgres?", &format!("/{name}?")))
}

/// Names the board's database to a daemon.
pub const URL_VARIABLE: &str = "PROVOST_ENGINE_URL";

/// With `PROVOST_TEST_ENGINE=postgres`, what puts the board of each home into a new database.
pub fn of_a_home() -> Vec<(String, String)> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    if std::env::var("PROVOST_TEST_ENGINE").as_deref() != Ok("postgres") {
        return Vec::new();
    }
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let url = database(&format!("home_{}_{number}", std::process::id())).unwrap();
    vec![
        (URL_VARIABLE.to_owned(), url),
        ("PROVOST_ENGINE_DURABILITY".to_owned(), "single".to_owned()),
    ]
}

/// A server of a test's own. Dropped, it ends.
pub struct Server {
    folder: TempDir,
    programs: PathBuf,
    /// The common server's user: root may not run one.
    user: (u32, u32),
}

impl Server {
    /// A server that runs.
    pub fn new() -> Option<Self> {
        let url = common()?;
        let socket = url.split_once("host=").unwrap().1;
        let owner = fs::metadata(socket).unwrap();
        let folder = tempfile::Builder::new().prefix("provost-pg-").tempdir_in("/tmp").unwrap();
        chown(folder.path(), Some(owner.uid()), Some(owner.gid())).unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let programs = std::env::var_os("PROVOST_TEST_POSTGRES_BIN").unwrap().into();
        let server = Self { folder, programs, user: (owner.uid(), owner.gid()) };
        fs::write(server.folder.path().join("password"), "sesame\n").unwrap();
        let args = ["-D", "data", "-U", "provost", "-E", "UTF8", "-A", "password", "-N"];
        server.done("initdb", &[&args[..], &["--pwfile=password"]].concat());
        // What a killed server leaves of its memory goes with its folder.
        let settings = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\n\
             dynamic_shared_memory_type = mmap\n",
            server.folder.path().display()
        );
        let file = server.folder.path().join("data/postgresql.conf");
        fs::write(&file, fs::read_to_string(&file).unwrap() + &settings).unwrap();
        server.start();
        Some(server)
    }

    fn done(&self, name: &str, args: &[&str]) {
        let mut command = program(self.programs.join(name));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        // A server that stays must not hold the test's own pipes.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if nix::unistd::geteuid().is_root() {
            command.gid(self.user.1).uid(self.user.0);
        }
        assert!(command.status().unwrap().success(), "{name} {args:?}");
    }

    pub fn url(&self) -> String {
        format!(
            "postgres://provost:sesame@localhost/postgres?host={}",
            self.folder.path().display()
        )
    }

    /// Has it listen on the local host with TLS alone, and returns the port.
    pub fn listen(&self, certificate: &Path, key: &Path) -> u16 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for (from, name) in [(certificate, "tls.crt"), (key, "tls.key")] {
            let to = self.folder.path().join("data").join(name);
            fs::copy(from, &to).unwrap();
            fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
            chown(&to, Some(self.user.0), Some(self.user.1)).unwrap();
        }
        let file = self.folder.path().join("data/postgresql.conf");
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nssl = on\nssl_cert_file = 'tls.crt'\n\
             ssl_key_file = 'tls.key'\n"
        );
        fs::write(&file, fs::read_to_string(&file).unwrap() + &settings).unwrap();
        self.crash();
        self.start();
        port
    }

    /// Has it let everybody in without a password from now on.
    pub fn ask_for_no_password(&self) {
        let file = self.folder.path().join("data/pg_hba.conf");
        let rules = fs::read_to_string(&file).unwrap().replace(" password", " trust");
        fs::write(&file, rules).unwrap();
        self.crash();
        self.start();
    }

    pub fn start(&self) {
        self.done("pg_ctl", &["-D", "data", "-l", "log", "-w", "start"]);
    }

    /// Ends the server as a crash would.
    pub fn crash(&self) {
        self.done("pg_ctl", &["-D", "data", "-m", "immediate", "stop"]);
    }

    pub fn is_up(&self) -> bool {
        Path::new(&self.folder.path().join("data/postmaster.pid")).exists()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_up() {
            self.crash();
        }
    }
}
