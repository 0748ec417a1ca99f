use std::fs;

use proptest::prelude::{Just, ProptestConfig, any, prop_assert, prop_assert_eq, prop_oneof};
use proptest::strategy::Strategy as _;
use proptest::test_runner::{TestCaseError, TestRunner};
use tempfile::TempDir;

use super::trees::Means;
use super::*;
use crate::workspace::parting::Landing;

struct Scene {
    dir: TempDir,
    repo: PathBuf,
}

impl Scene {
    /// A repository with a file `a` of five lines and a file `b` on `main`.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        fs::create_dir(dir.path().join("scratch")).unwrap();
        let scene = Self { dir, repo };
        scene.git(&["init", "--quiet", "--initial-branch=main"]).await;
        scene.git(&["config", "user.name", "Ann"]).await;
        scene.git(&["config", "user.email", "ann@localhost"]).await;
        scene.commit("first", &[("a", Some("1\n2\n3\n4\n5\n")), ("b", Some("b\n"))]).await;
        scene
    }

    async fn git(&self, args: &[&str]) -> String {
        git::run(&self.repo, args).await.unwrap()
    }

    /// Writes files, `None` deletes one, and commits them; returns the commit.
    async fn commit(&self, message: &str, files: &[(&str, Option<&str>)]) -> String {
        for (name, text) in files {
            let path = self.repo.join(name);
            match text {
                Some(text) => fs::write(path, text).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
        }
        self.git(&["add", "--all"]).await;
        self.git(&["commit", "--quiet", "--message", message]).await;
        self.git(&["rev-parse", "HEAD"]).await
    }

    async fn branch(&self, name: &str) {
        self.git(&["checkout", "--quiet", "-b", name, "main"]).await;
    }

    fn merge(&self, target: &str, source: &str, strategy: Strategy) -> Merge {
        let [name, email] = ["Bob", "bob@localhost"].map(str::to_owned);
        Merge {
            repo: self.repo.clone(),
            scratch: self.dir.path().join("scratch"),
            target: target.to_owned(),
            source: source.to_owned(),
            history: History::default(),
            strategy,
            message: "Merged".to_owned(),
            by: Signature { name, email, date: "1700000000 +0100".to_owned(), committer: None },
            signing: Arc::default(),
        }
    }

    /// Merges by both means, which have to agree.
    async fn merged(&self, target: &str, source: &str, strategy: Strategy) -> Merged {
        let what = self.merge(target, source, strategy);
        let before = self.git(&["for-each-ref"]).await;
        let status = self.git(&["status", "--porcelain"]).await;
        let common = git::common_dir(&self.repo).await.unwrap();
        let by = async |means| {
            let trees = Trees::by(common.clone(), &what.scratch, &what.target, means).await;
            Merger { merge: &what, trees: trees.unwrap() }.run().await.unwrap()
        };
        let (one, other) = (by(Means::MergeTree).await, by(Means::Folder).await);
        match (&one, &other) {
            (
                Merged::Conflicts { conflicts: one, at },
                Merged::Conflicts { conflicts: other, at: too },
            ) => {
                let paths =
                    |of: &[Conflict]| of.iter().map(|it| it.path.clone()).collect::<Vec<_>>();
                assert_eq!((paths(one), at), (paths(other), too));
            }
            _ => assert_eq!(one, other),
        }
        assert_eq!(self.git(&["for-each-ref"]).await, before, "no reference moved");
        assert_eq!(self.git(&["status", "--porcelain"]).await, status);
        one
    }

    async fn show(&self, commit: &str, format: &str) -> String {
        self.git(&["log", "-1", &format!("--format={format}"), commit]).await
    }
}

fn commit(merged: &Merged) -> &str {
    match merged {
        Merged::Commit { commit, .. } => commit,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_strategy_gives_its_shape_and_the_same_tree() {
    let scene = Scene::new().await;
    scene.branch("work").await;
    let one = scene.commit("one", &[("a", Some("1\n2\n3\n4\nfive\n"))]).await;
    let two = scene.commit("two", &[("c", Some("new\n"))]).await;
    scene.git(&["checkout", "--quiet", "main"]).await;
    let main = scene.commit("theirs", &[("a", Some("one\n2\n3\n4\n5\n"))]).await;

    let merge = scene.merged(&main, &two, Strategy::Merge).await;
    assert_eq!(scene.show(commit(&merge), "%P").await, format!("{main} {two}"));
    let by = scene.show(commit(&merge), "%an %ae %ad|%cn").await;
    assert!(by.starts_with("Bob bob@localhost") && by.ends_with("|Bob"), "{by}");
    let squash = scene.merged(&main, &two, Strategy::Squash).await;
    assert_eq!(scene.show(commit(&squash), "%P|%s").await, format!("{main}|Merged"));
    let rebase = scene.merged(&main, &two, Strategy::Rebase).await;
    assert_eq!(scene.show(commit(&rebase), "%an|%cn|%s").await, "Ann|Bob|two");
    let parent = scene.show(commit(&rebase), "%P").await;
    assert_eq!(scene.show(&parent, "%P|%s").await, format!("{main}|one"));
    let trees = [&merge, &squash, &rebase].map(|merged| match merged {
        Merged::Commit { tree, .. } => tree.clone(),
        other => panic!("{other:?}"),
    });
    assert!(trees.iter().all(|tree| *tree == trees[0]));
    let a = scene.git(&["cat-file", "blob", &format!("{}:a", trees[0])]).await;
    assert_eq!(a, "one\n2\n3\n4\nfive");

    assert_eq!(scene.merged(&main, &two, Strategy::FastForward).await, Merged::Diverged);
    let forward = scene.merged(&one, &two, Strategy::FastForward).await;
    assert_eq!(commit(&forward), two);
    for strategy in [Strategy::Merge, Strategy::Squash, Strategy::Rebase, Strategy::FastForward] {
        assert_eq!(scene.merged(&two, &one, strategy).await, Merged::Nothing);
    }
}

#[tokio::test]
async fn conflicts_name_path_kind_sides_and_lines() {
    let scene = Scene::new().await;
    scene.branch("work").await;
    let one = scene.commit("one", &[("a", Some("1\n2\nTHREE\n4\n5\n")), ("b", None)]).await;
    scene.git(&["checkout", "--quiet", "main"]).await;
    let main =
        scene.commit("theirs", &[("a", Some("1\n2\ndrei\n4\n5\n")), ("b", Some("more\n"))]).await;
    for strategy in [Strategy::Merge, Strategy::Squash, Strategy::Rebase] {
        let merged = scene.merged(&main, &one, strategy).await;
        let Merged::Conflicts { conflicts, at } = merged else { panic!("{merged:?}") };
        assert_eq!(at, (strategy == Strategy::Rebase).then(|| one.clone()));
        let [a, b] = &conflicts[..] else { panic!("{conflicts:?}") };
        assert_eq!((&*a.path, &*a.kind), ("a", "contents"));
        let hunks = a.hunks.as_ref().unwrap();
        for part in ["<<<<<<< ", "drei", "=======", "THREE", ">>>>>>> "] {
            assert!(hunks.contains(part), "{hunks}");
        }
        assert_eq!((&*b.path, &*b.kind), ("b", "modify/delete"));
        assert!(b.base.is_some() && b.ours.is_some() && b.theirs.is_none());
        let ours = scene.git(&["rev-parse", &format!("{main}:b")]).await;
        assert_eq!(b.ours.as_ref().unwrap().object, ours);
    }
}

#[tokio::test]
async fn what_the_repository_configures_runs_nothing_and_its_attributes_count() {
    let scene = Scene::new().await;
    let ran = scene.dir.path().join("ran");
    let trap = format!("touch {}; exit 1", ran.display());
    // Not `clean`, which the test's own `git status` would run.
    for key in ["merge.ev.driver", "filter.ev.smudge", "diff.external"] {
        scene.git(&["config", key, &trap]).await;
    }
    fs::write(scene.repo.join(".git/info/attributes"), "a merge=ev filter=ev\n").unwrap();
    let hook = scene.repo.join(".git/hooks/reference-transaction");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\n{trap}\n")).unwrap();
    let attributes = (".gitattributes", Some("list merge=union\n"));
    scene.commit("base", &[attributes, ("list", Some(""))]).await;
    scene.branch("work").await;
    let one = scene.commit("one", &[("list", Some("one\n")), ("a", Some("x\n2\n3\n4\n5\n"))]).await;
    scene.git(&["checkout", "--quiet", "main"]).await;
    let main =
        scene.commit("two", &[("list", Some("two\n")), ("a", Some("1\n2\n3\n4\ny\n"))]).await;
    let _ = fs::remove_file(&ran);
    let merged = scene.merged(&main, &one, Strategy::Squash).await;
    let list = scene.git(&["cat-file", "blob", &format!("{}:list", commit(&merged))]).await;
    assert_eq!(list, "two\none");
    assert!(!ran.exists());
}

#[tokio::test]
async fn replaced_commits_and_grafts_change_no_history() {
    let scene = Scene::new().await;
    scene.branch("work").await;
    let work = scene.commit("work", &[("b", Some("work\n"))]).await;
    scene.git(&["checkout", "--quiet", "main"]).await;
    let main = scene.commit("main", &[("a", Some("main\n"))]).await;
    // As if the work stood on main.
    scene.git(&["replace", "--graft", &work, &main]).await;
    fs::create_dir_all(scene.repo.join(".git/info")).unwrap();
    fs::write(scene.repo.join(".git/info/grafts"), format!("{work} {main}\n")).unwrap();
    assert_eq!(scene.merged(&main, &work, Strategy::FastForward).await, Merged::Diverged);
    for strategy in [Strategy::Merge, Strategy::Squash, Strategy::Rebase] {
        let merged = scene.merged(&main, &work, strategy).await;
        let has = scene.show(commit(&merged), "%H").await;
        let text = scene.git(&["--no-replace-objects", "show", &format!("{has}:a")]).await;
        assert_eq!(text, "main", "{strategy:?}");
    }
}

#[tokio::test]
async fn a_rebase_leaves_out_what_the_target_has_and_refuses_merge_commits() {
    let scene = Scene::new().await;
    scene.branch("work").await;
    scene.commit("same", &[("b", Some("same\n"))]).await;
    let two = scene.commit("own", &[("c", Some("own\n"))]).await;
    scene.git(&["checkout", "--quiet", "main"]).await;
    let main = scene.commit("also", &[("b", Some("same\n"))]).await;
    let merged = scene.merged(&main, &two, Strategy::Rebase).await;
    assert_eq!(scene.show(commit(&merged), "%P|%s").await, format!("{main}|own"));
    scene.git(&["checkout", "--quiet", "work"]).await;
    scene.git(&["merge", "--quiet", "--no-edit", "main"]).await;
    let tip = scene.git(&["rev-parse", "HEAD"]).await;
    scene.git(&["checkout", "--quiet", "main"]).await;
    let main = scene.commit("later", &[("d", Some("d\n"))]).await;
    let merged = scene.merged(&main, &tip, Strategy::Rebase).await;
    assert_eq!(merged, Merged::NotLinear { at: tip });
}

#[tokio::test]
async fn histories_with_nothing_in_common_are_refused() {
    let scene = Scene::new().await;
    let main = scene.git(&["rev-parse", "HEAD"]).await;
    scene.git(&["checkout", "--quiet", "--orphan", "other"]).await;
    let other = scene.commit("other", &[("z", Some("z\n"))]).await;
    let error = merge(&scene.merge(&main, &other, Strategy::Merge)).await.unwrap_err();
    assert!(error.to_string().contains("share no commit"), "{error}");
}

/// What a finish does with what was computed: the target moves, and the landing is on record.
async fn landed(scene: &Scene, history: &mut History, strategy: Strategy) -> Merged {
    let before = scene.git(&["rev-parse", "main"]).await;
    let commit = scene.git(&["rev-parse", "work"]).await;
    let what = Merge { history: history.clone(), ..scene.merge(&before, &commit, strategy) };
    let merged = merge(&what).await.unwrap();
    let result = match &merged {
        Merged::Commit { commit, .. } => commit.clone(),
        Merged::Nothing => before.clone(),
        _ => return merged,
    };
    scene.git(&["update-ref", "refs/heads/main", &result]).await;
    let branch = "main".to_owned();
    history.landings.insert(0, Landing { commit, branch, before, result });
    merged
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// The attempt writes its file, and its commit is amended or a new one.
    Works(bool),
    Moves,
    Takes,
    Lands(Strategy),
    /// The target goes back to where it was before the last landing.
    Loses,
}

/// A file's content on a branch.
async fn text(scene: &Scene, file: &str) -> String {
    scene.git(&["show", file]).await
}

async fn acted(scene: &Scene, acts: &[Act]) -> Result<(), TestCaseError> {
    let begun = scene.git(&["rev-parse", "main"]).await;
    let mut history = History { begun: Some(begun.clone()), ..History::default() };
    let mut has_taken = false;
    for (n, act) in acts.iter().enumerate() {
        match act {
            Act::Works(amends) => {
                let amends = *amends && scene.git(&["rev-parse", "work"]).await != begun;
                scene.git(&["checkout", "--quiet", "work"]).await;
                fs::write(scene.repo.join("a"), format!("1\n2\nwork {n}\n4\n5\n")).unwrap();
                let how = if amends { &["--amend", "--no-edit"][..] } else { &["--message=work"] };
                scene.git(&[&["commit", "--quiet", "--all"], how].concat()).await;
            }
            Act::Moves => {
                scene.git(&["checkout", "--quiet", "main"]).await;
                scene.commit("moves", &[("b", Some(&format!("b {n}\n")))]).await;
            }
            Act::Takes => {
                has_taken = true;
                scene.git(&["checkout", "--quiet", "work"]).await;
                // An attempt that is at a commit of the target's would amend that one.
                let merge = ["merge", "--quiet", "--no-ff", "--no-edit", "-X", "ours", "main"];
                scene.git(&merge).await;
            }
            // What was taken of it would be work then.
            Act::Loses if !has_taken => {
                let Some(last) = history.landings.first() else { continue };
                scene.git(&["checkout", "--quiet", "--detach"]).await;
                scene.git(&["branch", "--quiet", "--force", "main", &last.before]).await;
            }
            Act::Loses => {}
            Act::Lands(strategy) => {
                let expected = (text(scene, "work:a").await, text(scene, "main:b").await);
                let mut merged = landed(scene, &mut history, *strategy).await;
                if matches!(merged, Merged::NotLinear { .. } | Merged::Lacks { .. }) {
                    merged = landed(scene, &mut history, Strategy::Squash).await;
                }
                let is_done = matches!(merged, Merged::Commit { .. } | Merged::Nothing);
                prop_assert!(is_done, "{n}: {merged:?}");
                let found = (text(scene, "main:a").await, text(scene, "main:b").await);
                prop_assert_eq!((n, found), (n, expected));
                scene.git(&["checkout", "--quiet", "--force", "main"]).await;
            }
        }
    }
    Ok(())
}

#[test]
fn whatever_comes_between_a_merge_gives_the_work_as_it_is_and_nothing_of_it_conflicts() {
    let strategy = prop_oneof![
        3 => Just(Strategy::Squash),
        2 => Just(Strategy::Rebase),
        1 => Just(Strategy::Merge),
    ];
    let act = prop_oneof![
        4 => any::<bool>().prop_map(Act::Works),
        2 => Just(Act::Moves),
        1 => Just(Act::Takes),
        1 => Just(Act::Loses),
        4 => strategy.prop_map(Act::Lands),
    ];
    let config = ProptestConfig { cases: 16, failure_persistence: None, ..<_>::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tested = TestRunner::new(config).run(&proptest::collection::vec(act, 2..10), |acts| {
        runtime.block_on(async {
            let scene = Scene::new().await;
            scene.commit("second", &[("c", Some("c\n"))]).await;
            scene.git(&["branch", "work"]).await;
            acted(&scene, &acts).await
        })
    });
    tested.unwrap();
}

#[tokio::test]
async fn a_merge_among_the_commits_is_named_before_one_that_does_not_apply_without_it() {
    let scene = Scene::new().await;
    scene.git(&["branch", "work"]).await;
    let acts =
        [Act::Works(false), Act::Moves, Act::Takes, Act::Moves, Act::Lands(Strategy::Rebase)];
    acted(&scene, &acts).await.unwrap();
}

#[tokio::test]
async fn a_commit_is_replayed_at_its_own_moment_whatever_that_is() {
    let scene = Scene::new().await;
    scene.branch("work").await;
    let work = scene.commit("one", &[("c", Some("new\n"))]).await;
    scene.git(&["checkout", "--quiet", "main"]).await;
    let main = scene.commit("theirs", &[("b", Some("theirs\n"))]).await;
    let raw = scene.git(&["cat-file", "commit", &work]).await;
    let author = raw.lines().find(|line| line.starts_with("author ")).unwrap();
    for (date, expected) in [
        ("0 +0000", "0 +0000"),
        ("86400 -0330", "86400 -0330"),
        ("99999999 +0100", "99999999 +0100"),
        ("1700000000 +1400", "1700000000 +1400"),
        ("253402300799 +0000", "253402300799 +0000"),
        // What other programs have written.
        ("1700000000 +051800", "1700000000 +0000"),
        ("1700000000 +7", "1700000000 +0007"),
        ("-86400 +0000", "0 +0000"),
        ("never", "0 +0000"),
        ("99999999999999999999 +0000", "0 +0000"),
    ] {
        let odd = raw.replace(author, &format!("author Ann <ann@localhost> {date}"));
        let file = scene.dir.path().join("commit");
        fs::write(&file, format!("{odd}\n")).unwrap();
        let write = ["hash-object", "-t", "commit", "-w", "--literally", file.to_str().unwrap()];
        let odd = scene.git(&write).await;
        let merged = merge(&scene.merge(&main, &odd, Strategy::Rebase)).await.unwrap();
        let replayed = scene.git(&["cat-file", "commit", commit(&merged)]).await;
        let author = format!("author Ann <ann@localhost> {expected}\n");
        assert!(replayed.contains(&author), "{date}: {replayed}");
    }
}
