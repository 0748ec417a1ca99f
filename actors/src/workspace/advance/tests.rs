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

    async fn advance(&self) -> Advanced {
        let to = Advance {
            repo: self.repo.clone(),
            scratch: self.dir.path().join("scratch"),
            branch: "main".to_owned(),
            old: self.old.clone(),
            new: self.new.clone(),
            mark: "provost 1".to_owned(),
            reason: "provost merge".to_owned(),
        };
        advance(&to).await.unwrap()
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
        for name in ["index.lock", "provost.index"] {
            assert!(!self.repo.join(".git").join(name).exists(), "{name}");
        }
    }
}

fn why(advanced: Advanced) -> String {
    match advanced {
        Advanced::InTheWay { why, .. } => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_clean_checkout_follows_and_unrelated_changes_stay() {
    let scene = Scene::new().await;
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
    fs::write(admin.join("index.lock"), "provost 1").unwrap();
    regular_copy(&admin, "index", "provost.index");
    // Written, half written, removed; the rest as before.
    scene.write("a", "something new\n");
    scene.write("c", "add");
    fs::remove_file(scene.repo.join("b")).unwrap();
    fs::remove_file(scene.repo.join("link")).unwrap();
    if is_moved {
        scene.git(&["update-ref", "refs/heads/main", &scene.new]).await;
    }
}

fn regular_copy(admin: &Path, from: &str, to: &str) {
    fs::copy(admin.join(from), admin.join(to)).unwrap();
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
