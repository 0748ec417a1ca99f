//! A home of its own, and the daemon on it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;

use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;

use super::{Board, Client, Locked, Repo, eventually, postgres, processes, program};

/// How often a daemon is started before a test gives up on it.
const STARTS: usize = 20;

/// The protocols that scripts speak.
pub const PLAIN: &str = "plain";
pub const EVENTS: &str = "events";

/// A folder with a home, a person's home and repositories. Dropped, it takes
/// with it the daemon and every process that came from it.
pub struct Provost {
    root: TempDir,
    home: PathBuf,
    variables: Vec<(String, String)>,
    program: PathBuf,
    user: Option<u32>,
    daemon: Mutex<Option<Child>>,
    client: Mutex<Option<Client>>,
}

/// How a verb ended.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().expect("a verb ends by itself"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// What it printed, as JSON.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

impl Provost {
    /// No daemon runs yet.
    pub fn new() -> Self {
        Self::in_folder("home")
    }

    /// With a daemon.
    pub fn running() -> Self {
        Self::new().started()
    }

    /// The home has this path below the scratch folder.
    pub fn in_folder(name: &str) -> Self {
        let root = tempfile::Builder::new().prefix("provost-it-").tempdir().unwrap();
        // macOS and some Linux set-ups have a link in the way to the temporary folder.
        let home = root.path().canonicalize().unwrap().join(name);
        let person = root.path().join("person");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir(&person).unwrap();
        let identity = "[user]\nname = Test\nemail = test@example.invalid\n";
        fs::write(person.join(".gitconfig"), identity).unwrap();
        let (daemon, client) = (Mutex::default(), Mutex::default());
        let program = env!("CARGO_BIN_EXE_provost").into();
        let variables = postgres::of_a_home();
        Self { root, home, variables, program, user: None, daemon, client }
    }

    /// Adds to `config.toml`.
    pub fn config(self, text: &str) -> Self {
        let path = self.home.join("config.toml");
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{text}").unwrap();
        self
    }

    /// Adds an executor: a shell script that speaks a protocol.
    pub fn executor(self, name: &str, protocol: &str, script: &str) -> Self {
        let path = self.script(name, script);
        let path = path.display();
        let table = format!("[executors.{name}]\nprotocol = '{protocol}'\ncommand = ['{path}']");
        // Without these, a line in each log and a summary in each later prompt say that they are missing.
        let more = match protocol {
            "plain" => "\nsandbox = 'none'\nresume_args = []",
            "events" => "\nsandbox = 'none'",
            _ => "",
        };
        self.config(&format!("{table}{more}"))
    }

    /// Adds to the environment of the daemon and of the verbs.
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whatever is run from here on is run by a user without privileges, to whom
    /// all that is there is given. Asks for root.
    pub fn unprivileged(self) -> Self {
        const UNPRIVILEGED: u32 = 65534;
        // Cargo's folder may be closed to others.
        let mut provost = self.copied();
        provost.user = Some(UNPRIVILEGED);
        for entry in walk(provost.root.path()) {
            lchown(entry, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).unwrap();
        }
        provost
    }

    /// Runs a copy of the program that the test may do with what it likes.
    pub fn copied(mut self) -> Self {
        let copy = self.path("provost");
        fs::copy(&self.program, &copy).unwrap();
        self.program = copy;
        self
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn started(self) -> Self {
        self.start();
        self
    }

    /// Writes a shell script that can be run.
    pub fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A path in the scratch folder, outside of the home.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Adds to the person's own configuration of git.
    pub fn person_configures(&self, text: &str) {
        let path = self.path("person").join(".gitconfig");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub fn repo(&self, name: &str) -> Repo {
        Repo::new(self.path(name), &self.path("person"))
    }

    pub fn empty_repo(&self, name: &str) -> Repo {
        Repo::empty(self.path(name), &self.path("person"))
    }

    /// A project with one repository.
    pub fn board(&self) -> Board<'_> {
        Board::new(self, vec![self.repo("app")])
    }

    /// `provost` with these arguments, in an environment of its own.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_of(&self.program, args)
    }

    /// A shell script in the same environment, which calls `"$PROVOST"`.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = self.command_of("/bin/sh", &["-c", script]);
        command.env("PROVOST", &self.program);
        command
    }

    /// Any program in that environment.
    fn command_of(&self, name: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Command {
        let mut command = program(name);
        command.args(args);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
            .current_dir(self.root.path())
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("LANG", "C.UTF-8")
            .env("HOME", self.path("person"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("PROVOST_HOME", &self.home)
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a verb.
    pub fn verb<const N: usize>(&self, args: [&str; N]) -> Done {
        Self::done(self.command(&args))
    }

    /// Runs what [`command`](Self::command) made.
    pub fn done(mut command: Command) -> Done {
        Done::of(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Starts the daemon in the foreground and waits until it answers.
    pub fn start(&self) {
        self.start_with(&[], &[]);
    }

    /// Starts the daemon by way of a program that executes what follows its own
    /// arguments, and stays the same process.
    pub fn start_by(&self, wrapper: &[&str]) {
        self.start_with(wrapper, &[]);
    }

    /// A daemon that is to end by itself, how it does.
    pub fn fails_to_start(&self) -> Done {
        let mut daemon = self.command(&["daemon"]);
        daemon.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut daemon = daemon.spawn().unwrap();
        eventually("the daemon ends by itself", || daemon.try_wait().unwrap());
        Done::of(daemon.wait_with_output().unwrap())
    }

    /// Starts a daemon that dies as by SIGKILL at a failpoint.
    pub fn start_to_die_at(&self, failpoint: &str) {
        self.start_with(&[], &[("PROVOST_FAILPOINT", failpoint)]);
    }

    /// One that a bridge set going and that is slow to come may be first: it has to
    /// go, for the daemon of a test is the test's own.
    fn start_with(&self, wrapper: &[&str], variables: &[(&str, &str)]) {
        let file = |path| File::options().append(true).create(true).open(path).unwrap();
        let mut slot = self.daemon.lock().unwrap();
        assert!(slot.is_none(), "a daemon runs already");
        for _ in 0..STARTS {
            let program = self.program.to_str().unwrap();
            let words = [wrapper, &[program, "daemon"]].concat();
            let mut daemon = self.command_of(words[0], &words[1..]);
            daemon.envs(variables.iter().copied());
            daemon.stdin(Stdio::null()).stdout(file(self.path("stdout"))).stderr(file(self.log()));
            let mut daemon = daemon.spawn().unwrap();
            let is_ours = eventually("the daemon answers", || {
                if let Some(ended) = daemon.try_wait().unwrap() {
                    assert_eq!(ended.code(), Some(3), "the daemon ended: {}", self.said());
                    return Some(false);
                }
                self.try_connect().map(|_| self.pid() == daemon.id().cast_signed())
            });
            if is_ours {
                *slot = Some(daemon);
                return;
            }
            let _ = daemon.kill();
            daemon.wait().unwrap();
            processes::kill_hard(self.pid());
        }
        panic!("no daemon of the test's own starts: {}", self.said());
    }

    /// Waits until a daemon answers that another process starts.
    pub fn is_started(&self) {
        eventually("a daemon answers", || self.try_connect());
    }

    /// The daemon's pid.
    pub fn pid(&self) -> i32 {
        let lock = fs::read_to_string(self.home.join("run/daemon.lock")).unwrap();
        lock.trim().parse().unwrap()
    }

    /// Kills the daemon with SIGKILL, whoever started it.
    pub fn kill(&self) {
        processes::kill_hard(self.pid());
        if let Some(mut daemon) = self.daemon.lock().unwrap().take() {
            daemon.wait().unwrap();
        }
        *self.client.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    pub fn kill_and_start(&self) {
        self.kill();
        self.start();
    }

    /// Waits for the daemon to end by itself; returns its exit code.
    pub fn ended(&self) -> Option<i32> {
        let mut daemon = self.daemon.lock().unwrap().take().expect("a daemon runs");
        *self.client.lock().unwrap() = None;
        eventually("the daemon ends", || daemon.try_wait().unwrap()).code()
    }

    /// What the daemon has said.
    pub fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.path("stderr")
    }

    /// A connection to the daemon's socket, with every tool.
    pub fn connect(&self) -> Client {
        self.try_connect().expect("a daemon listens")
    }

    fn try_connect(&self) -> Option<Client> {
        let hello = json!({"provost": "hello", "v": 1, "role": "all", "client": "cli"});
        let socket = self.home.join("run/daemon.sock");
        match self.user {
            Some(user) => Client::over_socket_of(user, &socket, &hello),
            None => Client::over_socket(&socket, &hello),
        }
    }

    /// A client of `provost mcp`, before its handshake.
    pub fn bridge(&self) -> Client {
        Client::over_bridge(self.command(&["mcp"]))
    }

    /// A worker outside any attempt, in a folder; it has not said anything yet.
    pub fn worker(&self, folder: &Path) -> Client {
        self.worker_with(folder, &[])
    }

    /// The same, its bridge with these flags too.
    pub fn worker_with(&self, folder: &Path, flags: &[&str]) -> Client {
        let mut command = self.command(&["mcp", "--role", "worker"]);
        command.args(flags).current_dir(folder);
        Client::over_bridge(command)
    }

    /// A worker inside an attempt, as its executor would have it.
    pub fn inside(&self, attempt: &str) -> Client {
        let mut command = self.command(&["mcp"]);
        command.env("PROVOST_ATTEMPT_ID", attempt);
        Client::over_bridge(command)
    }

    /// Calls a tool that is to work.
    pub fn call(&self, tool: &str, arguments: &Value) -> Value {
        self.answer(tool, arguments).output()
    }

    /// Calls a tool that is to refuse; returns the envelope.
    pub fn refusal(&self, tool: &str, arguments: &Value) -> Value {
        self.answer(tool, arguments).refusal()
    }

    /// Calls a tool.
    pub fn answer(&self, tool: &str, arguments: &Value) -> super::Answer {
        let mut client = self.client.lock().unwrap();
        client.get_or_insert_with(|| self.connect()).call(tool, arguments)
    }

    /// The URL of its board, if all tests' boards are on PostgreSQL.
    fn engine(&self) -> Option<&str> {
        let url = self.variables.iter().find(|(name, _)| name == postgres::URL_VARIABLE);
        url.map(|(_, url)| url.as_str())
    }

    /// Changes the database.
    pub fn sql(&self, statements: &[&'static str]) {
        if let Some(url) = self.engine() {
            return statements.iter().for_each(|statement| postgres::run(url, statement));
        }
        self.in_database(async |connection| {
            for statement in statements {
                sqlx::query(*statement).execute(&mut *connection).await.unwrap();
            }
        });
    }

    /// The first column of a query of the database: text.
    pub fn rows(&self, query: &'static str) -> Vec<String> {
        if let Some(url) = self.engine() {
            return postgres::rows(url, query);
        }
        self.in_database(async |connection| {
            sqlx::query_scalar(query).fetch_all(connection).await.unwrap()
        })
    }

    fn in_database<T>(&self, ask: impl AsyncFnOnce(&mut sqlx::SqliteConnection) -> T) -> T {
        let path = self.home.join("provost.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut connection = options.connect().await.unwrap();
            let answer = ask(&mut connection).await;
            connection.close().await.unwrap();
            answer
        })
    }

    /// Holds the database's write lock, as another program may, until it is dropped.
    pub fn lock_database(&self) -> Locked {
        Locked::new(&self.home.join("provost.db"))
    }

    /// Removes what shims would have, had they not been killed.
    fn remove_cgroups(&self) {
        let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
        for attempt in below(&self.home.join("attempts")) {
            for process in below(&attempt.path()) {
                let manifest = fs::read(process.path().join("manifest.json")).unwrap_or_default();
                let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
                if let Some(cgroup) = manifest["cgroup"].as_str() {
                    let _ = fs::remove_dir(cgroup);
                }
            }
        }
    }

    /// The processes that came from this home, the daemon included.
    pub fn processes(&self) -> Vec<i32> {
        processes::with_variable("PROVOST_HOME", &self.home.to_string_lossy())
    }
}

/// A folder and all below it.
fn walk(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            found.extend(walk(&entry.unwrap().path()));
        }
    }
    found
}

impl Provost {
    /// A folder on which this thread has mounted something can't be removed.
    fn unmount_home(&self) {
        let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
        let home = self.home.display().to_string();
        if mounts.lines().any(|line| line.split(' ').nth(4) == Some(home.as_str())) {
            let _ = program("umount").args(["--lazy", &home]).status();
        }
    }
}

impl Drop for Provost {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the daemon said:\n{}---", self.said());
        }
        let daemon = self.daemon.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(mut daemon) = daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        processes::kill_all_with("PROVOST_HOME", &self.home.to_string_lossy());
        // Shims have no environment: they are recognized by their working folder.
        processes::kill_all_below(&self.home);
        self.remove_cgroups();
        self.unmount_home();
    }
}
