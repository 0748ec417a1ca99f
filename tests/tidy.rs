//! The house rules, held by a test: which part may use which, that every file
//! says what it is for, and that none grows into two.

#![expect(clippy::unwrap_used, reason = "a panic is a test's answer")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines, tests apart.
const LINES_MAX: usize = 520;

/// Who may use whom in `actors`, by top-level module. Arrows point down only:
/// a part may use those listed above it.
#[rustfmt::skip]
const ACTORS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("failpoint", &[]),
    ("ids", &[]),
    ("limits", &[]),
    ("nearest", &[]),
    ("payload", &[]),
    ("root", &[]),
    ("secret", &[]),
    ("text", &[]),
    ("refusal", &["text"]),
    ("event", &["ids"]),
    ("executor", &["event", "limits"]),
    ("journal", &["event", "executor", "ids", "limits", "payload", "refusal"]),
    ("log", &["event", "executor", "failpoint", "ids"]),
    ("process", &["event", "failpoint", "ids", "limits", "log", "secret"]),
    ("workspace", &["base", "ids", "process"]),
    ("world", &["executor", "ids", "journal", "limits", "log", "process", "secret", "workspace"]),
    ("attempt", &["base", "event", "executor", "failpoint", "ids", "journal", "log", "process", "refusal", "secret", "text", "workspace", "world"]),
    ("gateway", &["attempt", "event", "executor", "ids", "journal", "nearest", "payload", "refusal", "workspace", "world"]),
    ("checks", &["attempt", "event", "failpoint", "gateway", "ids", "journal", "log", "payload", "process", "refusal", "secret", "workspace", "world"]),
];

/// The same in `src`.
#[rustfmt::skip]
const SRC: &[(&str, &[&str])] = &[
    ("role", &[]),
    ("home", &[]),
    ("jsonrpc", &[]),
    ("telemetry", &[]),
    ("api", &["role"]),
    ("config", &["role"]),
    ("work", &["api"]),
    ("store", &["api", "work"]),
    ("executors", &["config"]),
    ("client", &["home", "role"]),
    ("bridge", &["client", "jsonrpc"]),
    ("domain", &["api", "client", "store", "work"]),
    ("mcp", &["api", "jsonrpc"]),
    ("daemon", &["api", "client", "config", "domain", "executors", "home", "mcp", "store"]),
    ("doctor", &["client", "config", "daemon", "executors", "home", "store"]),
    ("cli", &["api", "bridge", "client", "config", "daemon", "doctor", "executors", "home", "mcp", "role", "telemetry"]),
    ("main", &["cli", "executors"]),
];

/// The same in `model-server/src`.
#[rustfmt::skip]
const MODEL_SERVER: &[(&str, &[&str])] = &[
    ("conversation", &[]),
    ("tools", &["conversation"]),
    ("scenario", &["conversation", "tools"]),
    ("dialect", &["conversation"]),
    ("serve", &["conversation", "dialect", "scenario"]),
    ("main", &[]),
];

/// Crates that `actors` does without: it speaks no protocol, remembers nothing
/// by itself, and parses no command line.
const NOT_IN_ACTORS: &[&str] = &["rmcp", "sqlx", "axum", "clap", "toml", "schemars"];

#[test]
fn arrows_point_one_way() {
    for table in [ACTORS, SRC, MODEL_SERVER] {
        for (number, (module, uses)) in table.iter().enumerate() {
            let above: BTreeSet<&str> = table[..number].iter().map(|(name, _)| *name).collect();
            let up = uses.iter().find(|used| !above.contains(*used));
            assert_eq!(up, None, "{module} may only use what is listed above it");
        }
    }
    let mut wrong = arrows("actors/src", ACTORS);
    wrong.extend(arrows("src", SRC));
    wrong.extend(arrows("model-server/src", MODEL_SERVER));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|path| !is_test(path) && !read(path).starts_with("//! "))
        .collect();
    assert!(silent.is_empty(), "no module comment: {silent:?}");
}

#[test]
fn no_file_holds_two_ideas() {
    let long: Vec<_> = sources()
        .into_iter()
        .filter(|path| !is_test(path))
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .collect();
    assert!(long.is_empty(), "longer than {LINES_MAX} lines: {long:?}");
}

#[test]
fn the_actors_know_no_protocol_database_or_command_line() {
    let manifest = read(&root().join("actors/Cargo.toml"));
    for name in NOT_IN_ACTORS {
        let is_there =
            manifest.lines().any(|line| line.split(['.', ' ', '=']).next() == Some(name));
        assert!(!is_there, "actors/Cargo.toml names {name}");
    }
}

#[test]
fn every_scenario_has_its_test() {
    let tables = ["tests/SCENARIOS.md", "tests/WORKER_API.md"];
    let table: String = tables.map(|table| read(&root().join(table))).concat();
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").skip(1);
        let name = |cell: &'_ str| cell.trim_matches('`').to_owned();
        Some((name(cells.next()?), name(cells.next()?)))
    });
    let rows: Vec<_> = rows.filter(|(test, _)| test != "test").collect();
    assert!(rows.len() > 80, "the table can't be read: {}", rows.len());
    let missing: Vec<_> = rows
        .iter()
        .filter(|(test, file)| !read(&root().join(file)).contains(&format!("#[test]\nfn {test}(")))
        .collect();
    assert!(missing.is_empty(), "no such test: {missing:?}");
}

/// A test is linked as [`its name`](its file), relative to the page.
#[test]
fn every_test_that_a_page_links_is_there() {
    for (page, least) in [("README.md", 70), ("tests/FINDINGS.md", 100)] {
        let page = root().join(page);
        let text = read(&page);
        let linked = text.split("[`").skip(1).filter_map(|rest| {
            let (name, rest) = rest.split_once("`](")?;
            let file = rest.split_once(')')?.0;
            let is_rust = Path::new(file).extension().is_some_and(|it| it == "rs");
            let is_test = is_rust && !name.contains('.');
            is_test.then(|| (name, page.with_file_name(file)))
        });
        let linked: Vec<_> = linked.collect();
        assert!(linked.len() > least, "{} can't be read: {}", page.display(), linked.len());
        let is_there = |name: &str, file: &Path| read(file).contains(&format!("fn {name}("));
        let missing: Vec<_> = linked.iter().filter(|(name, file)| !is_there(name, file)).collect();
        assert!(missing.is_empty(), "no such test: {missing:?}");
    }
}

#[test]
fn every_table_is_strict() {
    for entry in fs::read_dir(root().join("migrations")).unwrap() {
        let path = entry.unwrap().path();
        let sql = read(&path);
        let tables = sql.matches("CREATE TABLE").count();
        let strict = sql.matches(") STRICT").count();
        assert_eq!(tables, strict, "{}: a table that is not STRICT", path.display());
    }
}

/// The uses in one tree that its table does not allow.
fn arrows(tree: &str, table: &[(&str, &[&str])]) -> Vec<String> {
    let modules: BTreeSet<&str> = table.iter().map(|(name, _)| *name).collect();
    let dir = root().join(tree);
    let mut wrong = Vec::new();
    for path in files(&dir).into_iter().filter(|path| !is_test(path)) {
        let relative = path.strip_prefix(&dir).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let Some((_, allowed)) = table.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{tree}/{module} is in no table of tests/tidy.rs"));
            continue;
        };
        let used = used(&read(&path)).into_iter().filter(|used| used != module);
        let used = used.filter(|used| modules.contains(used.as_str()));
        for used in used.filter(|used| !allowed.contains(&used.as_str())) {
            wrong.push(format!("{tree}/{} uses {used}", relative.display()));
        }
    }
    wrong
}

/// The top-level modules of its own crate that a file names, its unit tests and
/// its comments apart.
fn used(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split("crate::").skip(1))
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .collect()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_name().is_some_and(|name| name == "tests.rs")
}

fn sources() -> Vec<PathBuf> {
    ["actors/src", "src", "model-server/src", "examples"]
        .iter()
        .flat_map(|tree| files(&root().join(tree)))
        .collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
