use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

struct Scene {
    dir: TempDir,
    repo: PathBuf,
    old: String,
    new: String,
}

impl Scene {
    /// A checkout of `main` at a commit `old`, and a commit `new` that changes `a`, deletes `b`,
    /// adds `c` and `d/e`, and makes `link` a link.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        for folder in ["repo", "scratch"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let mut scene = Self { dir, repo, old: String::new(), new: String::new() };
        scene.git(&["init", "--quiet", "--initial-branch=main"]).await;
        scene.git(&["config", "user.name", "Ann"]).await;
        scene.git(&["config", "user.email", "ann@localhost"]).await;
        for (name, text) in [("a", "old\n"), ("b", "b\n"), ("same", "same\n"), ("link", "file")] {
            scene.write(name, text);
        }
        scene.old = scene.commit("old").await;
        scene.git(&["checkout", "--quiet", "-b", "work"]).await;
        scene.write("a", "something new\n");
        fs::remove_file(scene.repo.join("b")).unwrap();
        scene.write("c", "added\n");
        fs::create_dir(scene.repo.join("d")).unwrap();
        scene.write("d/e", "added below\n");
        fs::remove_file(scene.repo.join("link")).unwrap();
        std::os::unix::fs::symlink("a", scene.repo.join("link")).unwrap();
        scene.new = scene.commit("new").await;
        scene.git(&["checkout", "--quiet", "main"]).await;
        scene
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.repo.join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.repo.join(name)).ok()
    }

    async fn git(&self, args: &[&str]) -> String {
        git::run(&self.repo, args).await.unwrap()
    }

    async fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]).await;
        self.git(&["commit", "--quiet", "--message", message]).await;
        self.git(&["rev-parse", "HEAD"]).await
    }

    async fn status(&self) -> String {
        self.git(&["status", "--porcelain"]).await
    }

    fn to(&self) -> Advance {
        Advance {
            repo: self.repo.clone(),
            scratch: self.dir.path().join("scratch"),
            branch: "main".to_owned(),
            old: self.old.clone(),
            new: self.new.clone(),
            mark: "provost 1".to_owned(),
            reason: "provost merge".to_owned(),
            of_attempt: None,
        }
    }

    async fn advance(&self) -> Advanced {
        advance(&self.to()).await.unwrap()
    }

    /// Another checkout of `main`.
    async fn second(&self) -> PathBuf {
        let path = self.dir.path().join("second");
        let name = path.to_str().unwrap();
        self.git(&["worktree", "add", "--quiet", "--force", name, "main"]).await;
        path
    }

    /// A daemon is killed once it has taken these steps.
    async fn killed(&self, at: Kill) {
        let to = self.to();
        let common = git::common_dir(&to.repo).await.unwrap();
        let checkouts = checkouts::all(&to.repo, &to.branch).await.unwrap();
        if at == Kill::Locked {
            for checkout in &checkouts {
                let locked = LockedCheckout::lock(checkout, &common, &to.scratch, &to.mark).await;
                drop(locked.unwrap());
            }
            return;
        }
        let mut following = follow(&to, &common, &checkouts).await.unwrap();
        if at >= Kill::Moved {
            swap(&to).await.unwrap();
        }
        if at >= Kill::Kept {
            following.remove(0).keep().await.unwrap();
        }
    }

    /// Nothing of a move is left but the branch at `new`, in a clean checkout.
    async fn has_moved(&self) {
        assert_eq!(self.git(&["rev-parse", "main"]).await, self.new);
        assert_eq!(self.status().await, "");
        assert_eq!(self.read("a").as_deref(), Some("something new\n"));
        assert_eq!(self.read("d/e").as_deref(), Some("added below\n"));
        self.is_unlocked();
    }

    /// Nothing has changed at all.
    async fn is_as_before(&self, status: &str) {
        assert_eq!(self.git(&["rev-parse", "main"]).await, self.old);
        assert_eq!(self.status().await, status);
        assert!(self.read("d/e").is_none());
        self.is_unlocked();
    }

    fn is_unlocked(&self) {
        for admin in [".git", ".git/worktrees/second"] {
            for entry in fs::read_dir(self.repo.join(admin)).into_iter().flatten() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                assert!(name != "index.lock" && !name.starts_with("provost."), "{name}");
            }
        }
    }

    async fn tip(&self) -> String {
        self.git(&["rev-parse", "main"]).await
    }
}

#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Kill {
    Locked,
    Switched,
    Moved,
    /// One of the checkouts has its index.
    Kept,
}

const KILLS: [Kill; 4] = [Kill::Locked, Kill::Switched, Kill::Moved, Kill::Kept];

fn why(advanced: Advanced) -> String {
    match advanced {
        Advanced::InTheWay { why, .. } => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_clean_checkout_follows_and_unrelated_changes_stay() {
    let scene = Scene::new().await;
    scene.git(&["update-index", "--split-index"]).await;
    scene.write("same", "mine\n");
    scene.write("untracked", "mine\n");
    assert!(matches!(scene.advance().await, Advanced::Moved));
    assert_eq!(scene.status().await, " M same\n?? untracked");
    assert_eq!(scene.git(&["rev-parse", "HEAD"]).await, scene.new);
    assert!(scene.git(&["reflog", "-1", "main"]).await.contains("provost merge"));
    fs::remove_file(scene.repo.join("untracked")).unwrap();
    scene.git(&["checkout", "--quiet", "same"]).await;
    scene.has_moved().await;
    assert!(matches!(scene.advance().await, Advanced::Moved), "again");
    scene.has_moved().await;
}

#[tokio::test]
async fn what_is_in_the_way_is_named_and_nothing_changes() {
    for (name, text, status) in [
        ("a", "mine\n", " M a"),
        ("b", "mine\n", " M b"),
        ("c", "mine\n", "?? c"),
        ("d", "a file\n", "?? d"),
    ] {
        let scene = Scene::new().await;
        scene.write(name, text);
        let why = why(scene.advance().await);
        assert!(why.contains(name), "{why}");
        scene.is_as_before(status).await;
        assert_eq!(scene.read(name).as_deref(), Some(text));
    }
    let scene = Scene::new().await;
    scene.write("a", "staged\n");
    scene.git(&["add", "a"]).await;
    assert!(why(scene.advance().await).contains('a'));
    scene.is_as_before("M  a").await;
}

#[tokio::test]
async fn a_git_at_work_and_a_branch_that_has_moved_are_left_alone() {
    let scene = Scene::new().await;
    let lock = scene.repo.join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    assert!(why(scene.advance().await).contains("index.lock"));
    assert!(lock.exists(), "it is not ours");
    fs::remove_file(lock).unwrap();
    scene.is_as_before("").await;

    let mut scene = Scene::new().await;
    scene.write("same", "another\n");
    let elsewhere = scene.commit("elsewhere").await;
    let advanced = scene.advance().await;
    assert!(
        matches!(&advanced, Advanced::Elsewhere(Some(tip)) if *tip == elsewhere),
        "{advanced:?}"
    );
    scene.old = elsewhere;
    scene.is_as_before("").await;
}

#[tokio::test]
async fn a_branch_that_is_not_checked_out_moves_alone() {
    let scene = Scene::new().await;
    scene.git(&["checkout", "--quiet", "--detach"]).await;
    assert!(matches!(scene.advance().await, Advanced::Moved));
    assert_eq!(scene.git(&["rev-parse", "main"]).await, scene.new);
    assert_eq!(scene.git(&["rev-parse", "HEAD"]).await, scene.old);
    assert_eq!(scene.status().await, "");
}

/// The state that a daemon leaves that is killed while git writes the files.
async fn cut_off(scene: &Scene, is_moved: bool) {
    let admin = scene.repo.join(".git");
    fs::write(admin.join("index.lock"), "provost 1\nbegun").unwrap();
    // Written, half written, removed; the rest as before.
    scene.write("a", "something new\n");
    scene.write("c", "add");
    fs::remove_file(scene.repo.join("b")).unwrap();
    fs::remove_file(scene.repo.join("link")).unwrap();
    if is_moved {
        scene.git(&["update-ref", "refs/heads/main", &scene.new]).await;
    }
}

#[tokio::test]
async fn a_move_that_was_cut_off_is_completed() {
    for is_moved in [false, true] {
        let scene = Scene::new().await;
        cut_off(&scene, is_moved).await;
        let advanced = scene.advance().await;
        assert!(matches!(advanced, Advanced::Moved), "{advanced:?}");
        scene.has_moved().await;
    }
}

#[tokio::test]
async fn nothing_that_the_repository_configures_runs() {
    let scene = Scene::new().await;
    let ran = scene.dir.path().join("ran");
    let trap = format!("touch {}; cat", ran.display());
    for key in ["filter.ev.smudge", "filter.ev.clean", "core.fsmonitor", "core.sshCommand"] {
        scene.git(&["config", key, &trap]).await;
    }
    fs::create_dir_all(scene.repo.join(".git/info")).unwrap();
    fs::write(scene.repo.join(".git/info/attributes"), "* filter=ev\n").unwrap();
    fs::create_dir_all(scene.repo.join(".git/hooks")).unwrap();
    for hook in ["reference-transaction", "post-checkout", "post-index-change", "post-merge"] {
        let path = scene.repo.join(".git/hooks").join(hook);
        fs::write(&path, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, mode).unwrap();
    }
    assert!(matches!(scene.advance().await, Advanced::Moved));
    assert!(!ran.exists());
    assert_eq!(scene.read("a").as_deref(), Some("something new\n"));
}

async fn status_of(checkout: &Path) -> String {
    git::run(checkout, &["status", "--porcelain"]).await.unwrap()
}

#[tokio::test]
async fn an_ignored_file_of_a_person_is_in_the_way_and_stays() {
    // Where a file is to come, on the way to one, and in a folder that is to become a file.
    for (name, blocks) in [("c", "c"), ("d/e", "d/e"), ("d", "d"), ("c/secret", "c")] {
        let scene = Scene::new().await;
        fs::create_dir_all(scene.repo.join(name).parent().unwrap()).unwrap();
        scene.write(name, "");
        fs::write(scene.repo.join(".git/info/exclude"), format!("/{name}\n")).unwrap();
        assert_eq!(scene.status().await, "", "it is ignored");
        for _ in 0..2 {
            let why = why(scene.advance().await);
            assert!(why.contains(blocks), "{why}");
            assert_eq!(scene.read(name).as_deref(), Some(""), "{name}");
            scene.is_unlocked();
            // Neither after a kill: nothing had begun.
            scene.killed(Kill::Locked).await;
        }
        scene.advance().await;
        assert_eq!((scene.tip().await, scene.status().await), (scene.old.clone(), String::new()));
    }
    // A folder with a file that git does not have is to become a file, and the other way round.
    let mut scene = Scene::new().await;
    assert!(matches!(scene.advance().await, Advanced::Moved));
    std::mem::swap(&mut scene.old, &mut scene.new);
    scene.write("d/mine", "mine\n");
    fs::write(scene.repo.join(".git/info/exclude"), "mine\n").unwrap();
    assert!(matches!(scene.advance().await, Advanced::Moved));
    assert_eq!(scene.read("d/mine").as_deref(), Some("mine\n"));
}

#[tokio::test]
async fn a_folder_becomes_a_file_and_a_file_a_folder_unless_that_loses_something() {
    let mut scene = Scene::new().await;
    fs::create_dir(scene.repo.join("same2")).unwrap();
    scene.write("same2/x", "x\n");
    scene.old = scene.commit("a folder").await;
    scene.git(&["checkout", "--quiet", "-b", "turned"]).await;
    fs::remove_dir_all(scene.repo.join("same2")).unwrap();
    scene.write("same2", "a file\n");
    fs::remove_file(scene.repo.join("a")).unwrap();
    fs::create_dir(scene.repo.join("a")).unwrap();
    scene.write("a/b", "below\n");
    scene.new = scene.commit("turned").await;
    scene.git(&["checkout", "--quiet", "main"]).await;
    fs::write(scene.repo.join(".git/info/exclude"), "mine\n").unwrap();
    scene.write("same2/mine", "mine\n");
    assert!(why(scene.advance().await).contains("same2"));
    assert_eq!(scene.read("same2/mine").as_deref(), Some("mine\n"));
    fs::remove_file(scene.repo.join("same2/mine")).unwrap();
    for _ in 0..2 {
        scene.killed(Kill::Switched).await;
        let advanced = scene.advance().await;
        assert!(matches!(advanced, Advanced::Moved), "{advanced:?}");
        assert_eq!((scene.tip().await, scene.status().await), (scene.new.clone(), String::new()));
        // And back.
        std::mem::swap(&mut scene.old, &mut scene.new);
    }
}

#[tokio::test]
async fn changes_that_git_overlooks_are_in_the_way_too() {
    let scene = Scene::new().await;
    fs::remove_file(scene.repo.join("a")).unwrap();
    assert!(why(scene.advance().await).contains('a'), "a deletion is a change");
    scene.is_as_before(" D a").await;
    let scene = Scene::new().await;
    scene.git(&["update-index", "--assume-unchanged", "a", "same"]).await;
    scene.write("a", "mine\n");
    scene.write("same", "mine\n");
    assert!(why(scene.advance().await).contains('a'));
    scene.write("a", "old\n");
    assert!(matches!(scene.advance().await, Advanced::Moved));
    assert_eq!(scene.status().await, "", "it is still overlooked");
    assert_eq!(scene.read("same").as_deref(), Some("mine\n"));
}

#[tokio::test]
async fn a_switch_that_fails_in_the_middle_is_put_back_and_stays_locked_until_it_is() {
    let scene = Scene::new().await;
    let object = async |name: &str| {
        let id = scene.git(&["rev-parse", name]).await;
        scene.repo.join(".git/objects").join(&id[..2]).join(&id[2..])
    };
    // `a` is written and `b` removed before git finds that it can't write this.
    let added = object(&format!("{}:d/e", scene.new)).await;
    let removed = object("main:b").await;
    let (lost, kept) = (scene.dir.path().join("lost"), scene.dir.path().join("kept"));
    fs::rename(&added, &lost).unwrap();
    assert!(matches!(scene.advance().await, Advanced::InTheWay { .. }));
    scene.is_as_before("").await;
    // Nor can it be put back.
    fs::rename(&removed, &kept).unwrap();
    let error = advance(&scene.to()).await.unwrap_err().to_string();
    assert!(error.contains("can't be completed or put back"), "{error}");
    assert!(scene.repo.join(".git/index.lock").exists());
    fs::rename(&kept, &removed).unwrap();
    assert!(matches!(scene.advance().await, Advanced::InTheWay { .. }));
    scene.is_as_before("").await;
    fs::rename(&lost, &added).unwrap();
    assert!(matches!(scene.advance().await, Advanced::Moved));
    scene.has_moved().await;
}

/// What a person does while no daemon runs, to the files that the move concerns.
const EDITS: [(&str, &str); 4] = [("a", " M a"), ("b", "?? b"), ("c", " M c"), ("d/e", " M d/e")];

#[tokio::test]
async fn a_kill_and_an_edit_after_it_leave_two_checkouts_as_the_branch_is() {
    for kill in KILLS {
        for (name, status) in EDITS {
            let scene = Scene::new().await;
            let second = scene.second().await;
            scene.killed(kill).await;
            fs::create_dir_all(scene.repo.join(name).parent().unwrap()).unwrap();
            scene.write(name, "mine\n");
            let advanced = scene.advance().await;
            let has_moved = matches!(advanced, Advanced::Moved);
            assert_eq!(has_moved, kill >= Kill::Moved, "{kill:?} {name}: {advanced:?}");
            assert_eq!(scene.tip().await, if has_moved { &*scene.new } else { &*scene.old });
            let expected = match name {
                _ if has_moved => status,
                "a" | "b" => &format!(" M {name}"),
                "d/e" => "?? d/",
                _ => &format!("?? {name}"),
            };
            assert_eq!(scene.status().await, expected, "{kill:?} {name}");
            assert_eq!(scene.read(name).as_deref(), Some("mine\n"));
            assert_eq!(status_of(&second).await, "", "{kill:?} {name}");
            scene.is_unlocked();
        }
    }
}

#[tokio::test]
async fn a_kill_and_a_branch_that_goes_on_after_it_leave_two_checkouts_unlocked() {
    for kill in KILLS {
        let scene = Scene::new().await;
        let second = scene.second().await;
        scene.killed(kill).await;
        let (has_moved, under) =
            if kill >= Kill::Moved { (true, &scene.new) } else { (false, &scene.old) };
        // As by a push into the repository, on top of where the branch is.
        let tree = format!("{under}^{{tree}}");
        let later = scene.git(&["commit-tree", &tree, "-p", under, "-m", "later"]).await;
        scene.git(&["update-ref", "refs/heads/main", &later]).await;
        let advanced = scene.advance().await;
        match advanced {
            Advanced::Moved => assert!(has_moved, "{kill:?}"),
            Advanced::Elsewhere(tip) => assert!(!has_moved && tip == Some(later), "{kill:?}"),
            other => panic!("{kill:?}: {other:?}"),
        }
        assert_eq!(scene.status().await + &status_of(&second).await, "", "{kill:?}");
        scene.is_unlocked();
    }
}

#[tokio::test]
async fn a_kill_and_another_head_after_it_leave_the_other_head_alone() {
    for kill in KILLS {
        let scene = Scene::new().await;
        scene.second().await;
        scene.git(&["branch", "other", &scene.old]).await;
        scene.killed(kill).await;
        scene.git(&["symbolic-ref", "HEAD", "refs/heads/other"]).await;
        assert!(matches!(scene.advance().await, Advanced::Moved), "{kill:?}");
        let expected = if kill < Kill::Kept { "" } else { "installed before" };
        assert_eq!(scene.status().await.is_empty(), expected.is_empty(), "{kill:?}");
        scene.is_unlocked();
    }
}

#[tokio::test]
async fn a_rebase_that_ends_on_the_branch_is_in_the_way_and_a_vanished_checkout_is_not() {
    let scene = Scene::new().await;
    let second = scene.second().await;
    scene.git(&["checkout", "--quiet", "--detach"]).await;
    for (sign, text) in [
        ("rebase-merge/head-name", "refs/heads/main\n"),
        ("rebase-merge/update-refs", "refs/heads/main\n0\n1\n"),
        ("rebase-apply/head-name", "refs/heads/main\n"),
        ("BISECT_START", "main\n"),
    ] {
        let path = scene.repo.join(".git").join(sign);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let why = why(scene.advance().await);
        assert!(why.contains(sign), "{why}");
        assert_eq!(scene.tip().await, scene.old);
        assert_eq!(checkouts::of_branch(&scene.repo, "main").await.unwrap().len(), 2);
        fs::remove_file(&path).unwrap();
        // An empty folder would be under way, too.
        let _ = fs::remove_dir(path.parent().unwrap());
    }
    scene.git(&["checkout", "--quiet", "--ignore-other-worktrees", "main"]).await;
    fs::write(scene.repo.join(".git/MERGE_HEAD"), &scene.new).unwrap();
    assert!(why(scene.advance().await).contains("MERGE_HEAD"));
    fs::remove_file(scene.repo.join(".git/MERGE_HEAD")).unwrap();
    fs::remove_dir_all(second).unwrap();
    assert!(matches!(scene.advance().await, Advanced::Moved));
    scene.has_moved().await;
}

#[tokio::test]
async fn a_checkout_that_is_not_the_registered_one_is_left_alone() {
    let scene = Scene::new().await;
    scene.git(&["checkout", "--quiet", "--detach"]).await;
    let second = scene.second().await;
    let link = fs::read_to_string(second.join(".git")).unwrap();
    fs::write(second.join(".git"), format!("gitdir: {}/.git\n", scene.repo.display())).unwrap();
    let index = fs::read(scene.repo.join(".git/index")).unwrap();
    assert!(why(scene.advance().await).contains(".git"));
    assert_eq!(fs::read(scene.repo.join(".git/index")).unwrap(), index);
    // Nor is it once a daemon that had begun was killed.
    fs::write(second.join(".git"), &link).unwrap();
    scene.killed(Kill::Switched).await;
    fs::remove_file(second.join(".git")).unwrap();
    std::os::unix::fs::symlink(scene.repo.join(".git"), second.join(".git")).unwrap();
    assert!(matches!(scene.advance().await, Advanced::InTheWay { .. }));
    assert_eq!(fs::read(scene.repo.join(".git/index")).unwrap(), index);
    scene.is_unlocked();
}

#[tokio::test]
async fn no_link_leads_the_index_elsewhere() {
    let scene = Scene::new().await;
    let victim = scene.dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let planted = scene.repo.join(".git/provost.index.provost-1");
    std::os::unix::fs::symlink(&victim, planted).unwrap();
    assert!(matches!(scene.advance().await, Advanced::Moved));
    scene.has_moved().await;
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(scene.repo.join(".git/index")).unwrap().is_file());
}

#[tokio::test]
async fn the_checkout_of_a_submodule_follows_where_it_is() {
    let mut scene = Scene::new().await;
    let outer = scene.dir.path().join("outer");
    let git = async |args: &[&str]| git::run(&scene.dir.path().join("outer"), args).await.unwrap();
    fs::create_dir(&outer).unwrap();
    git(&["init", "--quiet"]).await;
    let from = scene.repo.to_str().unwrap();
    git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "sub"]).await;
    git(&["-C", "sub", "fetch", "--quiet", "origin", "work"]).await;
    scene.repo = outer.join("sub");
    assert!(matches!(scene.advance().await, Advanced::Moved));
    scene.has_moved().await;
}

#[tokio::test]
async fn a_sparse_checkout_gets_only_what_it_has() {
    let scene = Scene::new().await;
    scene.git(&["sparse-checkout", "set", "--no-cone", "/same", "/d"]).await;
    assert!(scene.read("a").is_none());
    for kill in [Kill::Switched, Kill::Moved] {
        scene.killed(kill).await;
        assert!(matches!(scene.advance().await, Advanced::Moved));
        assert_eq!((scene.tip().await, scene.status().await), (scene.new.clone(), String::new()));
        assert!(
            scene.read("a").is_none() && scene.read("c").is_none() && scene.read("d/e").is_some()
        );
        scene.is_unlocked();
        scene.git(&["reset", "--quiet", "--hard", &scene.old]).await;
    }
}
