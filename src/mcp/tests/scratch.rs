//! A real domain, with its actors, on a store in a temporary folder. No attempt gets a slot, so
//! each stays queued, and git is the only program that runs.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use provost_actors::attempt::Machine;
use provost_actors::checks::Checks;
use provost_actors::gateway::Gateway;
use provost_actors::host::{HostRole, LOCAL, Registration};
use provost_actors::limits::SoftLimits;
use provost_actors::log::{LogLimits, Logs};
use provost_actors::process::Shims;
use provost_actors::refusal::Refusal;
use provost_actors::secret::SecretNames;
use provost_actors::workspace::Repositories;
use provost_actors::workspace::cache::Cache;
use provost_actors::world::{
    ActorSettings, CheckSignals, LaunchSettings, OwnHost, WorktreeSettings, World,
};
use ractor::Actor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::api::{Access, Caller, CallerLocation, Idempotent, Role};
use crate::config::Config;
use crate::domain::{Domain, Owners};
use crate::executors::Registry;
use crate::home::Home;
use crate::store::Store;
use crate::tools::{Call, table as tools};

/// A domain whose folder is removed when the test ends, whether it passes or fails.
pub struct Scratch {
    pub domain: Arc<Domain>,
    pub store: Store,
    /// Cancelled, it ends every call that sleeps.
    pub ending: CancellationToken,
    dir: TempDir,
}

/// The ids of what is on a board.
pub struct Board {
    pub project: String,
    pub task: String,
    /// It is queued.
    pub attempt: String,
}

impl Scratch {
    /// A domain with an empty board.
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home")).unwrap();
        let config = Config::load(&home.config_file(), &[]).unwrap();
        let store = crate::store::scratch::open(&home.data_dir).await;
        let registration = Registration {
            host_id: LOCAL.to_owned(),
            secret: String::new(),
            labels: Vec::new(),
            slots: 0,
            memory: 0,
            version: String::new(),
            role: HostRole::All,
            lease: None,
            fenced_at: None,
        };
        let host = OwnHost::new(&store.register_host(&registration).await.unwrap());
        let world = Arc::new(world(&home, &config, &store, host));
        let (gateway, _) = Actor::spawn(None, Gateway, Arc::clone(&world)).await.unwrap();
        let arguments = (Arc::clone(&world), gateway.clone());
        let (checks, _) = Actor::spawn(None, Checks, arguments).await.unwrap();
        let ending = CancellationToken::new();
        let domain = Arc::new(Domain::new(
            store.clone(),
            Owners { gateway, checks },
            world,
            config.settings.guards,
            config.settings.answers,
            home.data_dir.clone(),
            ending.clone(),
        ));
        Self { domain, store, ending, dir }
    }

    /// Puts a project with a repository, a task and an attempt on the board.
    pub async fn board(&self) -> Board {
        let repo = self.dir.path().join("app");
        std::fs::create_dir(&repo).unwrap();
        for line in ["init -q -b main", "commit -q --allow-empty -m first"] {
            #[expect(clippy::disallowed_methods, reason = "the tests need a real repository")]
            let mut git = Command::new("git");
            git.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]);
            git.args(["-c", "commit.gpgsign=false"]).args(line.split(' '));
            assert!(git.current_dir(&repo).status().unwrap().success());
        }
        let new = json!({"name": "p", "repos": [{"path": repo}]});
        let project = self.made("create_project", new, "project_id").await;
        let new = json!({"project_id": project, "title": "t"});
        let task = self.made("create_task", new, "task_id").await;
        let attempt = self.start(&task).await;
        Board { project, task, attempt }
    }

    /// The lines of the audit log.
    pub fn audit_log(&self) -> String {
        let data_dir = Home::at(self.dir.path().join("home")).unwrap().data_dir;
        std::fs::read_to_string(data_dir.join(crate::audit::FILE)).unwrap()
    }

    /// Adds an attempt; returns its id.
    pub async fn start(&self, task: &str) -> String {
        let start = json!({"task_id": task, "executor": "fake"});
        self.made("start_task_attempt", start, "attempt_id").await
    }

    async fn made(&self, tool: &str, arguments: Value, id: &str) -> String {
        let made = self.call(&caller(Role::All, None), tool, arguments).await.unwrap();
        made.value[id].as_str().unwrap().to_owned()
    }

    /// Calls a tool as a connection does.
    pub async fn call(
        &self,
        caller: &Caller,
        tool: &str,
        arguments: Value,
    ) -> Result<Idempotent<Value>, Refusal> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let call = Call { service: &*self.domain, caller, arguments, id: None };
        tools::find(tool).unwrap().call(call).await
    }
}

/// A connection; `attempt` is what it says that it works in.
pub fn caller(role: Role, attempt: Option<&str>) -> Caller {
    Caller {
        role,
        attempt: attempt.map(|id| id.parse().unwrap()),
        place: CallerLocation::Outside,
        is_person: false,
        agent: "an-agent".to_owned(),
        access: Access::of(role),
        cwd: None,
        origin: crate::api::Origin::default(),
    }
}

fn world(home: &Home, config: &Config, store: &Store, host: OwnHost) -> World {
    let limits = LogLimits { ring_entries: 100, ring_bytes: 1 << 20, spool_max_bytes: 1 << 20 };
    World {
        journal: Arc::new(store.clone()),
        host,
        // Without a PATH, no agent that is installed here can run.
        executors: Arc::new(Registry::new(config, Machine::default())),
        shims: Shims::new("/proc/self/exe".into()),
        repositories: Repositories::default(),
        logs: Logs::new(home.attempts(), limits),
        check_signals: CheckSignals::default(),
        to_probe: std::sync::Mutex::default(),
        to_push: tokio::sync::Notify::default(),
        settings: ActorSettings {
            max_running_attempts: 0,
            max_running_answers: 0,
            approval_timeout: None,
            folders: home.for_actors(),
            launch: LaunchSettings {
                stop_grace: Duration::ZERO,
                spool_max_bytes: 1 << 20,
                cgroups: None,
                soft_limits: SoftLimits::default(),
                environment: BTreeMap::new(),
                secret_names: SecretNames(vec![]),
                program: "/proc/self/exe".into(),
                home_variable: None,
            },
            worktrees: WorktreeSettings {
                branch_prefix: "provost/".to_owned(),
                repos: provost_actors::repo_settings::RepoConfig::default(),
                places: store.places().clone(),
                cache: Cache { dir: home.cache(), scratch: home.scratch(), max_bytes: 0 },
                copy_max_bytes: 0,
                ports: 24000..=31999,
                keep_snapshots: Duration::ZERO,
                snapshot_remote: None,
            },
            checks: provost_actors::world::Checks::default(),
            forges: BTreeMap::new(),
        },
    }
}
