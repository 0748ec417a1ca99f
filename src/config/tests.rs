//! Laws of the configuration as a whole.

use std::fmt::Write as _;

use proptest::prelude::*;
use provost_actors::executor::OnQuota;
use provost_actors::journal::checks::CheckCommand;
use provost_actors::sandbox::Level;

use super::*;

const NO_ENVIRONMENT: &dyn Fn(&str) -> Option<String> = &|_| None;

const CONTRACT: &str = r#"
[daemon]
max_running_attempts = 8
stop_grace_ms = 5000
[host]
name = ""
labels = []
memory_mb = 0
role = "all"
lease_secs = 30
repositories = "paths"
[worktrees]
branch_prefix = "provost/"
snapshot_days = 30
copy_max_bytes = 1073741824
cache_max_bytes = 10737418240
ports = "24000-31999"
[logs]
ring_entries = 5000
ring_bytes = 8388608
spool_max_bytes = 1073741824
[limits]
wall_secs = 0
idle_secs = 0
memory_bytes = 0
processes = 0
open_files = 0
nice = 0
[checks]
max_running = 1
wall_secs = 1800
memory_bytes = 0
processes = 0
[approvals]
timeout_secs = 3600
[http]
listen = "127.0.0.1:0"
names = []
tls_certificate = ""
tls_key = ""
plain = "loopback"
[sandbox]
allow_hosts = []
[secrets]
names = ["*_API_KEY", "*_TOKEN", "*_SECRET", "*_PASSWORD"]
[answers]
executor = ""
variant = ""
timeout_secs = 30
grace_secs = 120
max_running = 2
token_limit = 8000
[worker]
agent_per_minute = 100
all_per_minute = 500
burst_per_second = 10
claim_secs = 3600
[guards]
changes_max_files = 200
changes_max_lines = 10000
changes_max_bytes = 20971520
file_max_bytes = 524288
patch_max_bytes = 2097152
patch_max_paths = 100
[idempotency]
completed_ttl_secs = 604800
in_progress_ttl_secs = 3600

[engine]
url = ""
password_file = ""
durability = "synchronous"
keep_days = 90
snapshot_remote = ""
[executors.echo]
protocol = "plain"
command = ["/usr/local/bin/my-agent", "--batch"]
prompt = "stdin"
supports_mcp = false
[executors.echo.variants.fast]
args = ["--fast"]
env = { SPEED = "1" }
"#;

fn parse_with(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
    flags: &[Flag],
) -> Result<Config, String> {
    let source = Source { file: Path::new("config.toml"), text };
    Config::resolve(source, environment, flags).map_err(|error| error.to_string())
}

fn parse(text: &str) -> Result<Config, String> {
    parse_with(text, NO_ENVIRONMENT, &[])
}

#[test]
fn hosts_of_a_list_add_up_and_are_checked() {
    let config = parse(
        "[sandbox]\nallow_hosts = ['a.b']\n[executors.claude]\nallow_hosts = ['*.c.d:8443']\n\
         [executors.claude.variants.more]\nallow_hosts = ['[::1]:1']",
    );
    let config = config.unwrap();
    assert_eq!(config.settings.sandbox.allow_hosts, ["a.b"]);
    let claude = &config.executors["claude"];
    assert!(claude.allow_hosts.contains(&"api.anthropic.com".to_owned()));
    assert_eq!(claude.allow_hosts.last().unwrap(), "*.c.d:8443");
    assert_eq!(claude.variants["more"].allow_hosts, ["[::1]:1"]);
    for table in ["sandbox", "executors.claude", "executors.claude.variants.x"] {
        for wrong in ["https://a.b", "*", "1.2.3.4/8", "a.b:x"] {
            let error = parse(&format!("[{table}]\nallow_hosts = ['{wrong}']")).unwrap_err();
            assert!(error.contains("must be an array of hosts such as"), "{error}");
        }
    }
}

#[test]
fn the_documented_file_is_the_default() {
    let config = parse(CONTRACT).unwrap();
    assert_eq!(config.settings, Settings::default());
    assert!(config.origins.iter().all(|origin| origin.starts_with("config.toml:")));
    let echo = &config.executors["echo"];
    assert_eq!(echo.protocol, Protocol::Plain);
    assert_eq!(echo.command, ["/usr/local/bin/my-agent", "--batch"]);
    assert_eq!(echo.variants["fast"].args, ["--fast"]);
    assert_eq!(echo.variants["fast"].env["SPEED"], "1");
}

#[test]
fn a_missing_file_is_all_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config::load(&dir.path().join("config.toml"), &[]).unwrap();
    assert!(config.executors.values().all(|executor| executor.origin.is_none()));
    assert_eq!(config.origins.len(), TABLE.len());
}

#[test]
fn a_folder_for_a_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = Config::load(dir.path(), &[]).unwrap_err().to_string();
    assert!(error.contains("can't be read: "), "{error}");
}

#[test]
fn a_flag_goes_before_the_environment_before_the_file() {
    let file = "[daemon]\nstop_grace_ms = 1\n";
    let environment = |name: &str| (name == "PROVOST_DAEMON_STOP_GRACE_MS").then(|| "2".to_owned());
    let flag = ("daemon.stop_grace_ms", "3".to_owned());
    let grace = |config: Config| (config.settings.daemon.stop_grace_ms, config.origins[1].clone());

    assert_eq!(grace(parse("").unwrap()), (5000, "default".to_owned()));
    assert_eq!(grace(parse(file).unwrap()), (1, "config.toml:2".to_owned()));
    let by_environment = parse_with(file, &environment, &[]).unwrap();
    let name = "PROVOST_DAEMON_STOP_GRACE_MS".to_owned();
    assert_eq!(grace(by_environment), (2, name));
    let by_flag = parse_with(file, &environment, &[flag]).unwrap();
    assert_eq!(grace(by_flag), (3, "--stop-grace-ms".to_owned()));
}

#[test]
fn the_other_names_of_the_idempotency_variables_are_honoured() {
    let old = |name: &str| (name == "VK_IDEMPOTENCY_COMPLETED_TTL_SECS").then(|| "9".to_owned());
    let config = parse_with("", &old, &[]).unwrap();
    assert_eq!(config.settings.idempotency.completed_ttl_secs, 9);
    let both = |name: &str| {
        old(name).or_else(|| (name == "PROVOST_IDEMPOTENCY_COMPLETED_TTL_SECS").then(|| "7".into()))
    };
    let config = parse_with("", &both, &[]).unwrap();
    assert_eq!(config.settings.idempotency.completed_ttl_secs, 7);
}

#[test]
fn faults_name_the_place_the_key_and_what_is_allowed() {
    let cases = [
        (
            "[daemon]\nstop_grace = 1",
            "config.toml:2: unknown key `daemon.stop_grace`; did you mean `daemon.stop_grace_ms`?",
        ),
        (
            "[executors.fake]\nprotocol = \"fake\"\nrole = \"all\"",
            "config.toml:3: `executors.fake.role` must be one of worker, orchestrator",
        ),
        ("\n[demon]", "config.toml:2: unknown key `demon`; did you mean `daemon`?"),
        (
            "[daemon]\n\nstop_grace_ms = -1",
            "config.toml:3: `daemon.stop_grace_ms` must be a whole number from 0 to 600000",
        ),
        (
            "[daemon]\nstop_grace_ms = \"1\"",
            "config.toml:2: `daemon.stop_grace_ms` must be a whole number from 0 to 600000",
        ),
        ("daemon = 1", "config.toml:1: `daemon` must be a table"),
        (
            "[worktrees]\nbranch_prefix = \"a b\"",
            "config.toml:2: `worktrees.branch_prefix` must be the beginning of a branch name, such as \"provost/\"",
        ),
        (
            "[secrets]\nnames = [\"A_*\", \"*\"]",
            "config.toml:2: `secrets.names` must be an array of \"NAME\", \"PREFIX_*\" or \"*_SUFFIX\"",
        ),
        (
            "[executors.a]\nprotocol = \"plian\"",
            "config.toml:2: `executors.a.protocol` must be one of plain, events, fake, claude, codex, acp, not \"plian\" (did you mean \"plain\"?)",
        ),
        (
            "[executors.a]\nprotocol = \"gemini\"",
            "config.toml:2: `executors.a.protocol` must be one of plain, events, fake, claude, codex, acp, not \"gemini\": use the built-in executor `gemini`, or write `protocol = \"acp\"` and `command = [\"gemini\", \"--acp\", \"--skip-trust\"]`",
        ),
        (
            "[executors.a]\nprotocol = \"morse\"",
            "config.toml:2: `executors.a.protocol` must be one of plain, events, fake, claude, codex, acp, not \"morse\"",
        ),
        (
            "[executors.a]\ncommand = []",
            "config.toml:1: `executors.a` must be a table with `protocol`, one of plain, events, fake, claude, codex, acp, and with `command`: the program and its arguments, such as [\"/usr/bin/agent\", \"-b\"]",
        ),
        (
            "[executors.a]\nprotocol = \"plain\"",
            "config.toml:1: `executors.a` must be a table with `command`: the program and its arguments, such as [\"/usr/bin/agent\", \"-b\"]",
        ),
        (
            "[executors.a]\nprotocol = \"plain\"\ncommand = \"x\"",
            "config.toml:3: `executors.a.command` must be the program and its arguments, such as [\"/usr/bin/agent\", \"-b\"]",
        ),
        (
            "[executors.a]\nprotocol = \"fake\"\nprompts = \"arg\"",
            "config.toml:3: unknown key `executors.a.prompts`; did you mean `executors.a.prompt`?",
        ),
        (
            "[executors.a]\nprotocol = \"fake\"\ndefault_variant = \"b\"",
            "config.toml:3: `executors.a.default_variant` must be left out, because the executor has no variants",
        ),
        (
            "[executors.a]\nprotocol = \"fake\"\n[executors.a.variants.b]\nenv = { X = 1 }",
            "config.toml:4: `executors.a.variants.b.env.X` must be a string",
        ),
        (
            "[executors.\"a b\"]\nprotocol = \"fake\"",
            "config.toml:1: `executors.a b` must be a name of 1 to 64 letters, digits, `.`, `_` or `-`",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(parse(text).unwrap_err(), message);
    }
    assert!(parse("[daemon").unwrap_err().starts_with("config.toml:1: "));
}

#[test]
fn a_bad_variable_and_a_bad_flag_are_named() {
    let environment = |name: &str| (name == "PROVOST_LOGS_RING_ENTRIES").then(|| "many".to_owned());
    assert_eq!(
        parse_with("", &environment, &[]).unwrap_err(),
        "PROVOST_LOGS_RING_ENTRIES=many: `logs.ring_entries` must be a whole number from 1 to 1000000"
    );
    let flag = ("daemon.max_running_attempts", "0".to_owned());
    assert_eq!(
        parse_with("", NO_ENVIRONMENT, &[flag]).unwrap_err(),
        "--max-running-attempts=0: `daemon.max_running_attempts` must be a whole number from 1 to 10000"
    );
}

#[test]
fn a_table_changes_what_it_names_of_the_built_in_executor() {
    let config = parse(
        "[executors.claude]\nenv_pass = [\"MINE_*\"]\non_quota = \"auto\"\n\
         [executors.claude.variants.fast]\noptions = { model = \"haiku\" }",
    )
    .unwrap();
    let claude = &config.executors["claude"];
    assert_eq!((claude.protocol, claude.on_quota), (Protocol::Claude, OnQuota::Auto));
    assert_eq!(claude.command, ["claude"]);
    assert!(claude.env_pass.contains(&"MINE_*".into()));
    assert!(claude.env_pass.contains(&"ANTHROPIC_*".into()));
    assert!(claude.variants.contains_key("auto") && claude.variants.contains_key("fast"));
    assert_eq!(claude.origin.as_deref(), Some("config.toml:1"));
}

#[test]
fn labels_are_plain_words() {
    let config =
        parse("[host]\nlabels = [\"gpu\"]\n[executors.claude]\nlabels = [\"gpu\", \"a-b.c_1\"]");
    let config = config.unwrap();
    assert_eq!(config.settings.host.labels, ["gpu"]);
    assert_eq!(config.executors["claude"].labels, ["gpu", "a-b.c_1"]);
    for (wrong, key) in [
        ("[host]\nlabels = [\"a b\"]", "host.labels"),
        ("[host]\nlabels = \"gpu\"", "host.labels"),
        ("[executors.claude]\nlabels = [\"\"]", "executors.claude.labels"),
        ("[executors.claude]\nlabels = [1]", "executors.claude.labels"),
    ] {
        let error = parse(wrong).unwrap_err();
        assert!(error.contains(&format!("`{key}` must be an array of words")), "{error}");
    }
}

#[test]
fn another_name_for_a_built_in_protocol_begins_as_the_built_in_executor() {
    let config = parse("[executors.work]\nprotocol = \"claude\"").unwrap();
    assert_eq!(config.executors["work"].command, ["claude"]);
    // Another program has the box that its owner asks for.
    let level = |text: &str| parse(text).unwrap().executors["work"].sandbox;
    let other = "[executors.work]\nprotocol = \"claude\"\ncommand = [\"mine\"]";
    assert_eq!(level("[executors.work]\nprotocol = \"claude\""), Level::Workspace);
    assert_eq!(level(other), Level::None);
    assert_eq!(level(&format!("{other}\nsandbox = \"workspace\"")), Level::Workspace);
    let plain = parse("[executors.claude]\nprotocol = \"plain\"\ncommand = [\"x\"]").unwrap();
    assert!(plain.executors["claude"].variants.is_empty());
}

#[test]
fn every_variant_of_a_built_in_agent_but_unsafe_has_a_box() {
    let built_in = parse("").unwrap().executors;
    for (name, executor) in &built_in {
        assert_eq!(executor.sandbox, Level::Workspace, "{name}");
        for (variant, config) in &executor.variants {
            let own = if variant == "unsafe" { Some(Level::None) } else { None };
            assert_eq!(config.sandbox, own, "{name} {variant}");
        }
    }
    assert!(built_in["codex"].variants["read-only"].sandbox_read_only);
}

#[test]
fn what_may_only_read_is_held_to_that_or_refused() {
    let held = |text: &str| {
        let executor = parse(text).unwrap().executors["codex"].clone();
        executor.variants["read-only"].options["sandbox"].clone()
    };
    assert_eq!(held(""), "danger-full-access", "the box opens nothing to write");
    assert_eq!(held("[executors.codex]\nsandbox = \"none\""), "read-only", "Codex's own");
    let open = "[executors.a]\nprotocol = \"plain\"\ncommand = [\"x\"]\n\
                [executors.a.variants.b]\nsandbox_read_only = true";
    let error = parse(open).unwrap_err();
    assert!(error.contains("variant b has a sandbox"), "{error}");
    assert!(parse(&format!("{open}\nsandbox = \"strict\"")).is_ok());
}

#[test]
fn options_are_those_of_the_protocol() {
    let error = parse("[executors.codex]\noptions = { sandbx = \"x\" }").unwrap_err();
    assert_eq!(
        error,
        "config.toml:2: unknown key `executors.codex.options.sandbx`; did you mean \
         `executors.codex.options.sandbox`?"
    );
    assert!(parse("[executors.kimi]\noptions = { whatever = \"x\" }").is_ok());
}

#[test]
fn every_protocol_is_spelled_one_way() {
    for name in ["plain", "events", "fake", "claude", "codex", "acp"] {
        let text = format!("[executors.a]\nprotocol = \"{name}\"\ncommand = [\"x\"]");
        assert_eq!(parse(&text).unwrap().executors["a"].protocol.as_str(), name);
    }
}

#[test]
fn show_tells_everything_but_secrets() {
    let env = r#"env = { MY_TOKEN = "hunter2", URL = "me:hunter2@host", PIN_SECRET = "123", MODE = "x" }"#;
    let text = CONTRACT.replace("supports_mcp", &format!("{env}\nsupports_mcp"));
    let text = text.replace("--fast", "--key=hunter2");
    let mut shown = parse(&text).unwrap().show();
    assert!(shown.iter().any(|one| one.key == "executors.claude.command"));
    // The built-in ones change as their programs do.
    shown.retain(|one| !one.key.starts_with("executors.") || one.origin != "default");
    let shown = serde_json::to_string_pretty(&shown).unwrap();
    assert!(!shown.contains("hunter2") && !shown.contains("123"));
    insta::assert_snapshot!(shown);
    let open = text.replace("names = [", "names = [] # [");
    let shown = serde_json::to_string(&parse(&open).unwrap().show()).unwrap();
    assert!(shown.contains("hunter2"));
}

#[test]
fn the_environment_gives_secret_names_between_commas() {
    let names = |text: &str| {
        let environment = |name: &str| (name == "PROVOST_SECRETS_NAMES").then(|| text.to_owned());
        parse_with("", &environment, &[]).map(|config| config.settings.secrets.names)
    };
    assert_eq!(names("A, *_B").unwrap(), ["A", "*_B"]);
    assert!(names("").unwrap().is_empty());
    assert!(names("A*B").is_err());
}

proptest! {
    #[test]
    fn no_text_panics_the_reader(text in "[a-z_\\[\\]=\\.\" \n0-9{}-]{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn a_value_in_range_is_taken_and_one_out_of_range_refused(
        index in 0..TABLE.len(), number in 0..i64::MAX as u64,
    ) {
        let setting = &TABLE[index];
        let text = format!("[{}]\n{} = {number}", setting.section, setting.key);
        let taken = parse(&text).map(|config| (setting.get)(&config.settings));
        if setting.check(&json!(number)) {
            prop_assert_eq!(taken.unwrap(), json!(number));
        } else {
            prop_assert!(taken.is_err());
        }
    }
}

#[test]
fn a_projects_checks_are_lines_or_words() {
    let config = parse(
        "[projects.\"my app\".checks]\ntest = 'cargo test'\nfmt = ['cargo', 'fmt', '--check']",
    )
    .unwrap();
    let checks = &config.projects["my app"].checks;
    let words = ["cargo", "fmt", "--check"].map(str::to_owned).to_vec();
    assert_eq!(checks["fmt"], CheckCommand::Words(words));
    assert_eq!(checks["test"], CheckCommand::Line("cargo test".to_owned()));
    let shown = config.show();
    let shown = shown.iter().find(|it| it.key == "projects.my app.checks.test").unwrap();
    assert_eq!((&shown.value, &*shown.origin), (&"cargo test".into(), "config.toml:1"));
}

#[test]
fn a_projects_repositories_are_configured_as_by_their_own_file() {
    let config = parse(
        "[projects.app.repos.web]\ncopy = ['.env']\n[projects.app.repos.web.setup]\nrun = 'make'",
    )
    .unwrap();
    let web = &config.projects["app"].repos["web"];
    let setup = web.setup.run.as_ref().unwrap();
    assert_eq!((setup.origin.as_str(), setup.is_repos), ("config.toml:4", false));
    let shown = config.show();
    let shown = shown.iter().find(|it| it.key == "projects.app.repos.web.copy").unwrap();
    assert_eq!(shown.origin, "config.toml:2");
    let error = parse("[projects.app.repos.web]\ncoppy = []").unwrap_err();
    let expected = "config.toml:2: unknown key `projects.app.repos.web.coppy`; did you mean \
                    `projects.app.repos.web.copy`?";
    assert_eq!(error, expected);
}

#[test]
fn what_is_wrong_with_a_check_is_reported_with_its_place() {
    for (text, expected) in [
        (
            "[projects.x]\ncheck = {}",
            "unknown key `projects.x.check`; did you mean `projects.x.checks`?",
        ),
        ("[projects.x.checks]\ntest = ''", "`projects.x.checks.test` must be a command line"),
        ("[projects.x.checks]\ntest = []", "`projects.x.checks.test` must be a command line"),
        ("[projects.x.checks]\ntest = 3", "`projects.x.checks.test` must be a command line"),
        ("[projects.x.checks]\n'a b' = 'x'", "must be a name of 1 to 64 letters"),
        ("[projects]\nx = 3", "`projects.x` must be a table"),
        ("[project.x.checks]", "did you mean `projects`?"),
        ("[checks]\nwall_sec = 3", "did you mean `checks.wall_secs`?"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
const BEGIN: &str = "<!-- generated: `UPDATE_DOCS=1 cargo test published_settings` writes it -->\n";
const END: &str = "<!-- end of the generated part -->\n";

/// A table for each section: key, type and bounds, default, meaning.
fn settings_page() -> String {
    let (mut page, defaults) = (String::new(), Settings::default());
    let mut section = "";
    for setting in TABLE {
        if setting.section != section {
            section = setting.section;
            let head = "| key | value | default | |\n|---|---|---|---|";
            writeln!(page, "\n### `[{section}]`\n\n{head}").unwrap();
        }
        let (key, expected, doc) = (setting.key, setting.expected(), setting.doc());
        let alias = setting.alias.map(|name| format!(" Also `{name}`.")).unwrap_or_default();
        let default = serde_json::to_string(&(setting.get)(&defaults)).unwrap();
        writeln!(page, "| `{key}` | {expected} | `{default}` | {doc}{alias} |").unwrap();
    }
    page.push('\n');
    page
}

#[test]
fn the_published_settings_are_those_of_the_table() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (published, after) = rest.split_once(END).unwrap();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(PAGE, format!("{before}{BEGIN}{}{END}{after}", settings_page())).unwrap();
    } else {
        assert_eq!(published, settings_page(), "run the test with UPDATE_DOCS=1");
    }
}

#[test]
fn the_page_has_every_key_of_an_executor_and_no_other() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (_, rest) = page.split_once("\n## Executors\n").unwrap();
    let (table, _) = rest.split_once("\n## ").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), executors::KEYS.split(' ').collect::<Vec<_>>());
}

#[test]
fn a_forge_has_a_kind_an_interface_and_a_token_that_is_not_shown() {
    let config = parse(
        "[forges.'github.com']\ntoken_env = 'GITHUB_TOKEN'\n\
         [forges.'Git.example']\nkind = 'gitlab'\ntoken = 'hunter2'",
    )
    .unwrap();
    let environment = [("GITHUB_TOKEN".to_owned(), "abc".to_owned())].into();
    let github = config.forges["github.com"].resolved(&environment);
    assert_eq!((github.api.as_str(), github.token.as_str()), ("https://api.github.com", "abc"));
    let own = config.forges["git.example"].resolved(&environment);
    assert_eq!((own.api.as_str(), own.token.as_str()), ("https://git.example/api/v4", "hunter2"));
    let shown = serde_json::to_string(&config.show()).unwrap();
    assert!(shown.contains("GITHUB_TOKEN") && !shown.contains("hunter2"), "{shown}");
    for (text, expected) in [
        ("[forges.'h']\ntoken = 'x'", "kind = \"github\" or \"gitlab\""),
        ("[forges.'h']\nkind = 'gitea'\ntoken = 'x'", "one of github, gitlab"),
        ("[forges.'github.com']\nkind = 'github'", "either token or token_env"),
        ("[forges.'github.com']\napi = 'ftp://x'\ntoken = 'x'", "begins with https://"),
        ("[forges.'github.com']\ntokn = 'x'", "did you mean `forges.github.com.token`"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
