//! Generated settings of git, of the person and of the repository: wherever git finds nothing changed, an attempt
//! that does nothing has no changes; what it writes is merged as by hand, by whom git says.
//! `PROVOST_TEST_CONFIGURATIONS` says how many (else 12), `PROVOST_TEST_SEED` with which the first begins (else 1).

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use fastrand::Rng;
use serde_json::json;

use crate::finish::{finish, worktree};
use crate::harness::{Board, Provost, Repo};

const WHO: &str = "--format=%an <%ae> %cn <%ce>";

/// Lines of configuration, each with its section. `{home}` and `{repo}` are folders.
const SETTINGS: &[&str] = &[
    "core autocrlf = true",
    "core autocrlf = input",
    "core autocrlf = false",
    "core eol = crlf",
    "core eol = lf",
    "core safecrlf = false",
    "core safecrlf = true",
    "core fileMode = false",
    "core fileMode = true",
    "core symlinks = false",
    "core ignoreCase = true",
    "core quotePath = false",
    "core precomposeUnicode = true",
    "core checkStat = minimal",
    "core trustCtime = false",
    "core splitIndex = true",
    "core untrackedCache = true",
    "core fsmonitor = false",
    "core compression = 0",
    "core bigFileThreshold = 100",
    "core abbrev = 40",
    "core commentChar = ;",
    "core whitespace = error",
    "core preloadIndex = false",
    "core multiPackIndex = false",
    "core logAllRefUpdates = always",
    "core hooksPath = {home}/hooks",
    "core excludesFile = ~/ignored",
    "core attributesFile = {home}/attributes",
    "index version = 4",
    "feature manyFiles = true",
    "status showUntrackedFiles = no",
    "status showUntrackedFiles = all",
    "status relativePaths = false",
    "status short = true",
    "diff noprefix = true",
    "diff mnemonicPrefix = true",
    "diff renames = copies",
    "diff ignoreSubmodules = all",
    "diff external = false",
    "diff algorithm = histogram",
    "color ui = always",
    "color status = always",
    "log showSignature = true",
    "log date = relative",
    "format pretty = oneline",
    "commit cleanup = scissors",
    "commit verbose = true",
    "commit template = ~/template",
    "commit status = false",
    "i18n commitEncoding = ISO-8859-1",
    "i18n logOutputEncoding = ISO-8859-1",
    "merge ff = only",
    "merge ff = false",
    "merge conflictStyle = diff3",
    "merge renames = false",
    "merge log = true",
    "merge branchdesc = true",
    "pull rebase = true",
    "rebase autoStash = true",
    "branch autoSetupMerge = always",
    "branch sort = -committerdate",
    "advice detachedHead = false",
    "gc auto = 1",
    "maintenance auto = true",
    "fetch prune = true",
    "fetch fsckObjects = true",
    "transfer fsckObjects = true",
    "receive denyDeletes = true",
    "receive denyNonFastForwards = true",
    "push default = nothing",
    "submodule recurse = true",
    "init defaultBranch = trunk",
    "safe bareRepository = explicit",
    "extensions worktreeConfig = true",
    "alias status = !false",
    "user useConfigOnly = true",
    "user name = Ann Ünlü",
    "user email = ann@home.invalid",
    "author name = The Author",
    "author email = author@home.invalid",
    "committer name = The Committer",
    "committer email = committer@home.invalid",
    "filter \"twice\" clean = sed s/aa/a/g",
    "filter \"twice\" smudge = sed s/a/aa/g",
    "filter \"missing\" clean = no-such-program",
    "filter \"missing\" smudge = no-such-program",
    "filter \"strict\" required = true",
    "filter \"strict\" clean = cat",
    "filter \"strict\" smudge = cat",
];

const ATTRIBUTES: &[&str] = &[
    "* text=auto",
    "*.txt text",
    "*.txt eol=crlf",
    "*.txt eol=lf",
    "*.txt -text",
    "*.txt filter=twice",
    "*.md filter=missing",
    "*.md filter=strict",
    "*.bin binary",
    "*.txt ident",
    "*.txt working-tree-encoding=UTF-16LE",
    "*.txt merge=union",
    "*.md export-ignore",
    "*.txt diff=none",
];

const IGNORED: &[&str] =
    &["*.tmp", "/generated/", "!kept.tmp", "*.log", ".*", "!.gitattributes", "*.bin"];

/// Some of these, in their order.
fn some<'a>(rng: &mut Rng, of: &[&'a str], most: usize) -> Vec<&'a str> {
    let mut chosen: Vec<usize> = (0..rng.usize(..=most)).map(|_| rng.usize(..of.len())).collect();
    chosen.sort_unstable();
    chosen.into_iter().map(|at| of[at]).collect()
}

fn lines(chosen: &[&str]) -> String {
    chosen.iter().map(|line| (*line).to_owned() + "\n").collect()
}

/// A configuration of these settings.
fn configuration(chosen: &[&str], provost: &Provost) -> String {
    let home = provost.path("person");
    let section = |line: &&str| {
        // A section may have a name in quotes.
        let end = line.find("\" ").map_or_else(|| line.find(' ').unwrap(), |it| it + 1);
        format!("[{}]\n\t{}\n", &line[..end], line[end..].trim())
    };
    let text: String = chosen.iter().map(section).collect();
    text.replace("{home}", home.to_str().unwrap())
}

/// Configures the person's git in one of the files that it may have.
fn configure_person(rng: &mut Rng, provost: &Provost, repo: &Repo) {
    let home = provost.path("person");
    fs::create_dir_all(home.join(".config/git")).unwrap();
    let text = configuration(&some(rng, SETTINGS, 6), provost);
    match rng.u8(..4) {
        0 => fs::write(home.join(".config/git/config"), text).unwrap(),
        1 => {
            fs::write(home.join("more"), text).unwrap();
            let condition = format!("gitdir:{}/", repo.path.display());
            provost.person_configures(&format!("[includeIf \"{condition}\"]\npath = more\n"));
        }
        _ => provost.person_configures(&text),
    }
    for (file, text) in [
        ("ignored", lines(&some(rng, IGNORED, 2))),
        (".config/git/ignore", lines(&some(rng, IGNORED, 2))),
        ("attributes", lines(&some(rng, ATTRIBUTES, 2))),
        (".config/git/attributes", lines(&some(rng, ATTRIBUTES, 1))),
        ("template", "A template\n".to_owned()),
    ] {
        fs::write(home.join(file), text).unwrap();
    }
}

fn configure_repo(rng: &mut Rng, provost: &Provost, repo: &Repo) {
    let folder = repo.path.join(".git");
    let text = configuration(&some(rng, SETTINGS, 4), provost);
    let before = fs::read_to_string(folder.join("config")).unwrap();
    fs::write(folder.join("config"), before + &text).unwrap();
    fs::create_dir_all(folder.join("info")).unwrap();
    fs::write(folder.join("info/exclude"), lines(&some(rng, IGNORED, 2))).unwrap();
    fs::write(folder.join("info/attributes"), lines(&some(rng, ATTRIBUTES, 1))).unwrap();
    for (file, of) in [(".gitattributes", ATTRIBUTES), (".gitignore", IGNORED)] {
        fs::write(repo.path.join(file), lines(&some(rng, of, 2))).unwrap();
    }
}

/// Files that git may change on their way in and out.
fn fill(repo: &Repo) {
    let files: [(&str, &[u8]); 9] = [
        ("lf.txt", b"one\ntwo\na baa\n"),
        ("crlf.txt", b"one\r\ntwo\r\n"),
        ("mixed.txt", b"one\r\ntwo\nthree"),
        ("id.txt", b"$Id$\n"),
        ("b.bin", b"\0\x01\r\n\0"),
        ("Räd me.md", b"# a\n"),
        ("empty.md", b""),
        ("x.tmp", b"ignored, or not\n"),
        ("d/run.sh", b"#!/bin/sh\n"),
    ];
    for (name, text) in files {
        let path = repo.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::set_permissions(repo.path.join("d/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("lf.txt", repo.path.join("link")).unwrap();
}

/// What git itself says of it: whether a commit there can be made, and leaves nothing changed, here and in
/// a worktree.
fn is_plain(provost: &Provost, repo: &Repo) -> bool {
    let there = provost.path("beside");
    let script = format!(
        "git add --all && git commit --quiet --message configured || exit 1
         [ -z \"$(git status --porcelain --untracked-files=all)\" ] || exit 1
         git worktree add --quiet --detach '{0}' && cd '{0}' || exit 1
         [ -z \"$(git status --porcelain --untracked-files=all)\" ]",
        there.display()
    );
    let mut command = provost.shell(&script);
    command.current_dir(&repo.path).env("GIT_EDITOR", "true").env("GIT_CONFIG_NOSYSTEM", "1");
    Provost::done(command).code == 0
}

/// By hand: the tree of a branch with one more file, and who commits.
fn by_hand(provost: &Provost, repo: &Repo) -> (String, String) {
    let there = provost.path("beside");
    let git = |args: &[&str]| repo.git(&[&["-C", there.to_str().unwrap()][..], args].concat());
    fs::write(there.join("new.txt"), "one\ntwo\n").unwrap();
    git(&["add", "new.txt"]);
    git(&["commit", "--quiet", "--no-verify", "--message", "new"]);
    (git(&["rev-parse", "HEAD^{tree}"]), git(&["log", "-1", "--no-show-signature", WHO]))
}

#[test]
fn whatever_git_is_configured_an_attempt_begins_unchanged_and_is_merged_as_by_hand() {
    let number = |name: &str| env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let count = number("PROVOST_TEST_CONFIGURATIONS").unwrap_or(12);
    let first = number("PROVOST_TEST_SEED").unwrap_or(1);
    let mut compared = 0;
    for seed in first..first + count {
        eprintln!("PROVOST_TEST_SEED={seed}");
        let mut rng = Rng::with_seed(seed);
        let provost = Provost::new();
        let repo = provost.repo("configured");
        configure_person(&mut rng, &provost, &repo);
        configure_repo(&mut rng, &provost, &repo);
        fill(&repo);
        if !is_plain(&provost, &repo) {
            continue;
        }
        compared += 1;
        let (tree, who) = by_hand(&provost, &repo);
        let provost = provost.started();
        let board = Board::new(&provost, vec![repo]);
        let repo = board.repo();
        let idle = board.start("fake", "say done");
        idle.saved(1);
        let changes = provost.call("get_attempt_changes", &json!({"attempt_id": idle.id}));
        assert_eq!(changes["files"], json!([]), "seed {seed}: {changes}");
        let there = worktree(&idle);
        let status = ["-C", there.to_str().unwrap(), "status", "--porcelain"];
        assert_eq!(repo.git(&status), "", "seed {seed}");
        let work = board.start("fake", "say done");
        work.saved(1);
        fs::write(worktree(&work).join("new.txt"), "one\ntwo\n").unwrap();
        let done = finish(&provost, &work, "merge", &json!({}));
        assert_eq!(done["state"], "done", "seed {seed}: {done}");
        assert_eq!(repo.git(&["rev-parse", "main^{tree}"]), tree, "seed {seed}");
        let made = repo.git(&["log", "-1", "--no-show-signature", WHO, "main^2"]);
        assert_eq!(made, who, "seed {seed}");
        assert_eq!(repo.git(&["status", "--porcelain"]), "", "seed {seed}");
    }
    assert!(compared * 3 > count, "{compared} of {count} were compared");
}
