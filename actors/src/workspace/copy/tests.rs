//! Copies of ignored files, in real repositories.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

/// A repository and a worktree of it, empty but for what a test writes.
struct Scene {
    scratch: tempfile::TempDir,
}

impl Scene {
    async fn new(ignored: &str) -> Self {
        let scene = Self { scratch: tempfile::tempdir().unwrap() };
        let repo = scene.repo();
        fs::create_dir_all(&repo).unwrap();
        fs::create_dir_all(scene.worktree()).unwrap();
        git::run(&repo, &["init", "--quiet"]).await.unwrap();
        for checkout in [&repo, &scene.worktree()] {
            fs::write(checkout.join(".gitignore"), ignored).unwrap();
        }
        fs::write(repo.join("tracked.txt"), "tracked").unwrap();
        git::run(&repo, &["add", "--all"]).await.unwrap();
        scene
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().canonicalize().unwrap()
    }

    fn repo(&self) -> PathBuf {
        self.root().join("repo")
    }

    fn worktree(&self) -> PathBuf {
        self.root().join("worktrees/a-b/repo")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn copying(&self, patterns: &[&str]) -> Copying {
        Copying {
            repo: self.repo(),
            worktrees: self.root().join("worktrees"),
            below: "a-b/repo".into(),
            patterns: patterns.iter().map(|&line| line.to_owned()).collect(),
            max_bytes: 1 << 20,
            scratch: self.root().join("scratch"),
        }
    }

    async fn copy(&self, patterns: &[&str]) -> CopyReceipt {
        copy_ignored(self.copying(patterns)).await.unwrap()
    }

    fn copied(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.worktree().join(path)).ok()
    }
}

fn reason<'r>(receipt: &'r CopyReceipt, path: &str) -> &'r str {
    let found = receipt.left_out.iter().find(|it| it.path == path);
    found.map_or_else(|| panic!("{path} was not left out: {receipt:?}"), |it| &*it.reason)
}

#[tokio::test]
async fn ignored_files_are_copied_with_their_mode_and_time() {
    let scene = Scene::new("/node_modules/\n*.log\n.env\n").await;
    scene.write("node_modules/a/index.js", "1");
    scene.write("node_modules/.bin/run", "#!/bin/sh");
    scene.write("deep/x.log", "log");
    scene.write(".env", "A=1");
    let run = scene.repo().join("node_modules/.bin/run");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o4755)).unwrap();
    let receipt = scene.copy(&["node_modules", "/.env"]).await;
    assert_eq!((receipt.files, receipt.bytes, receipt.left_out_count), (3, 13, 0));
    assert_eq!(receipt.cloned + receipt.copied, 3);
    assert_eq!(receipt.credentials, [".env"]);
    assert_eq!(scene.copied("node_modules/a/index.js").as_deref(), Some("1"));
    assert_eq!(scene.copied("deep/x.log"), None, "no pattern matches it");
    let (from, to) = (
        run.metadata().unwrap(),
        scene.worktree().join("node_modules/.bin/run").metadata().unwrap(),
    );
    assert_eq!((to.mode() & 0o7777, to.modified().unwrap()), (0o755, from.modified().unwrap()));
    assert_eq!(to.nlink(), 1, "no hard link");
}

#[tokio::test]
async fn patterns_match_ignored_files_alone() {
    let scene = Scene::new("*.tmp\n").await;
    scene.write("new.txt", "git would add it");
    scene.write("a.tmp", "ignored");
    scene.write("keep.tmp", "ignored, and taken out of the patterns");
    let receipt = scene.copy(&["*", "!keep.tmp"]).await;
    assert_eq!((receipt.files, receipt.left_out_count), (1, 0), "{receipt:?}");
    assert!(scene.copied("a.tmp").is_some());
    for name in ["tracked.txt", "new.txt", "keep.tmp"] {
        assert_eq!(scene.copied(name), None, "{name}");
    }
    let receipt = scene.copy(&["tracked.txt", "new.txt"]).await;
    assert_eq!((receipt.files, receipt.left_out_count), (0, 0), "{receipt:?}");
}

#[tokio::test]
async fn what_git_would_add_in_the_worktree_is_left_out() {
    let scene = Scene::new(".env\n*.tmp\n").await;
    // Its commit has no line for it yet.
    fs::write(scene.worktree().join(".gitignore"), "*.tmp\n").unwrap();
    scene.write(".env", "A=1");
    scene.write("a.tmp", "x");
    let receipt = scene.copy(&["/.env", "*.tmp"]).await;
    assert_eq!((receipt.files, receipt.credentials.len()), (1, 0), "{receipt:?}");
    assert_eq!(scene.copied(".env"), None);
    assert_eq!(reason(&receipt, ".env"), "git does not ignore it in the worktree");
}

#[tokio::test]
async fn links_pipes_and_what_is_outside_are_never_followed() {
    let scene = Scene::new("/data/\n/linked\n").await;
    let outside = scene.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    scene.write("data/file", "ours");
    symlink(outside.join("secret"), scene.repo().join("data/link")).unwrap();
    symlink(&outside, scene.repo().join("data/folder")).unwrap();
    symlink(&outside, scene.repo().join("linked")).unwrap();
    mkfifo(&scene.repo().join("data/pipe"), Mode::S_IRWXU).unwrap();
    let receipt = scene.copy(&["data", "linked", "../outside", "/"]).await;
    assert_eq!(receipt.files, 1, "{receipt:?}");
    assert_eq!(scene.copied("data/file").as_deref(), Some("ours"));
    for name in ["data/link", "data/folder", "linked"] {
        assert_eq!(reason(&receipt, name), "it is a link that leads out of the worktree");
        assert!(scene.worktree().join(name).symlink_metadata().is_err(), "{name}");
    }
    assert!(scene.worktree().join("data/pipe").symlink_metadata().is_err());
}

#[tokio::test]
async fn links_that_stay_in_the_worktree_or_lead_to_the_system_are_made_again() {
    let scene = Scene::new("node_modules/\n").await;
    scene.write("node_modules/tool/cli.sh", "#!/bin/sh");
    fs::create_dir(scene.repo().join("node_modules/.bin")).unwrap();
    let links = [
        ("node_modules/.bin/tool", "../tool/cli.sh"),
        ("node_modules/package", "../tracked.txt"),
        ("node_modules/env", "/usr/bin/env"),
    ];
    for (link, target) in links {
        symlink(target, scene.repo().join(link)).unwrap();
    }
    symlink(scene.repo().join("tracked.txt"), scene.repo().join("node_modules/back")).unwrap();
    let receipt = scene.copy(&["node_modules/"]).await;
    assert_eq!((receipt.files, receipt.links, receipt.left_out_count), (1, 3, 1), "{receipt:?}");
    for (link, target) in links {
        assert_eq!(fs::read_link(scene.worktree().join(link)).unwrap(), Path::new(target));
    }
    assert!(reason(&receipt, "node_modules/back").contains("leads out of the worktree"));
}

#[tokio::test]
async fn what_the_worktree_has_stays_and_a_link_in_it_leads_nowhere() {
    let scene = Scene::new("/data/\n/other/\n/x.tmp\n").await;
    let outside = scene.root().join("outside");
    fs::create_dir(&outside).unwrap();
    scene.write("data/file", "theirs");
    scene.write("other/file", "theirs");
    scene.write("x.tmp", "theirs");
    symlink(&outside, scene.worktree().join("data")).unwrap();
    fs::write(scene.worktree().join("other"), "a file").unwrap();
    fs::write(scene.worktree().join("x.tmp"), "ours").unwrap();
    let receipt = scene.copy(&["*"]).await;
    assert_eq!((receipt.files, receipt.left_out_count), (0, 3), "{receipt:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(scene.copied("x.tmp").as_deref(), Some("ours"));
    assert_eq!(reason(&receipt, "x.tmp"), "the worktree has it already");
}

#[tokio::test]
async fn a_checkout_that_became_a_link_is_not_read() {
    let scene = Scene::new("*.tmp\n").await;
    scene.write("a.tmp", "x");
    let away = scene.root().join("away");
    fs::rename(scene.repo(), &away).unwrap();
    symlink(&away, scene.repo()).unwrap();
    let error = copy_ignored(scene.copying(&["*"])).await.unwrap_err();
    assert!(matches!(error, CopyError::Checkout { .. }), "{error}");
    assert_eq!(scene.copied("a.tmp"), None);
}

#[tokio::test]
async fn a_configuration_leads_to_no_other_checkout() {
    let scene = Scene::new("*.tmp\n").await;
    let outside = scene.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.tmp"), "secret").unwrap();
    scene.write("a.tmp", "x");
    let path = outside.to_str().unwrap();
    git::run(&scene.repo(), &["config", "core.worktree", path]).await.unwrap();
    let _ = copy_ignored(scene.copying(&["*"])).await;
    assert_eq!(scene.copied("secret.tmp"), None);
}

#[tokio::test]
async fn credentials_need_a_line_of_their_own() {
    let scene = Scene::new("/config/\n.env*\n*.pem\n").await;
    scene.write(".env", "A=1");
    scene.write(".env.local", "A=1");
    scene.write("config/.env", "A=1");
    scene.write("config/plain.txt", "x");
    scene.write("key.pem", "-----BEGIN PRIVATE KEY-----");
    scene.write("ca.pem", "-----BEGIN CERTIFICATE-----");
    let receipt = scene.copy(&["*", "/.env.local"]).await;
    assert_eq!(receipt.credentials, [".env.local"]);
    assert_eq!((receipt.files, receipt.left_out_count), (3, 3), "{receipt:?}");
    assert!(scene.copied("ca.pem").is_some(), "a certificate is no secret");
    for name in [".env", "config/.env", "key.pem"] {
        let expected = format!("it looks like credentials: add the line `/{name}` to copy it");
        assert_eq!(reason(&receipt, name), expected);
    }
    let below = (scene.root().join("worktrees"), PathBuf::from("a-b/repo"));
    let paths = [".env.local".to_owned()];
    let expected = [(".env.local".to_owned(), "A=1".to_owned())];
    assert_eq!(credentials_of_checkout(&scene.repo(), &paths), expected);
    assert_eq!(credentials_of_worktree((&below.0, &below.1), &paths), expected);
}

#[tokio::test]
async fn copies_end_at_the_limit() {
    let scene = Scene::new("*.tmp\n").await;
    scene.write("a.tmp", "12345");
    scene.write("b.tmp", "12345");
    let copying = Copying { max_bytes: 8, ..scene.copying(&["*"]) };
    let receipt = copy_ignored(copying).await.unwrap();
    // Clones take no room.
    let expected = if receipt.cloned > 0 { (2, 0) } else { (1, 1) };
    assert_eq!((receipt.files, receipt.left_out_count), expected);
    if receipt.cloned == 0 {
        assert!(reason(&receipt, "b.tmp").contains("8 bytes in all"));
        assert!(!scene.worktree().join("b.tmp").exists());
    }
}

#[tokio::test]
async fn a_bare_repository_has_nothing_to_copy() {
    let scene = Scene::new("").await;
    let bare = scene.root().join("bare");
    fs::create_dir(&bare).unwrap();
    git::run(&bare, &["init", "--quiet", "--bare"]).await.unwrap();
    let receipt = copy_ignored(Copying { repo: bare, ..scene.copying(&["*"]) }).await.unwrap();
    assert_eq!(receipt.left_out[0].reason, "the repository has no checkout");
}
