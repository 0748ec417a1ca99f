//! From a new worktree to the branch it came from, in a JavaScript and a Python repository with
//! packages of their registries: ten attempts at once install, test and serve, each on a port of
//! its own, and their work is squashed and rebased onto one branch, with one conflict on the way;
//! by tools alone, and again by verbs alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Provost, Repo, get, needs};

const ATTEMPTS: usize = 10;

/// A kind of repository, with a program that checks and one that serves.
struct Kind {
    /// What it takes beyond Rust, a C compiler and git.
    tools: &'static [(&'static str, &'static str)],
    files: &'static [(&'static str, &'static str)],
    /// Writes the files that pin the packages.
    lock: &'static str,
    settings: &'static str,
    /// A part of the program.
    part: (&'static str, &'static str),
    test: &'static str,
    /// The file that the last two attempts change differently.
    shared: &'static str,
}

const JAVASCRIPT: Kind = Kind {
    tools: &[("node", "nodejs"), ("npm", "npm")],
    files: &[
        (".gitignore", "node_modules/\n.env\n"),
        (
            "package.json",
            r#"{"name": "app", "version": "1.0.0", "private": true,
                "scripts": {"test": "node test.js"}, "dependencies": {"is-number": "7.0.0"}}"#,
        ),
        ("shared.js", "module.exports = 0\n"),
        ("parts/first.js", "module.exports = 1\n"),
        (
            "test.js",
            "const assert = require('assert'), fs = require('fs'), isNumber = require('is-number')\n\
             assert(fs.readFileSync('.env', 'utf8').includes('GREETING'))\n\
             for (const part of fs.readdirSync('parts')) assert(isNumber(require('./parts/' + part)))\n\
             assert(isNumber(require('./shared.js')))\n\
             console.log('tested')\n",
        ),
        (
            "serve.js",
            "const port = Number(process.env.WEB_PORT)\n\
             require('http').createServer((_, answer) => answer.end(`port ${port}`))\n\
             \x20 .listen(port, '127.0.0.1')\n",
        ),
    ],
    lock: "npm install --silent --no-audit --no-fund",
    settings: "copy = ['/.env']\nsetup.run = 'npm ci --silent --no-audit --no-fund'\n\
               ports.names = ['WEB_PORT']\ndev_server.run = 'exec node serve.js'\n\
               dev_server.port = 'WEB_PORT'\ndev_server.ready = 'http://127.0.0.1:$WEB_PORT/'\n",
    part: ("parts/NAME.js", "module.exports = 1"),
    test: "npm test --silent",
    shared: "shared.js",
};

const PYTHON: Kind = Kind {
    tools: &[("python3", "python3"), ("pip3", "python3-pip")],
    files: &[
        (".gitignore", "vendor/\n.env\n__pycache__/\n"),
        ("requirements.txt", "six==1.16.0\n"),
        ("shared.py", "VALUE = 0\n"),
        ("parts/first.py", "VALUE = 1\n"),
        (
            "check.py",
            "import importlib, pathlib, sys\n\
             sys.path.insert(0, 'vendor')\n\
             import six\n\
             assert 'GREETING' in pathlib.Path('.env').read_text()\n\
             names = ['parts.' + part.stem for part in pathlib.Path('parts').glob('*.py')]\n\
             for name in names + ['shared']:\n\
             \x20   assert isinstance(importlib.import_module(name).VALUE, six.integer_types), name\n\
             print('tested')\n",
        ),
        (
            "serve.py",
            "import http.server, os\n\
             port = int(os.environ['WEB_PORT'])\n\
             class Answer(http.server.BaseHTTPRequestHandler):\n\
             \x20   def do_GET(self):\n\
             \x20       self.send_response(200)\n\
             \x20       self.end_headers()\n\
             \x20       self.wfile.write(f'port {port}'.encode())\n\
             \x20   def log_message(self, *_): pass\n\
             http.server.HTTPServer(('127.0.0.1', port), Answer).serve_forever()\n",
        ),
    ],
    lock: "python3 -m pip install --quiet --root-user-action ignore --target vendor -r requirements.txt",
    settings: "copy = ['/.env']\nports.names = ['WEB_PORT']\nsetup.run = \
               'python3 -m pip install --quiet --root-user-action ignore --target vendor -r requirements.txt'\n\
               dev_server.run = 'exec python3 serve.py'\ndev_server.port = 'WEB_PORT'\n\
               dev_server.ready = 'http://127.0.0.1:$WEB_PORT/'\n",
    part: ("parts/NAME.py", "VALUE = 1"),
    test: "python3 check.py",
    shared: "shared.py",
};

/// How a client does each step: with tools, or with verbs.
trait Face {
    fn start(&self, prompt: &str) -> String;
    fn wait(&self, attempts: &[String]);
    fn log(&self, attempt: &str) -> String;
    /// What a merge ended in, and the first path in conflict.
    fn merge(&self, attempt: &str, strategy: &str) -> (String, Option<String>);
    fn send(&self, attempt: &str, prompt: &str);
    /// Starts the dev server; returns its URL.
    fn serve(&self, attempt: &str) -> String;
    fn discard(&self, attempt: &str);
}

struct Tools<'p> {
    provost: &'p Provost,
    project_id: String,
}

impl Face for Tools<'_> {
    fn start(&self, prompt: &str) -> String {
        let task = json!({"project_id": self.project_id, "title": "add a part"});
        let task = self.provost.call("create_task", &task);
        let start = json!({"task_id": task["task_id"], "executor": "fake", "prompt": prompt});
        text(&self.provost.call("start_task_attempt", &start)["attempt_id"])
    }

    fn wait(&self, attempts: &[String]) {
        loop {
            let waits = json!({"attempt_ids": attempts, "until": "all_settled"});
            let waited = self.provost.call("wait_for_attempts", &waits);
            if waited["timed_out"] == false {
                for attempt in waited["attempts"].as_array().unwrap() {
                    assert_eq!(attempt["state"], "completed", "{attempt}");
                }
                return;
            }
        }
    }

    fn log(&self, attempt: &str) -> String {
        let page = json!({"attempt_id": attempt, "limit": 500});
        self.provost.call("tail_attempt_logs", &page).to_string()
    }

    fn merge(&self, attempt: &str, strategy: &str) -> (String, Option<String>) {
        let merge = json!({"attempt_id": attempt, "action": "merge", "strategy": strategy});
        let done = self.provost.call("finish_attempt", &merge);
        (text(&done["state"]), done["conflicts"][0]["path"].as_str().map(str::to_owned))
    }

    fn send(&self, attempt: &str, prompt: &str) {
        let send = json!({"attempt_id": attempt, "action": "send", "prompt": prompt});
        self.provost.call("follow_up", &send);
    }

    fn serve(&self, attempt: &str) -> String {
        let serve = json!({"attempt_id": attempt, "action": "preview"});
        let preview = &self.provost.call("follow_up", &serve)["preview"];
        assert_eq!(preview["state"], "ready", "{preview}");
        text(&preview["url"])
    }

    fn discard(&self, attempt: &str) {
        let discard = json!({"attempt_id": attempt, "action": "discard"});
        assert_eq!(self.provost.call("finish_attempt", &discard)["state"], "done");
    }
}

struct Verbs<'p> {
    provost: &'p Provost,
}

impl Face for Verbs<'_> {
    fn start(&self, prompt: &str) -> String {
        let run = self.provost.verb(["run", "--executor", "fake", "--json", prompt]);
        text(&run.json()["attempt_id"])
    }

    fn wait(&self, attempts: &[String]) {
        for attempt in attempts {
            let waited = self.provost.verb(["wait", attempt]);
            assert_eq!(waited.code, 0, "{waited:?}");
        }
    }

    fn log(&self, attempt: &str) -> String {
        self.provost.verb(["logs", attempt]).stdout
    }

    fn merge(&self, attempt: &str, strategy: &str) -> (String, Option<String>) {
        let merged = self.provost.verb(["merge", attempt, "--strategy", strategy, "--json"]);
        let done: Value =
            serde_json::from_str(&merged.stdout).unwrap_or_else(|_| panic!("no JSON: {merged:?}"));
        (text(&done["state"]), done["conflicts"][0]["path"].as_str().map(str::to_owned))
    }

    fn send(&self, attempt: &str, prompt: &str) {
        let sent = self.provost.verb(["send", attempt, prompt]);
        assert_eq!(sent.code, 0, "{sent:?}");
    }

    fn serve(&self, attempt: &str) -> String {
        let preview = self.provost.verb(["preview", attempt, "--json"]).json();
        assert_eq!(preview["state"], "ready", "{preview}");
        text(&preview["url"])
    }

    fn discard(&self, attempt: &str) {
        let discarded = self.provost.verb(["rm", attempt]);
        assert_eq!(discarded.code, 0, "{discarded:?}");
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// What the package managers of this machine are told, wherever its home is.
pub fn with_registries(mut provost: Provost) -> Provost {
    const NAMES: [&str; 10] = [
        "PIP_",
        "NPM_CONFIG_",
        "npm_config_",
        "SSL_",
        "REQUESTS_CA_",
        "NODE_EXTRA_CA_",
        "HTTP_",
        "HTTPS_",
        "http",
        "no_",
    ];
    for (name, value) in std::env::vars() {
        if NAMES.iter().any(|known| name.starts_with(known)) {
            provost = provost.variable(&name, &value);
        }
    }
    let home = std::env::var("HOME").unwrap_or_default();
    let (npm, pyenv) = (Path::new(&home).join(".npmrc"), Path::new(&home).join(".pyenv"));
    if npm.exists() {
        provost = provost.variable("NPM_CONFIG_USERCONFIG", &npm.to_string_lossy());
    }
    if pyenv.exists() {
        provost = provost.variable("PYENV_ROOT", &pyenv.to_string_lossy());
    }
    provost
}

/// The repository as its person has it: with packages and a `.env` that git ignores.
fn person_made(provost: &Provost, kind: &Kind) -> Repo {
    let repo = provost.empty_repo("app");
    fs::create_dir(repo.path.join("parts")).unwrap();
    for (path, text) in kind.files {
        fs::write(repo.path.join(path), text).unwrap();
    }
    fs::write(repo.path.join(".env"), "GREETING=good morning\n").unwrap();
    in_checkout(provost, &repo, kind.lock);
    repo.git(&["add", "--all"]);
    repo.git(&["commit", "--quiet", "--message", "Begin"]);
    repo
}

/// Runs a command in the person's checkout; returns what it printed.
#[track_caller]
fn in_checkout(provost: &Provost, repo: &Repo, command: &str) -> String {
    let done = Provost::done({
        let mut shell = provost.shell(command);
        shell.current_dir(&repo.path);
        shell
    });
    assert_eq!(done.code, 0, "{command}: {done:?}");
    done.stdout
}

/// The whole way, by one face.
fn goes_there_and_back(provost: &Provost, kind: &Kind, repo: &Repo, face: &dyn Face) {
    let attempts: Vec<String> = (0..ATTEMPTS)
        .map(|number| {
            let (path, line) = kind.part;
            let path = path.replace("NAME", &format!("part{number}"));
            let clash = if number + 2 >= ATTEMPTS {
                format!("\nrun sed -i s/0/{number}/ {}", kind.shared)
            } else {
                String::new()
            };
            face.start(&format!("run echo '{line}' > {path}{clash}\nrun {}", kind.test))
        })
        .collect();
    face.wait(&attempts);
    for attempt in &attempts {
        let log = face.log(attempt);
        assert!(log.contains("tested"), "{log}");
    }
    let urls: BTreeSet<_> = attempts.iter().map(|attempt| face.serve(attempt)).collect();
    assert_eq!(urls.len(), ATTEMPTS, "each has its own: {urls:?}");
    for url in &urls {
        let port = url.trim_end_matches('/').rsplit_once(':').unwrap().1;
        assert!(get(url).unwrap().ends_with(&format!("port {port}")), "{url}");
    }

    let strategy = |number: usize| if number.is_multiple_of(2) { "squash" } else { "rebase" };
    let (last, others) = attempts.split_last().unwrap();
    for (number, attempt) in others.iter().enumerate() {
        assert_eq!(face.merge(attempt, strategy(number)).0, "done");
        assert_eq!(repo.git(&["status", "--porcelain"]), "");
    }
    let before = repo.git(&["rev-parse", "main"]);
    let (state, path) = face.merge(last, "squash");
    assert_eq!((&*state, path), ("conflicts", Some(format!("app/{}", kind.shared))));
    let now = (repo.git(&["rev-parse", "main"]), repo.git(&["status", "--porcelain"]));
    assert_eq!(now, (before, String::new()), "a conflict moves nothing");
    let resolve = format!("run git merge --quiet -X ours -m resolved main\nrun {}", kind.test);
    face.send(last, &resolve);
    face.wait(std::slice::from_ref(last));
    assert_eq!(face.merge(last, "squash").0, "done");

    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    assert_eq!(repo.git(&["rev-list", "--count", "main"]), (ATTEMPTS + 1).to_string());
    assert_eq!(repo.git(&["ls-files", "parts"]).lines().count(), ATTEMPTS + 1);
    assert!(in_checkout(provost, repo, kind.test).contains("tested"));
    for attempt in &attempts {
        face.discard(attempt);
    }
    assert!(urls.iter().all(|url| get(url).is_none()), "a dev server ends with its worktree");
}

/// Each test's daemon has ports of its own: other daemons don't know which ones it gave away.
fn daemon(ports: &str) -> String {
    format!("[daemon]\nmax_running_attempts = {ATTEMPTS}\n[worktrees]\nports = \"{ports}\"\n")
}

/// Settings in the person's own configuration: no command waits for a person.
fn by_tools(kind: &Kind, ports: &str) {
    if !needs(kind.tools) {
        return;
    }
    let settings = format!("{}[projects.scratch.repos.app]\n{}", daemon(ports), kind.settings);
    let provost = with_registries(Provost::new()).config(&settings).started();
    let repo = person_made(&provost, kind);
    let made = json!({"name": "scratch", "repos": [{"path": repo.path}]});
    let project_id = text(&provost.call("create_project", &made)["project_id"]);
    let tools = Tools { provost: &provost, project_id };
    goes_there_and_back(&provost, kind, &repo, &tools);
}

/// Settings in the repository, which a person trusts.
fn by_verbs(kind: &Kind, ports: &str) {
    if !needs(kind.tools) {
        return;
    }
    let provost = with_registries(Provost::new()).config(&daemon(ports)).started();
    let repo = person_made(&provost, kind);
    repo.commit("provost.toml", kind.settings);
    repo.git(&["reset", "--quiet", "--soft", "HEAD~"]);
    repo.git(&["commit", "--quiet", "--amend", "--no-edit"]);
    for verb in [&["init"][..], &["trust", "--yes"]] {
        let mut command = provost.command(verb);
        command.current_dir(&repo.path);
        let done = Provost::done(command);
        assert_eq!(done.code, 0, "{done:?}");
    }
    goes_there_and_back(&provost, kind, &repo, &Verbs { provost: &provost });
}

#[test]
fn a_javascript_repository_by_tools() {
    by_tools(&JAVASCRIPT, "20000-20499");
}

#[test]
fn a_javascript_repository_by_verbs() {
    by_verbs(&JAVASCRIPT, "20500-20999");
}

#[test]
fn a_python_repository_by_tools() {
    by_tools(&PYTHON, "21000-21499");
}

#[test]
fn a_python_repository_by_verbs() {
    by_verbs(&PYTHON, "21500-21999");
}
