use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use tempfile::TempDir;

use super::*;
use crate::ids::AttemptId;
use crate::workspace::changes::Status;
use crate::workspace::parting::History;
use crate::workspace::{NewWorktree, add_worktree};

#[test]
fn git_is_quoted_by_its_errors_and_briefly() {
    let gist = |said: &str| gist(&GitError::Failed(said.to_owned()));
    let noise = "warning: in the working copy of 'a', LF will be replaced by CRLF\n".repeat(100);
    assert_eq!(
        gist(&format!("{noise}error: a: short read\nfatal: no\n")),
        "error: a: short read fatal: no"
    );
    assert_eq!(gist("exit status: 3"), "exit status: 3");
    assert_eq!(gist("signal: 7 (SIGBUS)"), "a file was cut short while it was read");
    assert_eq!(gist(&noise).chars().count(), 300);
}

/// A repository with a commit on `main`, and an attempt's worktree of it.
pub struct Scene {
    pub scratch: TempDir,
    pub runtime: tokio::runtime::Runtime,
    pub source: Source,
}

impl Scene {
    pub fn new(files: &[(&[u8], &[u8])]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let repo = scratch.path().join("repo");
        fs::create_dir_all(scratch.path().join("worktrees/folder")).unwrap();
        fs::create_dir(&repo).unwrap();
        let own = Own::of(&scratch.path().join("attempt"), "app");
        let source = Source {
            repo,
            worktrees: scratch.path().join("worktrees"),
            folder: "folder".to_owned(),
            name: "app".to_owned(),
            attempt: AttemptId::new(),
            own,
            branch: "provost/x".to_owned(),
            target_branch: "main".to_owned(),
            base: String::new(),
            history: History::default(),
            scratch: scratch.path().join("scratch"),
            withheld: Vec::new(),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let mut scene = Self { scratch, runtime, source };
        scene.git_in_repo(&["init", "--quiet", "--initial-branch=main"]);
        scene.git_in_repo(&["config", "user.name", "t"]);
        scene.git_in_repo(&["config", "user.email", "t@localhost"]);
        for (path, content) in files {
            write(&scene.source.repo, path, content);
        }
        scene.git_in_repo(&["add", "--all"]);
        scene.git_in_repo(&["commit", "--quiet", "--allow-empty", "--message=first"]);
        scene.source.base = scene.git_in_repo(&["rev-parse", "main"]);
        scene.make();
        scene
    }

    /// Makes the worktree, at the commit that the attempt begins from.
    fn make(&self) {
        let Source { attempt, own, branch, base, scratch, .. } = self.source.clone();
        let (path, trash) = (self.worktree(), self.scratch.path().join("trash"));
        let new = NewWorktree { attempt, own, path, branch, base, trash, scratch };
        self.runtime.block_on(add_worktree(&self.source.repo, &new)).unwrap();
    }

    pub fn worktree(&self) -> PathBuf {
        self.source.worktree()
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.runtime.block_on(git::run(&self.worktree(), args)).unwrap()
    }

    pub fn git_in_repo(&self, args: &[&str]) -> String {
        self.runtime.block_on(git::run(&self.source.repo, args)).unwrap()
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.worktree(), path.as_bytes(), content.as_ref());
    }

    /// Takes over what was committed.
    pub fn take_over(&self) {
        let common = self.source.repo.join(".git");
        self.runtime.block_on(transfer::take_over(&self.source, &common)).unwrap();
    }

    fn take(&self) -> Result<Snapshot, SnapshotError> {
        self.runtime.block_on(Snapshot::take(&self.source))
    }

    fn changes(&self) -> Vec<Change> {
        self.runtime.block_on(self.take().unwrap().changes()).unwrap()
    }

    /// Path, status, lines added and deleted.
    fn rows(&self) -> Vec<(String, Status, u64, u64)> {
        let changes = self.changes().into_iter();
        let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        changes.map(|c| (shown(&c.path), c.status, c.added, c.deleted)).collect()
    }

    /// The patch of some of the changes, and of what goes with them.
    fn patch(&self, all: &[Change], wanted: &[usize]) -> String {
        let mut snapshot = self.take().unwrap();
        let mut done = std::collections::BTreeSet::new();
        let mut patch = String::new();
        let groups = changes::Groups::of(all);
        for index in wanted {
            if done.contains(index) {
                continue;
            }
            let together = groups.with(*index);
            let paths: Vec<Vec<u8>> =
                together.iter().flat_map(|i| all[*i].paths()).map(<[u8]>::to_vec).collect();
            done.extend(together);
            let part = self.runtime.block_on(snapshot.patch(&paths, None, 1 << 22)).unwrap();
            let Some(text) = part else { panic!("too long") };
            patch.push_str(&text);
        }
        patch
    }

    /// Applies a patch to the merge base; returns the tree that comes of it.
    fn applied(&self, patch: &str) -> String {
        let file = self.scratch.path().join("patch");
        fs::write(&file, patch).unwrap();
        let file = file.to_str().unwrap();
        let copy = tempfile::tempdir_in(self.scratch.path()).unwrap();
        let copy = copy.path().join("copy");
        let base = self.git_in_repo(&["merge-base", "main", "provost/x"]);
        let path = copy.to_str().unwrap();
        self.git_in_repo(&["worktree", "add", "--quiet", "--detach", path, &base]);
        let git = |args: &[&str]| self.runtime.block_on(git::run(&copy, args));
        if !patch.is_empty() {
            git(&["apply", "--check", file]).unwrap_or_else(|e| panic!("{e}\n{patch}"));
            git(&["apply", "--index", file]).unwrap_or_else(|e| panic!("{e}\n{patch}"));
        }
        let tree = git(&["write-tree"]).unwrap();
        self.git_in_repo(&["worktree", "remove", "--force", path]);
        tree
    }

    /// The tree of all that is in the worktree.
    fn tree(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["write-tree"])
    }
}

fn write(dir: &Path, path: &[u8], content: &[u8]) {
    let path = dir.join(OsStr::from_bytes(path));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn lines(count: usize) -> String {
    (0..count).fold(String::new(), |text, n| text + &format!("line {n}\n"))
}

#[test]
fn committed_staged_unstaged_and_untracked_changes_are_all_listed() {
    let old = lines(20);
    let files: [(&[u8], &[u8]); 4] =
        [(b"a", b"1\n"), (b"b", b"1\n"), (b"c", b"1\n"), (b"old", old.as_bytes())];
    let scene = Scene::new(&files);
    scene.write("a", "1\n2\n");
    scene.git(&["commit", "--quiet", "--all", "--message=a"]);
    scene.write("b", "2\n");
    scene.git(&["add", "b"]);
    fs::remove_file(scene.worktree().join("c")).unwrap();
    scene.git(&["mv", "old", "new"]);
    scene.write(".gitignore", "ignored\n");
    scene.write("ignored", "no\n");
    scene.write("untracked/file", "new\nfile\n");
    scene.write("binary", b"\0\x01");
    scene.write("empty", "");
    let rows = scene.rows();
    let expected = [
        (".gitignore", Status::Added, 1, 0),
        ("a", Status::Modified, 1, 0),
        ("b", Status::Modified, 1, 1),
        ("binary", Status::Added, 0, 0),
        ("c", Status::Deleted, 0, 1),
        ("empty", Status::Added, 0, 0),
        ("new", Status::Renamed, 0, 0),
        ("untracked/file", Status::Added, 2, 0),
    ];
    assert_eq!(rows, expected.map(|(path, s, a, d)| (path.to_owned(), s, a, d)));
    // What the target branch has gained meanwhile is not the attempt's.
    write(&scene.source.repo, b"theirs", b"x");
    scene.git_in_repo(&["add", "--all"]);
    scene.git_in_repo(&["commit", "--quiet", "--message=theirs"]);
    assert_eq!(scene.rows(), rows);
}

#[test]
fn reading_leaves_no_trace_and_needs_no_lock() {
    let scene = Scene::new(&[(b"a", b"1\n")]);
    scene.write("a", "2\n");
    scene.write("new", "x\n");
    let admin = scene.source.own.admin();
    fs::write(admin.join("index.lock"), "").unwrap();
    let state = || {
        let objects =
            scene.runtime.block_on(git::run(&scene.source.repo, &["count-objects", "-v"]));
        (fs::read(admin.join("index")).unwrap(), objects.unwrap())
    };
    let before = state();
    let all = scene.changes();
    assert_eq!(all.len(), 2);
    assert!(scene.patch(&all, &[0, 1]).contains("+x"));
    assert_eq!(state(), before);
}

#[test]
fn nothing_that_the_agent_configures_is_run_or_hides_a_change() {
    let scene = Scene::new(&[(b"a", b"1\n"), (b"b", b"1\n"), (b"c", b"1\n")]);
    let trap = scene.scratch.path().join("trap");
    let sprung = scene.scratch.path().join("sprung");
    fs::write(&trap, format!("#!/bin/sh\ntouch {}\ncat\n", sprung.display())).unwrap();
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).unwrap();
    let trap = trap.to_str().unwrap();
    scene.git(&["update-index", "--assume-unchanged", "b"]);
    scene.git(&["update-index", "--skip-worktree", "c"]);
    scene.write(".gitattributes", "* filter=trap diff=trap\n");
    for file in ["a", "b", "c", "new"] {
        scene.write(file, "2\n");
    }
    for key in [
        "filter.trap.clean",
        "filter.trap.smudge",
        "filter.trap.process",
        "diff.trap.command",
        "diff.trap.textconv",
        "diff.external",
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
    ] {
        scene.git(&["config", key, trap]);
    }
    let included = scene.scratch.path().join("included");
    fs::write(&included, format!("[core]\nfsmonitor = {trap}\n")).unwrap();
    scene.git(&["config", "include.path", included.to_str().unwrap()]);
    fs::remove_file(&sprung).unwrap_or_default();
    let all = scene.changes();
    assert_eq!(all.len(), 5, "{all:?}");
    let patch = scene.patch(&all, &[0, 1, 2, 3, 4]);
    assert!(!sprung.exists());
    assert_eq!(patch.matches("\n+2\n").count(), 4);
}

#[test]
fn a_commit_that_is_missing_is_not_fetched_the_way_the_agent_configures() {
    let scene = Scene::new(&[(b"a", b"1\n")]);
    let sprung = scene.scratch.path().join("sprung");
    let trap = format!("touch {}; false", sprung.display());
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", "ssh://nowhere/x"),
        ("core.sshCommand", &trap),
    ] {
        scene.git(&["config", key, value]);
    }
    let head = scene.source.own.admin().join("HEAD");
    fs::write(head, format!("{}\n", "1".repeat(40))).unwrap();
    let _ = scene.take();
    assert!(!sprung.exists());
}

#[test]
fn repositories_in_the_worktree_are_shown_by_their_commit_and_run_nothing() {
    let scene = Scene::new(&[(b"a", b"1\n")]);
    let sprung = scene.scratch.path().join("sprung");
    let trap = format!("touch {}; cat", sprung.display());
    let nest = |name: &str| {
        let path = scene.worktree().join(name);
        let path = path.to_str().unwrap();
        scene.git(&["init", "--quiet", path]);
        let git = |args: &[&str]| scene.git(&[&["-C", path][..], args].concat());
        scene.write(&format!("{name}/.gitattributes"), "* filter=trap\n");
        scene.write(&format!("{name}/file"), "1\n");
        if name != "unborn" {
            git(&["add", "--all"]);
            git(&["-c", "user.name=t", "-c", "user.email=t@x", "commit", "--quiet", "-mx"]);
        }
        git(&["config", "core.fsmonitor", &trap]);
        git(&["config", "filter.trap.clean", &trap]);
        scene.write(&format!("{name}/file"), "2\n");
    };
    nest("tracked");
    let commit = scene.git(&["-C", "tracked", "rev-parse", "HEAD"]);
    let entry = format!("160000,{commit},tracked");
    scene.git(&["update-index", "--add", "--cacheinfo", &entry]);
    scene.git(&["commit", "--quiet", "--message=submodule"]);
    nest("untracked");
    nest("unborn");
    let all = scene.changes();
    let paths: Vec<&[u8]> = all.iter().map(|change| change.path.as_slice()).collect();
    assert_eq!(paths, [&b"tracked"[..], b"untracked"]);
    let patch = scene.patch(&all, &[0, 1]);
    assert!(patch.contains(&format!("+Subproject commit {commit}")), "{patch}");
    scene.applied(&patch);
    assert!(!sprung.exists());
}

#[test]
fn a_fault_is_reported_and_never_taken_for_no_changes() {
    let scene = Scene::new(&[(b"a", b"1\n")]);
    let begun = scene.git(&["rev-parse", "HEAD"]);
    let take = |begun: Option<String>| {
        let history = History { begun, ..History::default() };
        let source = Source { history, ..scene.source.clone() };
        scene.runtime.block_on(Snapshot::take(&source))
    };
    let fault = || scene.take().map(|_| ()).unwrap_err();
    scene.git_in_repo(&["checkout", "--quiet", "--orphan", "other"]);
    scene.git_in_repo(&["commit", "--quiet", "--allow-empty", "--message=other"]);
    scene.git_in_repo(&["branch", "--move", "main", "away"]);
    assert!(matches!(fault(), SnapshotError::NoMergeBase { .. }));
    assert!(take(Some(begun.clone())).is_ok(), "the target branch is gone");
    scene.git_in_repo(&["branch", "main", "other"]);
    assert!(matches!(fault(), SnapshotError::NoMergeBase { .. }));
    assert!(take(Some(begun)).is_ok());
    scene.git_in_repo(&["branch", "--force", "main", "away"]);
    assert!(scene.take().is_ok());
    // What a worktree claims to be of has no say.
    let link = scene.worktree().join(".git");
    let right = fs::read(&link).unwrap();
    fs::write(&link, "gitdir: /elsewhere/.git\n").unwrap();
    assert!(scene.take().is_ok());
    fs::write(&link, right).unwrap();
    let moved = scene.scratch.path().join("moved");
    fs::rename(scene.worktree(), &moved).unwrap();
    assert!(matches!(fault(), SnapshotError::Worktree { .. }));
    symlink(&moved, scene.worktree()).unwrap();
    assert!(matches!(fault(), SnapshotError::Worktree { .. }));
    fs::remove_file(scene.worktree()).unwrap();
    fs::rename(&moved, scene.worktree()).unwrap();
    fs::rename(&scene.source.repo, &moved).unwrap();
    assert!(matches!(fault(), SnapshotError::Repository { .. }));
}

#[test]
fn an_index_that_is_gone_or_unmerged_hides_nothing() {
    let scene = Scene::new(&[(b"a", b"1\n"), (b"b", b"1\n")]);
    scene.write("a", "2\n");
    scene.git(&["commit", "--quiet", "--all", "--message=ours"]);
    scene.git(&["checkout", "--quiet", "-b", "side", "main"]);
    scene.write("a", "3\n");
    scene.git(&["commit", "--quiet", "--all", "--message=theirs"]);
    let worktree = scene.worktree();
    let merge = git::run(&worktree, &["merge", "provost/x"]);
    assert!(scene.runtime.block_on(merge).is_err(), "a conflict");
    let paths = |scene: &Scene| scene.rows().into_iter().map(|(path, ..)| path).collect::<Vec<_>>();
    assert_eq!(paths(&scene), ["a"]);
    fs::remove_file(scene.source.own.admin().join("index")).unwrap();
    assert_eq!(paths(&scene), ["a"]);
}

#[test]
fn a_patch_that_is_too_long_is_reported_and_not_held() {
    let scene = Scene::new(&[]);
    scene.write("big", lines(10_000));
    let mut snapshot = scene.take().unwrap();
    let paths = [b"big".to_vec()];
    let part = scene.runtime.block_on(snapshot.patch(&paths, None, 1000)).unwrap();
    assert_eq!(part, None);
}

#[test]
fn patches_of_odd_things_apply_and_give_what_the_worktree_has() {
    let long = lines(30);
    let files: [(&[u8], &[u8]); 9] = [
        (b"file", b"x\n"),
        (b"dir/a", b"x\n"),
        (b"dir/b", b"y\n"),
        (b"moved", long.as_bytes()),
        (b"mode", b"x\n"),
        (b"to-link", b"x\n"),
        (b"latin", b"caf\xe9\n"),
        (b"bin", b"\0\x01\x02"),
        (b"no newline", b"x"),
    ];
    let scene = Scene::new(&files);
    let root = scene.worktree();
    fs::remove_file(root.join("file")).unwrap();
    scene.write("file/inside", "x\n");
    fs::remove_dir_all(root.join("dir")).unwrap();
    scene.write("dir", "now a file\n");
    fs::rename(root.join("moved"), root.join("moved here")).unwrap();
    fs::set_permissions(root.join("mode"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(root.join("to-link")).unwrap();
    symlink("nowhere", root.join("to-link")).unwrap();
    write(&root, b"latin", b"caf\xe9s\n");
    write(&root, b"latin-new", b"\xff\xfe\n");
    scene.write("bin", b"\0\x03");
    scene.write("no newline", "y");
    for name in [
        &b"tab\tname"[..],
        b"line\nfeed",
        b"quote\"",
        b"-rf",
        b":(top)x",
        b"n\xe9",
        "ä 日本".as_bytes(),
        b"*",
        b"a b ",
    ] {
        write(&root, name, b"odd\n");
    }
    scene.write("empty", "");
    let all = scene.changes();
    assert_eq!(all.len(), 21, "{all:?}");
    for index in 0..all.len() {
        scene.applied(&scene.patch(&all, &[index]));
    }
    let every: Vec<usize> = (0..all.len()).collect();
    assert_eq!(scene.applied(&scene.patch(&all, &every)), scene.tree());
}

#[test]
fn below_a_folder_a_patch_applies_with_repositories_side_by_side() {
    let old = lines(20);
    let scene = Scene::new(&[(b"old", old.as_bytes()), (b"a", b"1\n")]);
    fs::rename(scene.worktree().join("old"), scene.worktree().join("new")).unwrap();
    scene.write("a", b"\0\x01");
    let mut snapshot = scene.take().unwrap();
    let paths = ["old", "new", "a"].map(|path| path.as_bytes().to_vec());
    let part = scene.runtime.block_on(snapshot.patch(&paths, Some("app"), 1 << 20)).unwrap();
    let Some(patch) = part else { panic!("too long") };
    assert!(patch.contains("+++ b/app/new"));
    let beside = scene.scratch.path().join("beside");
    write(&beside, b"app/old", old.as_bytes());
    write(&beside, b"app/a", b"1\n");
    fs::write(beside.join("patch"), patch).unwrap();
    scene.runtime.block_on(git::run(&beside, &["apply", "patch"])).unwrap();
    assert_eq!(fs::read(beside.join("app/new")).unwrap(), old.as_bytes());
    assert!(!beside.join("app/old").exists());
    assert_eq!(fs::read(beside.join("app/a")).unwrap(), b"\0\x01");
}

/// Something that an agent does to a file.
#[derive(Clone, Debug)]
enum Edit {
    Write(usize, Vec<u8>),
    Remove(usize),
    Move(usize, usize),
    Link(usize),
    Mode(usize),
    Stage,
    Commit,
}

const NAMES: [&str; 8] = ["a", "a/b", "c", "c d", "e/f", "e/f/g", "h\ti", "-j"];

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let name = || 0..NAMES.len();
    let content = prop_oneof![
        (0..40usize).prop_map(|count| lines(count).into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..60),
    ];
    let edit = prop_oneof![
        4 => (name(), content).prop_map(|(at, content)| Edit::Write(at, content)),
        2 => name().prop_map(Edit::Remove),
        2 => (name(), name()).prop_map(|(from, to)| Edit::Move(from, to)),
        1 => name().prop_map(Edit::Link),
        1 => name().prop_map(Edit::Mode),
        1 => Just(Edit::Stage),
        1 => Just(Edit::Commit),
    ];
    proptest::collection::vec(edit, 1..12)
}

impl Edit {
    /// What stands in the way goes first.
    fn perform(&self, scene: &Scene) {
        let root = scene.worktree();
        let path = |at: usize| root.join(NAMES[at]);
        let clear = |at: usize| {
            let path = path(at);
            for above in path.ancestors().skip(1).take_while(|above| *above != root) {
                let _ = fs::remove_file(above);
            }
            let _ = fs::remove_dir_all(&path);
            let _ = fs::remove_file(&path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        match self {
            Self::Write(at, content) => fs::write(clear(*at), content).unwrap(),
            Self::Remove(at) => drop(clear(*at)),
            Self::Move(from, to) => {
                if let Ok(content) = fs::read(path(*from)) {
                    clear(*from);
                    fs::write(clear(*to), content).unwrap();
                }
            }
            Self::Link(at) => symlink("target", clear(*at)).unwrap(),
            Self::Mode(at) if path(*at).is_file() => {
                fs::set_permissions(path(*at), fs::Permissions::from_mode(0o755)).unwrap();
            }
            Self::Mode(_) => {}
            Self::Stage => drop(scene.git(&["add", "--all"])),
            Self::Commit => {
                scene.git(&["add", "--all"]);
                scene.git(&["commit", "--quiet", "--allow-empty", "--message=x"]);
            }
        }
    }
}

#[test]
fn any_part_of_any_work_applies_and_the_whole_gives_the_worktree() {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(16));
    let files: [(&[u8], &[u8]); 4] =
        [(b"a", b"1\n2\n3\n"), (b"c", b"x\n"), (b"e/f", b"\0"), (b"-j", b"caf\xe9\n")];
    let work = (edits(), proptest::collection::vec(any::<prop::sample::Index>(), 1..4));
    runner
        .run(&work, |(edits, some)| {
            let scene = Scene::new(&files);
            for edit in &edits {
                edit.perform(&scene);
            }
            let all = scene.changes();
            if !all.is_empty() {
                let some: Vec<usize> = some.iter().map(|index| index.index(all.len())).collect();
                scene.applied(&scene.patch(&all, &some));
            }
            let every: Vec<usize> = (0..all.len()).collect();
            prop_assert_eq!(scene.applied(&scene.patch(&all, &every)), scene.tree());
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_is_too_much_to_be_read_is_shown_by_its_size() {
    const HUGE: u64 = 1 << 40;
    let scene = Scene::new(&[(b"tracked", b"1\n"), (b"small", b"1\n")]);
    for name in ["tracked", "untracked"] {
        fs::File::create(scene.worktree().join(name)).unwrap().set_len(HUGE).unwrap();
    }
    fs::remove_file(scene.worktree().join("small")).unwrap();
    scene.write("new", "1\n");
    let row = |change: Change| (change.path, change.status, change.bytes, change.is_read);
    let rows: Vec<_> = scene.changes().into_iter().map(row).collect();
    let path = |path: &str| path.as_bytes().to_vec();
    let expected = [
        (path("new"), Status::Renamed, 2, true),
        (path("tracked"), Status::Modified, HUGE, false),
        (path("untracked"), Status::Added, HUGE, false),
    ];
    assert_eq!(rows, expected);
    let mut snapshot = scene.take().unwrap();
    let part = |paths: &[Vec<u8>], snapshot: &mut Snapshot| {
        scene.runtime.block_on(snapshot.patch(paths, None, 1 << 20)).unwrap()
    };
    assert_eq!(part(&[path("tracked")], &mut snapshot), None);
    let Some(small) = part(&[path("small"), path("new")], &mut snapshot) else { panic!() };
    assert!(small.contains("rename to new"), "{small}");
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_a_change_like_others() {
    let scene = Scene::new(&[(b"a", b"1\n"), (b"b", b"1\n")]);
    fs::remove_file(scene.worktree().join("a")).unwrap();
    nix::unistd::mkfifo(&scene.worktree().join("a"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    scene.write("b", "2\n");
    let all = scene.changes();
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(scene.patch(&all, &[0, 1]).contains("+2"));
}

#[test]
fn a_pipe_where_git_reads_is_named_and_not_waited_for() {
    let pipe = |path: &Path| {
        let _ = fs::remove_file(path);
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    };
    for place in [".gitignore", "d/.gitattributes"] {
        let scene = Scene::new(&[(b"a", b"1\n"), (b"d/a", b"1\n")]);
        scene.write("d/a", "2\n");
        scene.write("d/b", "2\n");
        pipe(&scene.worktree().join(place));
        let result = scene.take().and_then(|it| scene.runtime.block_on(it.changes()));
        let Err(SnapshotError::Git(GitError::Waits(path))) = result else { panic!("{result:?}") };
        assert!(path.ends_with(place), "{}", path.display());
    }
    for place in ["worktrees/tree/HEAD", "worktrees/tree/index", "objects/info/alternates"] {
        let scene = Scene::new(&[(b"a", b"1\n")]);
        pipe(&scene.source.own.common().join(place));
        let error = scene.take().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(place), "{error}");
    }
    // These are not read, or left out.
    let scene = Scene::new(&[(b"a", b"1\n")]);
    for place in ["info/exclude", "info/attributes", "config.worktree"] {
        fs::create_dir_all(scene.source.repo.join(".git").join(place).parent().unwrap()).unwrap();
        pipe(&scene.source.repo.join(".git").join(place));
    }
    assert_eq!(scene.changes(), []);
}

#[test]
fn no_patch_has_what_is_outside_however_folders_are_exchanged() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let scene = Scene::new(&[(b"d/f", b"ours\n")]);
    let path = scene.worktree();
    let outside = scene.scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f"), "secret\n").unwrap();
    fs::write(outside.join(".gitattributes"), "f -diff\n").unwrap();
    fs::write(path.join("d/f"), "changed\n").unwrap();
    symlink(&outside, path.join("link")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |from: &str, to: &str| fs::rename(path.join(from), path.join(to));
            while !is_over.load(Ordering::Relaxed) {
                swap("d", "real").unwrap();
                swap("link", "d").unwrap();
                swap("d", "link").unwrap();
                swap("real", "d").unwrap();
            }
        });
        let mut whole = 0;
        for _ in 0..60 {
            let Ok(mut snapshot) = scene.take() else { continue };
            let paths = [b"d/f".to_vec()];
            let patch = snapshot.patch(&paths, None, 1 << 20);
            let Ok(Some(patch)) = scene.runtime.block_on(patch) else { continue };
            assert!(!patch.contains("secret") && !patch.contains("GIT binary"), "{patch}");
            whole += usize::from(patch.contains("+changed"));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(whole > 0, "not one patch was made");
    });
}
