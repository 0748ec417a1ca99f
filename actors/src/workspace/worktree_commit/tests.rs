use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::workspace::check_out;
use crate::workspace::snapshot::tests::Scene;

fn freeze_in(scene: &Scene) -> Result<CapturedTree, SnapshotError> {
    scene.runtime.block_on(freeze(&scene.source, &objects(scene)))
}

fn objects(scene: &Scene) -> PathBuf {
    scene.scratch.path().join("kept")
}

fn laid_out(scene: &Scene, commit: &str) -> PathBuf {
    let path = scene.scratch.path().join("run/tree/app");
    let made = check_out(&scene.source.repo, commit, objects(scene), path.clone());
    scene.runtime.block_on(made).unwrap();
    path
}

/// All that git has in the repository, and the worktree's own files of it.
fn traces(scene: &Scene) -> Vec<(PathBuf, Vec<u8>)> {
    let mut open = vec![scene.source.repo.join(".git"), scene.worktree()];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_symlink() || path.is_file() {
            found.push((path.clone(), fs::read(&path).unwrap_or_default()));
        } else {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_frozen_is_what_lies_there_and_nothing_is_changed_by_it() {
    let scene = Scene::new(&[
        (b"same", b"same\n"),
        (b"edited", b"before\n"),
        (b"gone", b"x\n"),
        (b"folder/deep", b"x\n"),
        (b"staged", b"before\n"),
        (b".gitignore", b"ignored\n"),
    ]);
    scene.write("edited", "after\n");
    scene.write("new", "new\n");
    scene.write("ignored", "not looked at\n");
    scene.write("staged", "staged\n");
    scene.git(&["add", "staged"]);
    scene.write("staged", "as it lies there\n");
    let tree = scene.worktree();
    fs::remove_file(tree.join("gone")).unwrap();
    fs::remove_dir_all(tree.join("folder")).unwrap();
    scene.write("folder", "a file now\n");
    symlink("edited", tree.join("link")).unwrap();
    scene.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(tree.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = traces(&scene);
    let frozen = freeze_in(&scene).unwrap();
    assert_eq!(traces(&scene), before);
    assert!(frozen.includes_uncommitted && !frozen.is_unchanged);
    assert_ne!(frozen.commit, scene.git(&["rev-parse", "HEAD"]));

    let work = laid_out(&scene, &frozen.commit);
    let read = |name: &str| fs::read_to_string(work.join(name)).ok();
    let expected = [
        ("same", Some("same\n")),
        ("edited", Some("after\n")),
        ("new", Some("new\n")),
        ("staged", Some("as it lies there\n")),
        ("gone", None),
        ("folder", Some("a file now\n")),
        ("ignored", None),
        ("link", Some("after\n")),
    ];
    for (name, content) in expected {
        assert_eq!(read(name).as_deref(), content, "{name}");
    }
    assert_eq!(fs::metadata(work.join("run.sh")).unwrap().permissions().mode() & 0o111, 0o111);
    let git = |args: &[&str]| scene.runtime.block_on(git::run(&work, args)).unwrap();
    assert_eq!(git(&["rev-parse", "HEAD"]), frozen.commit);
    assert_eq!(git(&["status", "--porcelain"]), "");
    assert_eq!(git(&["rev-parse", "HEAD^"]), scene.git(&["rev-parse", "HEAD"]));
    assert_eq!(traces(&scene), before);
}

#[test]
fn a_clean_worktree_is_its_head_and_an_empty_one_is_reported() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    let head = || scene.git(&["rev-parse", "HEAD"]);
    let frozen =
        |is_unchanged| CapturedTree { commit: head(), includes_uncommitted: false, is_unchanged };
    assert_eq!(freeze_in(&scene).unwrap(), frozen(true));
    scene.write("a", "b\n");
    scene.git(&["commit", "--quiet", "--all", "--message=second"]);
    assert_eq!(freeze_in(&scene).unwrap(), frozen(false));
    let work = laid_out(&scene, &head());
    assert_eq!(fs::read_to_string(work.join("a")).unwrap(), "b\n");
    // Taken back, but not committed: it comes to nothing.
    scene.write("a", "a\n");
    let back = freeze_in(&scene).unwrap();
    assert!(back.includes_uncommitted && back.is_unchanged);
}

#[test]
fn a_conflict_is_frozen_as_it_lies_there() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    scene.write("a", "ours\n");
    scene.git(&["commit", "--quiet", "--all", "--message=ours"]);
    scene.git(&["checkout", "--quiet", "-b", "other", "HEAD^"]);
    scene.write("a", "theirs\n");
    scene.git(&["commit", "--quiet", "--all", "--message=theirs"]);
    scene.runtime.block_on(git::run(&scene.worktree(), &["merge", "provost/x"])).unwrap_err();
    let frozen = freeze_in(&scene).unwrap();
    let work = laid_out(&scene, &frozen.commit);
    assert!(fs::read_to_string(work.join("a")).unwrap().contains("<<<<<<<"));
}

#[test]
fn a_submodule_is_frozen_without_running_its_git() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    let nested = scene.worktree().join("nested");
    fs::create_dir(&nested).unwrap();
    let git = |args: &[&str]| scene.runtime.block_on(git::run(&nested, args)).unwrap();
    git(&["init", "--quiet"]);
    let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
    git(&[&who[..], &["commit", "--quiet", "--allow-empty", "--message=first"]].concat());
    scene.git(&["add", "nested"]);
    scene.git(&["commit", "--quiet", "--message=nested"]);
    git(&[&who[..], &["commit", "--quiet", "--allow-empty", "--message=second"]].concat());
    let ran = scene.scratch.path().join("ran");
    git(&["config", "core.fsmonitor", &format!("touch {}", ran.display())]);
    git(&["config", "filter.x.clean", &format!("touch {}", ran.display())]);
    fs::write(nested.join(".gitattributes"), "* filter=x\n").unwrap();
    fs::write(nested.join("dirty"), "x\n").unwrap();
    let frozen = freeze_in(&scene).unwrap();
    assert!(!ran.exists());
    let work = laid_out(&scene, &frozen.commit);
    let tree = scene.runtime.block_on(git::run(&work, &["ls-tree", "HEAD", "nested"])).unwrap();
    assert!(tree.contains(&git(&["rev-parse", "HEAD"])), "{tree}");
}

#[test]
fn files_that_are_too_large_together_are_named_by_the_largest() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    scene.write("big", "0123456789");
    scene.write("small", "1");
    let tree =
        Tree::open(&scene.source.worktrees, &scene.source.folder, &scene.source.name).unwrap();
    assert!(measured(&tree, b"big\0small\0", 11).is_ok());
    let refused = measured(&tree, b"big\0small\0", 10).unwrap_err().to_string();
    assert!(refused.contains("more than 10 bytes together"), "{refused}");
    assert!(refused.contains("big with 10 bytes"), "{refused}");
}
