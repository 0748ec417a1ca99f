//! Cached installations of package managers, from their registries: the second attempt takes what the
//! first one's setup made, its tools run, and they import the code of its own worktree. That the code is
//! another one's is what could go wrong without a word.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::{Attempt, Provost, needs};
use crate::whole_workflow::with_registries;

struct Case {
    name: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Writes the lock file, in the repository.
    lock: &'static str,
    setup: &'static str,
    key: &'static str,
    cache: &'static [&'static str],
    /// Prints paths of code, each of which has to be the worktree's own.
    probe: &'static str,
}

const WORKSPACE: &str = r#"{"name": "root", "version": "1.0.0", "private": true,
    "workspaces": ["packages/*"], "dependencies": {"semver": "7.6.3"}}"#;
const A: (&str, &str) = ("packages/a/package.json", r#"{"name": "@x/a", "version": "1.0.0"}"#);
const A_CODE: (&str, &str) = ("packages/a/index.js", "module.exports = __filename\n");
const B: (&str, &str) = (
    "packages/b/package.json",
    r#"{"name": "@x/b", "version": "1.0.0", "dependencies": {"@x/a": "1.0.0", "is-odd": "3.0.1"}}"#,
);
const JAVASCRIPT_PROBE: &str = "set -e; test $(node_modules/.bin/semver 1.2.3) = 1.2.3; cd packages/b; \
     node -e \"require('is-odd'); console.log(require('@x/a'))\"";

const JAVASCRIPT: [Case; 4] = [
    Case {
        name: "npm",
        files: &[("package.json", WORKSPACE), A, A_CODE, B],
        lock: "npm install --silent --no-audit --no-fund",
        setup: "npm install --silent --no-audit --no-fund",
        key: "package-lock.json",
        cache: &["node_modules"],
        probe: JAVASCRIPT_PROBE,
    },
    Case {
        name: "yarn",
        files: &[("package.json", WORKSPACE), A, A_CODE, B],
        lock: "npx -y yarn@1 install --silent",
        setup: "npx -y yarn@1 install --silent --frozen-lockfile",
        key: "yarn.lock",
        cache: &["node_modules"],
        probe: JAVASCRIPT_PROBE,
    },
    Case {
        name: "pnpm",
        files: &[
            (
                "package.json",
                r#"{"name": "app", "version": "1.0.0", "dependencies": {"semver": "7.6.3"}}"#,
            ),
            ("own.js", "require('semver'); console.log(__filename)\n"),
        ],
        lock: "CI=1 npx -y pnpm@10 install --silent --no-frozen-lockfile",
        setup: "CI=1 npx -y pnpm@10 install --silent --frozen-lockfile",
        key: "pnpm-lock.yaml",
        cache: &["node_modules"],
        probe: "set -e; test $(node_modules/.bin/semver 1.2.3) = 1.2.3; node own.js",
    },
    Case {
        name: "pnpm-workspace",
        files: &[
            ("package.json", WORKSPACE),
            ("pnpm-workspace.yaml", "packages: [\"packages/*\"]\nlinkWorkspacePackages: true\n"),
            A,
            A_CODE,
            B,
        ],
        lock: "CI=1 npx -y pnpm@10 install --silent --no-frozen-lockfile",
        setup: "CI=1 npx -y pnpm@10 install --silent --frozen-lockfile",
        key: "pnpm-lock.yaml",
        cache: &["node_modules", "packages/b/node_modules"],
        probe: JAVASCRIPT_PROBE,
    },
];

const PROJECT: &str = "[project]\nname = 'mine'\nversion = '1.0.0'\nrequires-python = '>=3.9'\n\
    dependencies = ['six==1.16.0']\n[project.scripts]\nprobe = 'mine:main'\n\
    [build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n\
    [tool.setuptools]\npackages = ['mine']\n";
const POETRY: &str = "[project]\nname = 'mine'\nversion = '1.0.0'\nrequires-python = '>=3.9'\n\
    dependencies = ['six==1.16.0']\n[project.scripts]\nprobe = 'mine:main'\n\
    [build-system]\nrequires = ['poetry-core']\nbuild-backend = 'poetry.core.masonry.api'\n";
const CODE: (&str, &str) = (
    "mine/__init__.py",
    "import sys\nimport six\ndef main():\n    print(__file__)\n    print(sys.prefix)\n",
);
const PYTHON_PROBE: &str =
    "set -e; .venv/bin/probe; .venv/bin/python -c 'import mine; mine.main()'";

const PYTHON: [Case; 3] = [
    Case {
        name: "venv",
        files: &[("pyproject.toml", PROJECT), CODE],
        lock: "true",
        setup: "python3 -m venv .venv && .venv/bin/python -m pip install --quiet -e .",
        key: "pyproject.toml",
        cache: &[".venv"],
        probe: PYTHON_PROBE,
    },
    Case {
        name: "uv",
        files: &[("pyproject.toml", PROJECT), CODE],
        lock: "UV_PYTHON_DOWNLOADS=never $TOOLS/uv lock --quiet",
        setup: "UV_PYTHON_DOWNLOADS=never $TOOLS/uv sync --quiet --locked",
        key: "uv.lock",
        cache: &[".venv"],
        probe: PYTHON_PROBE,
    },
    Case {
        name: "poetry",
        files: &[("pyproject.toml", POETRY), CODE],
        // From the index that pip uses: other interfaces of a registry are not mirrored everywhere.
        lock: "$TOOLS/poetry source add --quiet --priority=primary simple $($TOOLS/python -c \
               'from pip._internal.models.index import PyPI; print(PyPI.simple_url)') && \
               $TOOLS/poetry lock --quiet",
        setup: "POETRY_VIRTUALENVS_IN_PROJECT=true $TOOLS/poetry install --quiet",
        key: "poetry.lock",
        cache: &[".venv"],
        probe: PYTHON_PROBE,
    },
];

/// A shell command in a folder, with the person's home.
fn run(provost: &Provost, folder: &Path, command: &str) {
    let mut shell = provost.shell(command);
    shell.current_dir(folder).env("TOOLS", provost.path("tools/bin"));
    let done = Provost::done(shell);
    assert_eq!(done.code, 0, "{command}: {done:?}");
}

fn holds(provost: &Provost, case: &Case) {
    let repo = provost.empty_repo(case.name);
    for (file, text) in case.files {
        let path = repo.path.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(repo.path.join(".gitignore"), "node_modules/\n.venv/\n*.egg-info/\n__pycache__/\n")
        .unwrap();
    run(provost, &repo.path, case.lock);
    repo.git(&["add", "--all"]);
    repo.git(&["commit", "--quiet", "--message", "all"]);
    let project = json!({"name": case.name, "repos": [{"path": repo.path}]});
    let project = provost.call("create_project", &project);
    let start = || {
        let task = json!({"project_id": project["project_id"], "title": "probe"});
        let task = provost.call("create_task", &task)["task_id"].clone();
        let prompt = format!("run {}", case.probe);
        let start = json!({"task_id": task, "executor": "fake", "prompt": prompt});
        let attempt = Attempt::new(provost, provost.call("start_task_attempt", &start));
        let status = attempt.settled();
        assert_eq!(status["state"], "completed", "{}: {status}", case.name);
        let cache = &status["provision"]["repos"][case.name]["cache"];
        let own = status["worktree"].as_str().unwrap().to_owned();
        let said = attempt.said("tool_result").concat();
        assert!(said.lines().count() > 0, "{}: {:?}", case.name, attempt.normalized());
        for line in said.lines() {
            assert!(line.starts_with(&own), "{}: {line} is not of {own}", case.name);
        }
        cache.clone()
    };
    let first = start();
    assert_eq!(first["state"], "kept", "{}: {first}", case.name);
    let second = start();
    assert_eq!(second["state"], "restored", "{}: {second}", case.name);
}

fn provost(cases: &[Case]) -> Provost {
    let provost = with_registries(Provost::new());
    let table = |case: &Case| {
        format!(
            "[projects.{0}.repos.{0}.setup]\nrun = \"{1}\"\ncache_key = ['{2}']\ncache = {3:?}\n\
             after_restore = 'run'\nenv = {{ TOOLS = '{4}' }}\n\
             env_pass = ['PIP_*', 'NPM_CONFIG_*', 'npm_config_*']\n",
            case.name,
            case.setup,
            case.key,
            case.cache,
            provost.path("tools/bin").display()
        )
    };
    let tables: String = cases.iter().map(table).collect();
    provost.config(&tables).started()
}

#[test]
fn javascript_is_cached_and_imports_its_own_code() {
    if !needs(&[("node", "nodejs"), ("npm", "npm")]) {
        return;
    }
    let provost = provost(&JAVASCRIPT);
    for case in &JAVASCRIPT {
        holds(&provost, case);
    }
}

#[test]
fn python_is_cached_and_imports_its_own_code() {
    if !needs(&[("python3", "python3"), ("pip3", "python3-pip")]) {
        return;
    }
    let provost = provost(&PYTHON);
    let tools = "python3 -m venv tools && tools/bin/pip install --quiet uv poetry";
    run(&provost, &provost.path(""), tools);
    for case in &PYTHON {
        holds(&provost, case);
    }
}
