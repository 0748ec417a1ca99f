//! The table of settings. The typed structs, the keys of `config.toml`, the names of environment
//! variables and the output of `config show` all follow from it: the comment on a key in the macro call
//! is its text there. Pure.

use provost_actors::secret::SecretNames;
use serde_json::{Value, json};

use super::allowed::Allowed;
use super::engine::without_password;

/// One setting, as everything that handles settings by name sees it.
pub struct Setting {
    pub section: &'static str,
    pub key: &'static str,
    doc: &'static str,
    pub allowed: Allowed,
    /// A second environment variable that sets it.
    pub alias: Option<&'static str>,
    /// Its value in the typed settings.
    pub get: fn(&Settings) -> Value,
    /// Call it only with values that pass [`Setting::check`]: others are ignored.
    pub set: fn(&mut Settings, Value),
}

impl Setting {
    /// `section.key`, as messages and `config show` write it.
    pub fn path(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// The environment variable of this setting.
    pub fn variable(&self) -> String {
        format!("PROVOST_{}_{}", self.section, self.key).to_uppercase()
    }

    /// The flag for this setting. Only some settings have one: the command line defines which.
    pub fn flag(&self) -> String {
        let name = if self.path() == "engine.url" { self.section } else { self.key };
        format!("--{}", name.replace('_', "-"))
    }

    /// The value as it may be shown: without the password of a URL.
    pub fn shown(&self, value: Value) -> Value {
        match (&self.allowed, value.as_str()) {
            (Allowed::Engine, Some(url)) => json!(without_password(url)),
            _ => value,
        }
    }

    /// Its documentation, from the comment in the table.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// What [`Setting::check`] allows, in words.
    pub fn expected(&self) -> String {
        self.allowed.expected()
    }

    /// True if the setting accepts the value.
    pub fn check(&self, value: &Value) -> bool {
        self.allowed.check(value)
    }

    /// Reads the text of an environment variable or a flag. `None`: the setting does not accept it.
    pub fn parse(&self, text: &str) -> Option<Value> {
        self.allowed.parse(text)
    }
}

macro_rules! settings {
    ($(
        $(#[doc = $about:literal])*
        $section:ident $Section:ident {
            $($(#[doc = $doc:literal])* $key:ident: $type:ty = $default:expr, $allowed:expr
                $(, alias $alias:literal)?;)*
        }
    )*) => {
        $(
            $(#[doc = $about])*
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $Section {
                $($(#[doc = $doc])* pub $key: $type,)*
            }
        )*

        /// Every setting's value.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $about])* pub $section: $Section,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($section: $Section { $($key: $default.into(),)* },)* }
            }
        }

        /// Every setting, in the order in which it is documented.
        pub static TABLE: &[Setting] = &[
            $($(Setting {
                section: stringify!($section),
                key: stringify!($key),
                doc: concat!($($doc),*),
                allowed: $allowed,
                alias: settings!(@alias $($alias)?),
                get: |settings| json!(settings.$section.$key),
                set: |settings, value| {
                    if let Ok(value) = serde_json::from_value(value) {
                        settings.$section.$key = value;
                    }
                },
            },)*)*
        ];
    };
    (@alias) => { None };
    (@alias $alias:literal) => { Some($alias) };
}

/// The upper bound of counts.
pub const MANY: u64 = 1_000_000;
/// The bound for memory in MiB: a pebibyte.
pub const MEMORY_MB_MAX: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const CENTURY_SECS: u64 = 100 * 366 * 86_400;

settings! {
    /// The supervisor itself.
    daemon Daemon {
        /// Attempts that run at once; further ones wait in a queue.
        max_running_attempts: usize = 8usize, Allowed::Integer(1..=10_000);
        /// Milliseconds from a soft stop's SIGINT to its SIGKILL; SIGTERM comes half-way.
        stop_grace_ms: u64 = 5000u64, Allowed::Integer(0..=600_000);
    }
    /// This machine, as executors that ask for labels find it.
    host Host {
        /// Its name where hosts share a database, which no other one has; "" = the machine's name.
        name: String = "", Allowed::Name;
        /// What it has, in words: executors with `labels` run only where all of theirs are.
        labels: Vec<String> = [], Allowed::Labels;
        /// MiB of memory that its attempts may ask for together by `memory_mb` of their executors; 0 = what
        /// the machine has.
        memory_mb: u64 = 0u64, Allowed::Integer(0..=MEMORY_MB_MAX);
        /// Where hosts share a database: a `gateway` runs no attempts, a `worker` serves only its own.
        role: String = "all", Allowed::Word(&["all", "gateway", "worker"]);
        /// Seconds that its lease lasts, where hosts share a database; it is renewed six times as often.
        lease_secs: u64 = 30u64, Allowed::Integer(3..=600);
        /// Where it works, where hosts share a database: `paths` = in the repositories at their paths,
        /// and in mirrors of those that it does not have there; `mirrors` = only in mirrors.
        repositories: String = "paths", Allowed::Word(&["paths", "mirrors"]);
    }
    /// The attempts' worktrees.
    worktrees Worktrees {
        /// Prefix of the attempts' branch names.
        branch_prefix: String = "provost/", Allowed::BranchPrefix;
        /// Days that `provost gc` keeps the snapshots of the turns of a collected attempt.
        snapshot_days: u64 = 30u64, Allowed::Integer(0..=36_600);
        /// Bytes of ignored files that a worktree gets as copies, where they can't be clones.
        copy_max_bytes: u64 = 1_073_741_824u64, Allowed::Integer(0..=TIB);
        /// Bytes of cached results of setups, the oldest of which go first; 0 = none are kept.
        cache_max_bytes: u64 = 10_737_418_240u64, Allowed::Integer(0..=TIB);
        /// Ports of which each attempt that declares any gets a block of 10. Outside the range of
        /// outgoing connections, which begins at 32768 on Linux.
        ports: String = "24000-31999", Allowed::Ports;
    }
    /// The executors' output.
    logs Logs {
        /// Newest normalized entries of an attempt kept in memory.
        ring_entries: usize = 5000usize, Allowed::Integer(1..=MANY);
        /// Bytes of them kept in memory.
        ring_bytes: usize = 8_388_608usize, Allowed::Integer(1024..=TIB);
        /// Bytes kept on disk per execution process; beyond it the oldest are deleted.
        spool_max_bytes: u64 = 1_073_741_824u64, Allowed::Integer(1024..=TIB);
    }
    /// What an executor may use, unless it has limits of its own.
    limits Limits {
        /// Seconds that a turn may take; 0 = no limit.
        wall_secs: u64 = 0u64, Allowed::Integer(0..=CENTURY_SECS);
        /// Seconds without output and CPU use after which a turn is ended; 0 = never.
        idle_secs: u64 = 0u64, Allowed::Integer(0..=CENTURY_SECS);
        /// Bytes of private memory for an executor and all it starts; 0 = no limit.
        memory_bytes: u64 = 0u64, Allowed::Integer(0..=1 << 60);
        /// Processes that an executor may have at once, itself included; 0 = no limit.
        processes: u64 = 0u64, Allowed::Integer(0..=MANY);
        /// Files that each of its processes may have open; 0 = the daemon's own limit.
        open_files: u64 = 0u64, Allowed::Integer(0..=1 << 31);
        /// Added to the daemon's niceness for an executor.
        nice: u64 = 0u64, Allowed::Integer(0..=19);
    }
    /// The checks of a project, run on a task that is reported done.
    checks Checks {
        /// Runs at once, each with one check at a time; further ones wait.
        max_running: usize = 1usize, Allowed::Integer(1..=1000);
        /// Seconds that a check may take; 0 = no limit.
        wall_secs: u64 = 1800u64, Allowed::Integer(0..=CENTURY_SECS);
        /// Bytes of private memory for a check and all it starts; 0 = no limit.
        memory_bytes: u64 = 0u64, Allowed::Integer(0..=1 << 60);
        /// Processes that a check may have at once, itself included; 0 = no limit.
        processes: u64 = 0u64, Allowed::Integer(0..=MANY);
    }
    /// Permissions that executors ask for.
    approvals Approvals {
        /// Seconds after which an unanswered request is denied; 0 = never.
        timeout_secs: u64 = 3600u64, Allowed::Integer(0..=CENTURY_SECS);
    }
    /// Callers of the worker API.
    worker Worker {
        /// Calls that one agent may make in a minute; 0 = no limit.
        agent_per_minute: u64 = 100u64, Allowed::Integer(0..=MANY);
        /// Calls that all agents together may make in a minute; 0 = no limit.
        all_per_minute: u64 = 500u64, Allowed::Integer(0..=MANY);
        /// Calls that one agent may make in a second; 0 = no limit.
        burst_per_second: u64 = 10u64, Allowed::Integer(0..=MANY);
        /// Seconds after its last call for which an agent outside of attempts keeps its tasks.
        claim_secs: u64 = 3600u64, Allowed::Integer(1..=CENTURY_SECS);
    }
    /// How workers' questions are answered that no plan answers.
    answers Answers {
        /// The executor that is asked; "" = only the orchestrator and people.
        executor: String = "", Allowed::Name;
        /// Its variant; "" = a read-only one, if it has any.
        variant: String = "", Allowed::Name;
        /// Seconds that a question waits for it.
        timeout_secs: u64 = 30u64, Allowed::Integer(1..=600);
        /// Further seconds in which a late answer is still accepted; then it is stopped.
        grace_secs: u64 = 120u64, Allowed::Integer(0..=3600);
        /// Questions that it answers at once, apart from daemon.max_running_attempts.
        max_running: usize = 2usize, Allowed::Integer(1..=1000);
        /// Tokens of which a question with its context may take up 80 %.
        token_limit: u64 = 8000u64, Allowed::Integer(100..=10_000_000);
    }
    /// The page and the API over HTTP.
    http Http {
        /// Where it listens, or "off". Port 0: a free one, the same as before if it can be had.
        listen: String = "127.0.0.1:0", Allowed::Listen;
        /// Further names that requests may ask for, such as this machine's.
        names: Vec<String> = [], Allowed::HostNames;
        /// The file with the certificate chain, in PEM; with it, HTTPS is spoken.
        tls_certificate: String = "", Allowed::Path;
        /// The file with the certificate's private key, in PEM.
        tls_key: String = "", Allowed::Path;
        /// Where plain HTTP may be spoken: "loopback", or "everywhere", which lets others read along.
        plain: String = "loopback", Allowed::Word(&["loopback", "everywhere"]);
    }
    /// The boxes around executors.
    sandbox Sandbox {
        /// Hosts that every executor with sandbox = "strict" may reach, beside its own.
        allow_hosts: Vec<String> = [], Allowed::HostList;
    }
    /// What no log and no file may contain.
    secrets Secrets {
        /// Variables of executors whose values are secrets.
        names: Vec<String> = SecretNames::DEFAULT.map(str::to_owned), Allowed::SecretNames;
    }
    /// Limits beyond which an answer is refused.
    guards Guards {
        /// Files that get_attempt_changes lists unforced.
        changes_max_files: u64 = 200u64, Allowed::Integer(0..=MANY);
        /// Changed lines that get_attempt_changes lists unforced.
        changes_max_lines: u64 = 10_000u64, Allowed::Integer(0..=TIB);
        /// Bytes of changed files that get_attempt_changes lists unforced.
        changes_max_bytes: u64 = 20_971_520u64, Allowed::Integer(0..=TIB);
        /// Bytes that get_attempt_file returns at most.
        file_max_bytes: usize = 524_288usize, Allowed::Integer(1..=16_777_216);
        /// Bytes that get_attempt_patch returns at most.
        patch_max_bytes: usize = 2_097_152usize, Allowed::Integer(1..=16_777_216);
        /// Paths that get_attempt_patch takes at most.
        patch_max_paths: usize = 100usize, Allowed::Integer(1..=100);
    }
    /// How long answers are kept for calls with the same request id.
    idempotency Idempotency {
        /// Seconds that a finished call's answer is kept; 0 = forever.
        completed_ttl_secs: u64 = 604_800u64, Allowed::Integer(0..=CENTURY_SECS),
            alias "VK_IDEMPOTENCY_COMPLETED_TTL_SECS";
        /// Seconds after which an unfinished call is stale; 0 = never.
        in_progress_ttl_secs: u64 = 3600u64, Allowed::Integer(0..=CENTURY_SECS),
            alias "VK_IDEMPOTENCY_IN_PROGRESS_TTL_SECS";
    }
    /// Where the board is kept.
    engine Engine {
        /// A PostgreSQL database, such as postgres://user@host/database; "" = a file of the home.
        url: String = "", Allowed::Engine;
        /// A file that holds nothing but the password for it; "" = there is none.
        password_file: String = "", Allowed::Path;
        /// Why commits outlive the server: "synchronous" = it shows fsync, synchronous_commit and a
        /// synchronous standby; "managed" = whoever runs it says so; "single" = one server will do.
        durability: String = "synchronous", Allowed::Word(&["synchronous", "managed", "single"]);
        /// Days for which the database keeps what other hosts need of a settled attempt: the copy of its log,
        /// whose end stays, and the bundles of work that was merged; 0 = for ever.
        keep_days: u64 = 90u64, Allowed::Integer(0..=36_600);
        /// A remote, such as "origin", that also gets what each turn leaves, below `refs/provost/`, where hosts
        /// share the database; "" = none.
        snapshot_remote: String = "", Allowed::Name;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_default_is_allowed_and_every_setting_is_documented() {
        let settings = Settings::default();
        for setting in TABLE {
            assert!(setting.check(&(setting.get)(&settings)), "{}", setting.path());
            assert!(setting.doc().ends_with('.'), "{}", setting.path());
        }
    }

    #[test]
    fn every_setting_sets_itself_and_no_other() {
        for setting in TABLE {
            let mut settings = Settings::default();
            let value = match setting.allowed {
                Allowed::Integer(ref range) => json!(range.end()),
                Allowed::BranchPrefix => json!("other/"),
                Allowed::Name => json!("other"),
                Allowed::SecretNames => json!(["OTHER"]),
                Allowed::Ports => json!("2000-2999"),
                Allowed::Listen => json!("off"),
                Allowed::HostNames | Allowed::HostList | Allowed::Labels => json!(["other"]),
                Allowed::Path => json!("/other"),
                Allowed::Engine => json!("postgres://other"),
                Allowed::Word(words) => json!(words[1]),
            };
            (setting.set)(&mut settings, value.clone());
            for other in TABLE {
                let expected = if other.path() == setting.path() {
                    value.clone()
                } else {
                    (other.get)(&Settings::default())
                };
                assert_eq!((other.get)(&settings), expected, "{}", other.path());
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_parsed_is_allowed_and_prints_as_it_was_given(
            index in 0..TABLE.len(), number in any::<u64>(),
        ) {
            let setting = &TABLE[index];
            if let Some(value) = setting.parse(&number.to_string()) {
                prop_assert!(setting.check(&value));
                let mut settings = Settings::default();
                (setting.set)(&mut settings, value.clone());
                prop_assert_eq!((setting.get)(&settings), value);
            }
        }
    }
}
