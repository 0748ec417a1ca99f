use crate::workspace::signing::Signing;
use std::fs;

use super::*;
use crate::workspace::snapshot::tests::Scene;

fn end(scene: &Scene, attempt: AttemptId, turn: u32) -> TurnEnd {
    let (source, at) = (scene.source.clone(), Timestamp::from_millis(1_700_000_000_999));
    TurnEnd { source, attempt, turn, at, base: scene.git_in_repo(&["rev-parse", "main"]) }
}

fn save_now(scene: &Scene, end: &TurnEnd) -> Saved {
    scene.runtime.block_on(save(end)).unwrap()
}

/// What must stay as it is: HEAD, the index and the status of the worktree.
fn standing(scene: &Scene) -> (String, Vec<u8>, String) {
    let index = scene.git(&["rev-parse", "--path-format=absolute", "--git-path", "index"]);
    // git status would refresh the index.
    let status = scene.git(&["--no-optional-locks", "status", "--porcelain=v2", "--branch"]);
    (scene.git(&["rev-parse", "HEAD"]), fs::read(index).unwrap(), status)
}

fn names(scene: &Scene, from: &str, to: &str) -> String {
    scene.git_in_repo(&["diff", "--name-status", "--no-renames", from, to])
}

#[test]
fn a_snapshot_has_all_but_what_is_ignored_and_changes_nothing_in_the_worktree() {
    let scene = Scene::new(&[
        (b"same", b"same\n"),
        (b"edited", b"before\n"),
        (b"gone", b"x\n"),
        (b"staged", b"before\n"),
        (b".gitignore", b"ignored\n"),
    ]);
    scene.write("edited", "after\n");
    scene.write("new", "new\n");
    scene.write("ignored", "x\n");
    scene.write("staged", "staged\n");
    scene.git(&["add", "staged"]);
    fs::remove_file(scene.worktree().join("gone")).unwrap();
    let before = standing(&scene);
    let attempt = AttemptId::new();
    let saved = save_now(&scene, &end(&scene, attempt, 3));
    assert_eq!(standing(&scene), before);
    assert_eq!(saved.base, scene.git_in_repo(&["rev-parse", "main"]));
    assert_eq!(names(&scene, &saved.base, &saved.commit), "M\tedited\nD\tgone\nA\tnew\nM\tstaged");
    let named = scene.git_in_repo(&["rev-parse", &reference(attempt, 3)]);
    assert_eq!(named, saved.commit);
    let format = "--format=%T %P %an %ae %at %cn %ct %s";
    let shown = scene.git_in_repo(&["show", "--no-patch", format, &saved.commit]);
    let who = "Provost provost@localhost 1700000000 Provost 1700000000";
    let expected = format!("{} {} {who} Turn 3 of attempt {attempt}", saved.tree, before.0);
    assert_eq!(shown, expected);
}

#[test]
fn a_snapshot_is_made_once_and_turns_are_distinguished() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    let attempt = AttemptId::new();
    let base = scene.git_in_repo(&["rev-parse", "main"]);
    scene.write("a", "one\n");
    let one = save_now(&scene, &end(&scene, attempt, 1));
    // Made again, as after a crash: the same commit, with and without its reference.
    assert_eq!(save_now(&scene, &end(&scene, attempt, 1)), one);
    scene.git_in_repo(&["update-ref", "-d", &reference(attempt, 1)]);
    assert_eq!(save_now(&scene, &end(&scene, attempt, 1)), one);
    scene.write("b", "two\n");
    scene.git(&["commit", "--quiet", "--all", "--message=committed"]);
    let two = save_now(&scene, &end(&scene, attempt, 2));
    assert_eq!(names(&scene, &base, &one.commit), "M\ta");
    assert_eq!(names(&scene, &one.commit, &two.commit), "A\tb");
    assert_eq!(names(&scene, &base, &two.commit), "M\ta\nA\tb");
    let listed =
        scene.git_in_repo(&["for-each-ref", "--format=%(refname)", "refs/provost/attempts"]);
    assert_eq!(listed, [1, 2].map(|turn| reference(attempt, turn)).join("\n"));
}

#[test]
fn a_reference_that_an_agent_made_is_replaced_and_leads_nowhere() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    let end = end(&scene, AttemptId::new(), 1);
    scene.write("a", "real\n");
    let name = reference(end.attempt, end.turn);
    let main = scene.git_in_repo(&["rev-parse", "main"]);
    let blob = scene.git_in_repo(&["rev-parse", "main:a"]);
    let forge: [&[&str]; 3] = [
        &["update-ref", &name, &main],
        &["update-ref", &name, &blob],
        &["symbolic-ref", &name, "refs/heads/main"],
    ];
    for forge in forge {
        scene.git_in_repo(forge);
        let saved = save_now(&scene, &end);
        assert_eq!(names(&scene, &main, &saved.commit), "M\ta");
        assert_eq!(scene.git_in_repo(&["rev-parse", &name]), saved.commit, "{forge:?}");
        assert_eq!(scene.git_in_repo(&["rev-parse", "main"]), main, "{forge:?}");
    }
    scene.git_in_repo(&["symbolic-ref", &name, "refs/heads/main"]);
    let forgotten = forget(&scene.source.repo, end.attempt, &[1]);
    scene.runtime.block_on(forgotten).unwrap();
    assert_eq!(scene.git_in_repo(&["for-each-ref", "refs/provost/attempts"]), "");
    assert_eq!(scene.git_in_repo(&["rev-parse", "main"]), main);
}

#[test]
fn another_attempt_begins_at_a_commit_of_the_person() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    scene.write("b", "new\n");
    let saved = save_now(&scene, &end(&scene, AttemptId::new(), 1));
    let [name, email, date] = ["Ann", "ann@localhost", "1800000000 +0100"].map(str::to_owned);
    let by = Signature { name, email, date, committer: None };
    let begin = |commit: &str| {
        let Source { repo, scratch, .. } = &scene.source;
        scene
            .runtime
            .block_on(begin_at(repo, scratch, commit, "Title\n\nText", (&by, &Signing::default())))
            .unwrap()
    };
    let begun = begin(&saved.commit);
    let shown = scene.git_in_repo(&["log", "-1", "--format=%T %P %an %cn %at %s", &begun]);
    let parent = scene.git_in_repo(&["rev-parse", &format!("{}^", saved.commit)]);
    assert_eq!(shown, format!("{} {parent} Ann Ann 1700000000 Title", saved.tree));
    assert_eq!(begin(&saved.commit), begun, "the same again");
    // Nothing was left uncommitted.
    scene.git(&["add", "--all"]);
    scene.git(&["commit", "--quiet", "--message=own"]);
    let saved = save_now(&scene, &end(&scene, AttemptId::new(), 2));
    assert_eq!(begin(&saved.commit), scene.git(&["rev-parse", "HEAD"]));
}

#[test]
fn snapshots_are_forgotten_and_others_stay() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    let (one, other) = (AttemptId::new(), AttemptId::new());
    for (attempt, turn) in [(one, 1), (one, 2), (other, 1)] {
        save_now(&scene, &end(&scene, attempt, turn));
    }
    for _ in 0..2 {
        let forgotten = forget(&scene.source.repo, one, &[1, 2, 3]);
        scene.runtime.block_on(forgotten).unwrap();
        let listed =
            scene.git_in_repo(&["for-each-ref", "--format=%(refname)", "refs/provost/attempts"]);
        assert_eq!(listed, reference(other, 1));
    }
}

#[test]
fn a_snapshot_needs_no_target_branch() {
    let scene = Scene::new(&[(b"a", b"a\n")]);
    let end = end(&scene, AttemptId::new(), 1);
    scene.write("new", "new\n");
    scene.git_in_repo(&["checkout", "--quiet", "--detach"]);
    scene.git_in_repo(&["branch", "-D", "main"]);
    let saved = save_now(&scene, &end);
    assert_eq!(saved.base, end.base);
    assert_eq!(names(&scene, &saved.base, &saved.commit), "A\tnew");
}
