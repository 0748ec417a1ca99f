//! The house rules, held by a test: which part may use which, that every file
//! says what it is for, and that none grows into two.

#![expect(clippy::unwrap_used, reason = "a panic is a test's answer")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, in lines, tests apart.
const LINES_MAX: usize = 400;

/// The files that are longer.
const LONGER: &[&str] = &[
    "actors/src/process/shim/supervisor.rs",
    "examples/real_executors/checks.rs",
    "src/domain/attempts.rs",
    "src/executors/acp/normalize.rs",
    "src/executors/claude/normalize.rs",
    "src/http/page/need.rs",
];

/// Who may use whom in `actors`, by top-level module. Arrows point down only:
/// a part may use those listed above it.
#[rustfmt::skip]
const ACTORS: &[(&str, &[&str])] = &[
    ("environment", &[]),
    ("blocking", &[]),
    ("failpoint", &[]),
    ("ids", &["blocking"]),
    ("limits", &[]),
    ("nearest", &[]),
    ("plain", &[]),
    ("ready_url", &[]),
    ("root", &[]),
    ("secret", &[]),
    ("task", &[]),
    ("text", &[]),
    ("refusal", &["text"]),
    ("retry", &["refusal"]),
    ("event", &["ids"]),
    ("sandbox", &["environment", "event"]),
    ("executor", &["event", "limits", "sandbox"]),
    ("log", &["blocking", "event", "executor", "failpoint", "ids", "refusal", "retry"]),
    ("process", &["blocking", "event", "failpoint", "ids", "limits", "log", "retry", "sandbox", "secret"]),
    ("workspace", &["environment", "blocking", "event", "failpoint", "ids", "process", "sandbox", "secret", "text"]),
    ("host", &["event", "refusal"]),
    ("journal", &["event", "executor", "host", "ids", "limits", "plain", "refusal", "sandbox", "text", "workspace"]),
    ("forge", &["journal", "text"]),
    ("repo_settings", &["environment", "journal", "text", "workspace"]),
    ("world", &["environment", "executor", "forge", "host", "ids", "journal", "limits", "log", "process", "refusal", "repo_settings", "secret", "workspace"]),
    ("radar", &["blocking", "ids", "journal", "refusal", "workspace", "world"]),
    ("attempt", &["environment", "blocking", "event", "executor", "failpoint", "forge", "ids", "journal", "limits", "log", "process", "radar", "ready_url", "refusal", "repo_settings", "retry", "sandbox", "secret", "task", "text", "workspace", "world"]),
    ("gateway", &["attempt", "blocking", "event", "executor", "host", "ids", "journal", "nearest", "refusal", "retry", "sandbox", "workspace", "world"]),
    ("answers", &["attempt", "event", "gateway", "ids", "journal", "refusal", "retry", "world"]),
    ("checks", &["attempt", "environment", "blocking", "event", "failpoint", "gateway", "ids", "journal", "log", "process", "refusal", "retry", "secret", "task", "workspace", "world"]),
];

/// The same in `src`.
#[rustfmt::skip]
const SRC: &[(&str, &[&str])] = &[
    ("role", &[]),
    ("secret", &[]),
    ("audit", &[]),
    ("home", &["audit", "secret"]),
    ("jsonrpc", &[]),
    ("lenient", &[]),
    ("proxy", &[]),
    ("telemetry", &[]),
    ("api", &["role"]),
    ("config", &["role"]),
    ("work", &["api", "lenient"]),
    ("store", &["api", "work"]),
    ("executors", &["config", "lenient"]),
    ("client", &["home", "role"]),
    ("bridge", &["client", "jsonrpc"]),
    ("domain", &["api", "audit", "client", "config", "secret", "store", "work"]),
    ("tools", &["api"]),
    ("mcp", &["api", "jsonrpc", "lenient", "tools"]),
    ("http", &["api", "mcp", "tools", "work"]),
    ("daemon", &["api", "client", "config", "domain", "executors", "home", "http", "mcp", "secret", "store", "tools"]),
    ("doctor", &["api", "client", "config", "daemon", "executors", "home", "store"]),
    ("cli", &["api", "audit", "bridge", "client", "config", "daemon", "doctor", "executors", "home", "role", "telemetry", "tools", "work"]),
    ("main", &[]),
];

/// The same in `tests/model-server/src`.
#[rustfmt::skip]
const MODEL_SERVER: &[(&str, &[&str])] = &[
    ("conversation", &[]),
    ("tools", &["conversation"]),
    ("scenario", &["conversation", "tools"]),
    ("dialect", &["conversation"]),
    ("serve", &["conversation", "dialect", "scenario"]),
    ("main", &[]),
];

/// The roots of the crates.
const TREES: [&str; 3] = ["actors/src", "src", "tests/model-server/src"];

/// Crates that `actors` does without: it speaks no protocol, remembers nothing
/// by itself, and parses no command line.
const NOT_IN_ACTORS: &[&str] = &["rmcp", "sqlx", "axum", "clap", "toml", "schemars"];

/// Words that no name has: another one says the noun or the verb that a reader searches for.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "anew", "fate", "fates", "mend", "mended", "mending", "mends", "nobody", "patience", "plenty",
    "stranger", "strangers", "told", "untold",
];

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
    wrong.extend(arrows("tests/model-server/src", MODEL_SERVER));
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
    let long = sources().into_iter().filter(|path| !is_test(path));
    let long = long.filter(|path| production_lines(path) > LINES_MAX);
    let long: BTreeSet<PathBuf> =
        long.map(|path| path.strip_prefix(root()).unwrap().to_owned()).collect();
    let named = LONGER.iter().map(PathBuf::from).collect();
    assert_eq!(long, named, "longer than {LINES_MAX} lines, and named as such in LONGER");
}

#[test]
fn no_name_needs_a_second_reading() {
    let trees = ["actors", "benches", "examples", "src", "tests"];
    let mut wrong = BTreeSet::new();
    for path in trees.iter().flat_map(|tree| files(&root().join(tree))) {
        let file = path.strip_prefix(root()).unwrap().display().to_string();
        let text = format!("{file} {}", blanked(&read(&path)));
        for name in text.split(|c: char| !c.is_alphanumeric() && c != '_') {
            let word = words(name).into_iter().find(|word| WORDS.contains(&word.as_str()));
            wrong.extend(word.map(|word| format!("{file}: {name} says {word:?}")));
        }
    }
    let wrong: Vec<_> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_modules_use_each_other() {
    let circles: BTreeSet<BTreeSet<String>> =
        TREES.iter().flat_map(|tree| Crate::read(tree).circles()).collect();
    assert_eq!(circles, BTreeSet::new(), "circles of modules");
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
    for (page, least) in
        [("README.md", 10), ("docs/reliability.md", 70), ("tests/FINDINGS.md", 100)]
    {
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
fn the_readme_stays_short() {
    let lines = read(&root().join("README.md")).lines().count();
    assert!(lines <= 200, "{lines} lines: move what is no introduction to docs/");
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        for target in links(&prose(&page)) {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            let is_page = file.extension().is_some_and(|it| it == "md");
            let leads =
                file.exists() && (anchor.is_empty() || !is_page || anchors(&file).contains(anchor));
            if !leads {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A path is named as `it stands in the repository` or below a crate's `src`, or by its end.
#[test]
fn every_path_that_architecture_names_is_there() {
    let design = fs::read_dir(root().join("docs/design")).unwrap();
    let pages = design.map(|page| page.unwrap().path());
    let pages = pages.chain(["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page)));
    let all: Vec<String> = pages.map(|page| prose(&page)).collect();
    let spans = all.iter().flat_map(|prose| prose.split('`').skip(1).step_by(2));
    let is_path = |span: &&str| {
        let is_plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let has_end = [".rs", ".md", ".toml", ".sql", ".txt", ".json"];
        let is_file = has_end.iter().any(|end| span.ends_with(end)) && *span != "said.jsonl";
        is_plain && (is_file || (span.contains('/') && !span.ends_with('/')))
    };
    let paths: BTreeSet<&str> = spans.filter(is_path).collect();
    assert!(paths.len() > 60, "the pages can't be read: {paths:?}");
    let trees = ["", "src", "actors/src", "actors/src/workspace"];
    let is_at = |path: &str| trees.iter().any(|tree| root().join(tree).join(path).exists());
    let sources = sources();
    let missing: Vec<_> = paths
        .into_iter()
        .filter(|path| !is_at(path) && !sources.iter().any(|source| source.ends_with(path)))
        .collect();
    assert!(missing.is_empty(), "the pages name what is not there: {missing:?}");
}

#[test]
fn every_table_is_strict() {
    for entry in fs::read_dir(root().join("migrations")).unwrap() {
        let path = entry.unwrap().path();
        // PostgreSQL's, which have types without being told.
        if path.is_dir() {
            continue;
        }
        let sql = read(&path);
        let tables = sql.matches("CREATE TABLE").count();
        let strict = sql.matches(") STRICT").count();
        assert_eq!(tables, strict, "{}: a table that is not STRICT", path.display());
    }
}

/// The pages of the repository.
fn pages() -> Vec<PathBuf> {
    let in_dir = |dir: &str| {
        let entries = fs::read_dir(root().join(dir)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut pages = ["", "docs", "docs/design", "tests"].map(in_dir).concat();
    pages.retain(|path| path.extension().is_some_and(|it| it == "md"));
    pages
}

/// A page without its blocks of code.
fn prose(page: &Path) -> String {
    read(page).split("```").step_by(2).collect()
}

/// The targets of a page's links, those to other hosts apart.
fn links(prose: &str) -> Vec<String> {
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = targets.map(|(target, _)| target.to_owned());
    targets.filter(|target| !target.contains("://")).collect()
}

/// What links to the headings of a page are called.
fn anchors(page: &Path) -> BTreeSet<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The uses in one tree that its table does not allow.
fn arrows(tree: &str, table: &[(&str, &[&str])]) -> Vec<String> {
    let modules: BTreeSet<&str> = table.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for (module, (path, paths)) in &Crate::read(tree).modules {
        let Some(top) = module.first() else { continue };
        let Some((_, allowed)) = table.iter().find(|(name, _)| *name == top) else {
            wrong.push(format!("{tree}/{top} is in no table of tests/tidy.rs"));
            continue;
        };
        let used: BTreeSet<&str> =
            paths.iter().filter_map(|path| path.first()).map(|it| &**it).collect();
        let used = used.into_iter().filter(|used| *used != top && modules.contains(used));
        for used in used.filter(|used| !allowed.contains(used)) {
            wrong.push(format!("{} uses {used}", path.display()));
        }
    }
    wrong
}

/// The modules of a crate, tests apart.
struct Crate {
    /// By path (`["attempt", "run"]`): the file, and the paths that its code names, made
    /// absolute.
    modules: BTreeMap<Module, (PathBuf, BTreeSet<Module>)>,
    /// By the path of a re-export, what it stands for.
    exports: BTreeMap<Module, Module>,
}

type Module = Vec<String>;

impl Crate {
    fn read(tree: &str) -> Self {
        let dir = root().join(tree);
        let (mut modules, mut exports) = (BTreeMap::new(), BTreeMap::new());
        for path in files(&dir).into_iter().filter(|path| !is_test(path)) {
            let relative = path.strip_prefix(&dir).unwrap().with_extension("");
            let mut module: Module =
                relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if module.last().is_some_and(|last| last == "mod" || last == "lib") {
                module.pop();
            }
            let code = code(&read(&path));
            let (paths, renamed) = paths(&code, &module);
            exports.extend(renamed);
            let known = modules.insert(module, (path, paths));
            assert!(known.is_none(), "a module has two files: {known:?}");
        }
        Self { modules, exports }
    }

    /// The module in which the item of a path is defined.
    fn target(&self, path: &[String]) -> Module {
        for len in (1..=path.len()).rev() {
            if self.modules.contains_key(&path[..len]) {
                return path[..len].to_vec();
            }
            if let Some(original) = self.exports.get(&path[..len]) {
                return self.target(&[original, &path[len..]].concat());
            }
        }
        Vec::new()
    }

    /// The modules that a module uses. A module may use what its parents define, and its
    /// children: they are one part, told apart by files. Who names a module whole may use what that exports.
    fn uses(&self, module: &Module) -> BTreeSet<Module> {
        let targets = self.modules[module].1.iter().flat_map(|path| {
            let is_whole = self.modules.contains_key(path);
            let is_of =
                |name: &&Module| is_whole && name.starts_with(path) && name.len() == path.len() + 1;
            let exported = self.exports.keys().filter(is_of).map(|name| self.target(name));
            exported.chain([self.target(path)]).collect::<Vec<_>>()
        });
        targets.filter(|it| !it.starts_with(module) && !module.starts_with(it)).collect()
    }

    /// The modules that use each other, directly or by others: each set is one circle.
    fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let uses: BTreeMap<&Module, BTreeSet<Module>> =
            self.modules.keys().map(|module| (module, self.uses(module))).collect();
        let reached = |module: &Module| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![module.clone()]);
            while let Some(next) = open.pop() {
                open.extend(uses[&next].iter().filter(|it| reached.insert((*it).clone())).cloned());
            }
            reached
        };
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            self.modules.keys().map(|module| (module, reached(module))).collect();
        let circle = |module: &&Module| -> BTreeSet<String> {
            let others = reached[*module].iter().filter(|other| reached[other].contains(*module));
            others.map(|other| other.join("::")).collect()
        };
        reached.keys().map(circle).filter(|circle| !circle.is_empty()).collect()
    }
}

/// The absolute paths within its crate that a module names, and by the path of each of
/// its re-exports what that stands for.
fn paths(code: &str, module: &Module) -> (BTreeSet<Module>, BTreeMap<Module, Module>) {
    let (mut found, mut exports) = (BTreeSet::new(), BTreeMap::new());
    let mut rest = code;
    while let Some(at) = next_use(rest) {
        let is_export = rest[..at].trim_end().ends_with("pub");
        let end = at + rest[at..].find(';').unwrap();
        for path in expanded(&rest[at + "use ".len()..end]) {
            let (path, name) = path.split_once(" as ").unwrap_or((&path, ""));
            let name = if name.is_empty() { path.rsplit("::").next().unwrap() } else { name };
            if let Some(path) = absolute(path, module) {
                if is_export {
                    exports.insert([&module[..], &[name.to_owned()]].concat(), path);
                } else {
                    found.insert(path);
                }
            }
        }
        rest = &rest[end..];
    }
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let is_start = !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
            let is_path = |c: char| c.is_alphanumeric() || "_:".contains(c);
            let path = code[at..].split(|c| !is_path(c)).next().unwrap();
            if is_start && !path.ends_with("::") {
                found.extend(absolute(path, module));
            }
        }
    }
    (found, exports)
}

/// Where the next `use` declaration begins.
fn next_use(code: &str) -> Option<usize> {
    let mut found = code.match_indices("use ").map(|(at, _)| at);
    found.find(|at| code[..*at].is_empty() || code[..*at].ends_with([' ', '\n']))
}

/// The paths of a use tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((head, list)) = tree.split_once('{') else { return vec![tree] };
    let list = list.trim_end().strip_suffix('}').unwrap();
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in list.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(letter);
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    let whole = |path: &str| match path.strip_prefix("self") {
        Some(renamed) if renamed.is_empty() || renamed.starts_with(' ') => {
            format!("{}{renamed}", head.trim_end_matches("::"))
        }
        _ => format!("{head}{path}"),
    };
    parts.flat_map(|part| expanded(&whole(part))).collect()
}

/// A path from the root of its crate; `None`: it leads out of the crate. A path that
/// begins with a name is that of a child, if it is one.
fn absolute(path: &str, module: &Module) -> Option<Module> {
    let mut parts: Vec<&str> = path.split("::").collect();
    let mut from = match parts[0] {
        "crate" => Vec::new(),
        // The modules are declared there.
        _ if module == &["main"] => Vec::new(),
        "std" | "core" | "alloc" => return None,
        _ => module.clone(),
    };
    while let Some(first) =
        parts.first().copied().filter(|it| ["crate", "self", "super"].contains(it))
    {
        if first == "super" {
            from.pop();
        }
        parts.remove(0);
    }
    from.extend(parts.iter().map(|part| (*part).to_owned()));
    Some(from)
}

/// The code of a source file: comments, literals and the items of tests are taken out.
fn code(source: &str) -> String {
    let mut code = blanked(source);
    while let Some(start) = code.find("#[cfg(test)]").or_else(|| code.find("#[cfg(all(test")) {
        let end = start + item_len(&code[start..]);
        code.replace_range(start..end, "");
    }
    code
}

/// The bytes of the item that a text begins with, its attributes included.
fn item_len(text: &str) -> usize {
    let (mut depth, mut has_body) = (0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        has_body |= letter == '{' && depth == 1;
        if depth == 0 && (letter == ';' || (letter == '}' && has_body)) {
            return at + 1;
        }
    }
    text.len()
}

/// The text with its comments and literals taken out, line for line.
fn blanked(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let is_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").unwrap() + 2
        } else if let Some(end) = raw_string_end(rest).filter(|_| !is_word) {
            end
        } else if letter == '"' {
            1 + quoted_len(&rest[1..], '"')
        } else if letter == '\'' && is_char(rest) {
            1 + quoted_len(&rest[1..], '\'')
        } else {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        code.extend(rest[..len].chars().filter(|c| *c == '\n'));
        rest = &rest[len..];
    }
    code
}

/// Where the raw string ends that a text begins with.
fn raw_string_end(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let inner = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(text.len() - inner.len() + inner.find(&end)? + end.len())
}

/// The bytes up to and with the quote that ends a literal.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        if letter == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    text.len()
}

/// Whether a quote begins a character, not a lifetime.
fn is_char(text: &str) -> bool {
    let mut letters = text.chars().skip(1);
    letters.next() == Some('\\') || letters.next() == Some('\'')
}

/// The words of a name in `snake_case` or `CamelCase`, in small letters.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut before) = (vec![String::new()], '_');
    for letter in name.chars() {
        if letter == '_' || (letter.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        }
        before = letter;
    }
    words
}

/// The lines of a file, without those of its tests, which come last, and without comments.
fn production_lines(path: &Path) -> usize {
    let source = read(path);
    let in_tests = blanked(&source).lines().count() - code(&source).lines().count();
    let production = source.lines().take(source.lines().count() - in_tests);
    production.filter(|line| !line.trim_start().starts_with("//")).count()
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn is_test(path: &Path) -> bool {
    let path = path.strip_prefix(root().join("tests/model-server")).unwrap_or(path);
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_name().is_some_and(|name| name == "tests.rs")
}

fn sources() -> Vec<PathBuf> {
    ["actors/src", "src", "tests/model-server/src", "examples"]
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
