//! The hosts with their board: workers that run attempts, and gateways that clients talk to.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::engine::Server;
use crate::host::{Common, Host};
use crate::network::{BOARD, Machine, address, forget_neighbours, make_bridge};
use crate::oracle::Ledger;
use crate::session::{Home as _, Key, Session};
use crate::{Result, command, run, tick, wait_until};

/// Attempts that a worker runs at once.
const SLOTS: usize = 4;
/// Workers from the beginning on, and where the numbers of their machines begin.
const WORKERS: usize = 3;
const FIRST_WORKER: u8 = 20;
/// The number of the relay's machine.
const RELAY: u8 = 4;
/// Ticks of more than the five seconds between two shipments of logs.
pub const SHIPPED: usize = 120;
/// The executor that is frozen when the lease is late, and the one that runs on.
pub const FENCED: &str = "tick";
pub const UNFENCED: &str = "unfenced";

pub struct Cluster {
    pub lease: Duration,
    pub workers: Vec<Host>,
    pub gateways: Vec<Host>,
    sessions: Vec<Session>,
    /// The server that has the board.
    pub engine: Server,
    pub standby: Option<Server>,
    /// Stands before the engine, if anything does.
    relay: Option<Machine>,
    project_id: String,
    common: Common,
    dir: Option<TempDir>,
}

impl Cluster {
    /// Three workers and two gateways.
    pub fn make(program: &std::path::Path, lease: Duration) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("provost-cluster-").tempdir()?;
        let root = dir.path().canonicalize()?;
        for folder in ["person", "ledger", "repo"] {
            fs::create_dir(root.join(folder))?;
        }
        let identity = "[user]\nname = Cluster\nemail = cluster@example.invalid\n";
        fs::write(root.join("person/.gitconfig"), identity)?;
        let git = |args: &[&str]| {
            run(command("git")
                .args(args)
                .current_dir(root.join("repo"))
                .env("HOME", root.join("person")))
        };
        git(&["init", "--quiet", "--initial-branch=main"])?;
        git(&["commit", "--quiet", "--allow-empty", "--message=The beginning"])?;
        make_bridge()?;
        let engine = Server::make(&root, 2)?;
        engine.machine.has_address(address(BOARD), true)?;
        let common = Common { root: root.clone(), program: program.to_owned() };
        let mut cluster = Self {
            lease,
            workers: Vec::new(),
            gateways: Vec::new(),
            sessions: Vec::new(),
            engine,
            standby: None,
            relay: None,
            project_id: String::new(),
            common,
            dir: Some(dir),
        };
        for (at, number) in [(0, 11), (1, 12)] {
            cluster.gateways.push(cluster.host(&format!("g{}", at + 1), number, "gateway")?);
            cluster.sessions.push(Session::default());
        }
        cluster.add_workers(WORKERS)?;
        let project = json!({"name": "cluster", "repos": [{"path": root.join("repo")}]});
        let made = cluster.call(0, "create_project", &project)?;
        made["project_id"].as_str().ok_or("no project")?.clone_into(&mut cluster.project_id);
        Ok(cluster)
    }

    fn host(&self, name: &str, number: u8, role: &str) -> Result<Host> {
        Host::make(&self.common, name, number, &self.config(name, role)?)
    }

    pub fn config(&self, name: &str, role: &str) -> Result<String> {
        let own = std::env::current_exe()?;
        let command = json!([own, "tick", self.ledger_folder()]);
        let lease = self.lease.as_secs();
        let executor = |name: &str, late: &str| {
            format!(
                "[executors.{name}]\nprotocol = \"plain\"\nsandbox = \"none\"\nresume_args = []\n\
                 on_lease_late = \"{late}\"\ncommand = {command}\n"
            )
        };
        Ok(format!(
            "[engine]\nurl = \"postgres://provost:test@{}/postgres\"\ndurability = \"single\"\n\
             [host]\nname = \"{name}\"\nlease_secs = {lease}\nrole = \"{role}\"\n\
             repositories = \"{}\"\n\
             [daemon]\nmax_running_attempts = {SLOTS}\n{}{}",
            address(BOARD),
            if role == "worker" { "mirrors" } else { "paths" },
            executor(FENCED, "freeze"),
            executor(UNFENCED, "run_on"),
        ))
    }

    pub fn root(&self) -> &PathBuf {
        &self.common.root
    }

    fn ledger_folder(&self) -> PathBuf {
        self.common.root.join("ledger")
    }

    pub fn ledger(&self) -> Result<Ledger> {
        Ledger::read(&self.ledger_folder())
    }

    /// Calls a tool that has to work, through a gateway.
    pub fn call(&mut self, gateway: usize, tool: &str, arguments: &Value) -> Result<Value> {
        self.sessions[gateway].call(&self.gateways[gateway], tool, arguments)
    }

    /// Begins a call that may be refused for now: it is asked again until it is answered.
    pub fn begin(&mut self, gateway: usize, tool: &str, arguments: &Value) -> Result<Key> {
        self.sessions[gateway].begin(&self.gateways[gateway], tool, arguments)
    }

    /// Waits for the answer of such a call.
    pub fn answer(&mut self, gateway: usize, call: Key) -> Result<Value> {
        Ok(self.sessions[gateway].answer(&self.gateways[gateway], call)?.value)
    }

    pub fn task(&mut self, gateway: usize, title: &str) -> Result<String> {
        let task = json!({"project_id": self.project_id, "title": title});
        let made = self.call(gateway, "create_task", &task)?;
        Ok(made["task_id"].as_str().ok_or("no task")?.to_owned())
    }

    /// Starts attempts that tick so many times, in turn through both gateways. Their ids.
    pub fn start(&mut self, count: usize, executor: &str, ticks: u32) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for at in 0..count {
            let gateway = at % self.gateways.len();
            let task_id = self.task(gateway, &format!("Tick {at}"))?;
            let start =
                json!({"task_id": task_id, "executor": executor, "prompt": tick::prompt(ticks)});
            let started = self.call(gateway, "start_task_attempt", &start)?;
            ids.push(started["attempt_id"].as_str().ok_or("no attempt")?.to_owned());
        }
        Ok(ids)
    }

    pub fn status(&mut self, attempt: &str) -> Result<Value> {
        self.call(0, "get_attempt_status", &json!({"attempt_id": attempt}))
    }

    /// Waits until each of them has ticked for so long that some of its log was shipped.
    pub fn tick(&mut self, attempts: &[String]) -> Result<()> {
        wait_until("the attempts tick", || {
            let ledger = self.ledger()?;
            let ticks =
                |id: &String| ledger.of(id).first().is_some_and(|it| it.ticks.len() >= SHIPPED);
            Ok(attempts.iter().all(ticks))
        })
    }

    /// Waits until all are completed.
    pub fn finish(&mut self, attempts: &[String]) -> Result<()> {
        for attempt in attempts {
            wait_until(&format!("attempt {attempt} is completed"), || {
                let status = self.status(attempt)?;
                match status["state"].as_str() {
                    Some("completed") => Ok(true),
                    Some("failed") => Err(format!("it has failed: {status}").into()),
                    _ => Ok(false),
                }
            })?;
        }
        Ok(())
    }

    /// The worker that runs most of them, and how many.
    pub fn busiest(&mut self, attempts: &[String]) -> Result<(usize, usize)> {
        let mut counts = vec![0; self.workers.len()];
        for attempt in attempts {
            let status = self.status(attempt)?;
            let host = status["host"].as_str().unwrap_or_default();
            if let Some(at) = self.workers.iter().position(|it| it.name == host) {
                counts[at] += usize::from(status["state"] == "running");
            }
        }
        let busiest = counts.into_iter().enumerate().max_by_key(|(_, count)| *count);
        busiest.filter(|(_, count)| *count > 0).ok_or_else(|| "no worker runs anything".into())
    }

    /// The texts of an attempt's log, read through a gateway.
    ///
    /// # Errors
    /// An index is missing or comes twice.
    pub fn log(&mut self, gateway: usize, attempt: &str) -> Result<Vec<String>> {
        let (mut after, mut texts) = (-1, Vec::new());
        loop {
            let page = json!({"attempt_id": attempt, "after_entry_index": after, "limit": 500});
            let page = self.call(gateway, "tail_attempt_logs", &page)?;
            for entry in page["entries"].as_array().into_iter().flatten() {
                let index = entry["entry_index"].as_i64().ok_or("no index")?;
                if index != after + 1 {
                    return Err(format!("entry {index} of {attempt} comes after {after}").into());
                }
                after = index;
                texts.push(entry["text"].as_str().unwrap_or_default().to_owned());
            }
            if page["has_more"] != true {
                return Ok(texts);
            }
        }
    }

    /// Waits until a host's daemon has renewed its lease, and is not fenced.
    pub fn is_back(&mut self, name: &str) -> Result<()> {
        wait_until(&format!("host {name} is back"), || {
            let sql = format!(
                "SELECT count(*) FROM hosts WHERE host_id = '{name}' AND fenced_at IS NULL
                     AND lease_until > extract(epoch FROM clock_timestamp()) * 1000"
            );
            Ok(self.engine.query(&sql)?.trim() == "1")
        })
    }

    /// Gives the board a standby that its commits wait for.
    pub fn add_standby(&mut self) -> Result<()> {
        self.standby = Some(Server::standby_of(&self.engine, self.root(), 3)?);
        Ok(())
    }

    /// Makes the standby the server, under the address of the board.
    pub fn fail_over(&mut self) -> Result<()> {
        let standby = self.standby.take().ok_or("there is no standby")?;
        self.engine.kill()?;
        self.engine.machine.has_address(address(BOARD), false)?;
        standby.promote()?;
        standby.machine.has_address(address(BOARD), true)?;
        self.engine = standby;
        self.forget_neighbours()?;
        // It has no standby of its own, and would wait for one.
        self.engine.sql("ALTER SYSTEM SET synchronous_standby_names = ''")?;
        self.engine.sql("SELECT pg_reload_conf()")
    }

    /// The board's address has moved to another machine.
    fn forget_neighbours(&self) -> Result<()> {
        forget_neighbours()?;
        let hosts = self.workers.iter().chain(&self.gateways);
        hosts.map(|host| &host.machine).try_for_each(Machine::forget_neighbours)
    }

    /// Puts a relay before the engine: a round trip to the board takes 10 ms longer from now on.
    pub fn move_engine_away(&mut self) -> Result<()> {
        let relay = Machine::make(RELAY)?;
        let mut program = relay.command(std::env::current_exe()?);
        program.args(["relay", &self.engine.address().to_string(), "5"]).spawn()?;
        self.engine.machine.has_address(address(BOARD), false)?;
        relay.has_address(address(BOARD), true)?;
        self.relay = Some(relay);
        self.forget_neighbours()
    }

    pub fn bring_engine_back(&mut self) -> Result<()> {
        self.relay = None;
        self.engine.machine.has_address(address(BOARD), true)?;
        self.forget_neighbours()
    }

    /// Adds workers, up to so many.
    pub fn add_workers(&mut self, count: usize) -> Result<()> {
        for number in self.workers.len() + 1..=count {
            let at = FIRST_WORKER + u8::try_from(number)?;
            self.workers.push(self.host(&format!("w{number}"), at, "worker")?);
        }
        Ok(())
    }

    /// Ends the daemons of those that were added.
    pub fn remove_workers(&mut self) -> Result<()> {
        for mut host in self.workers.drain(WORKERS..) {
            run(&mut host.provost(&["shutdown"]))?;
            wait_until("an added daemon has ended", || host.has_ended())?;
        }
        Ok(())
    }

    /// The files that each commit of the target branch changed, newest first.
    pub fn commits(&self) -> Result<Vec<String>> {
        let mut log = command("git");
        log.args(["log", "--first-parent", "--diff-merges=first-parent", "--name-only"]);
        log.args(["--format=%x00", "main"]).current_dir(self.root().join("repo"));
        let output = log.env("HOME", self.root().join("person")).output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(text.split('\0').skip(1).map(str::to_owned).collect())
    }

    /// How many transactions have written something so far.
    pub fn transactions(&self) -> Result<usize> {
        let sql = "SELECT pg_snapshot_xmax(pg_current_snapshot())";
        Ok(self.engine.query(sql)?.trim().parse()?)
    }

    /// Loses all hosts: the board is left alone.
    pub fn lose_all(&mut self) -> Result<()> {
        self.sessions.clear();
        self.workers.iter_mut().chain(&mut self.gateways).try_for_each(Host::kill)
    }

    /// Leaves the files where they are, and says where.
    pub fn keep(&mut self) -> PathBuf {
        self.dir.take().map(TempDir::keep).unwrap_or_default()
    }
}
