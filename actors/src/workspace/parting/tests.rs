use std::collections::HashMap;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use super::*;

/// A repository whose commits have no files, each with a twin: the same commit in a history in
/// which each landing was a real merge.
struct Scene {
    dir: TempDir,
    runtime: tokio::runtime::Runtime,
    twins: HashMap<String, String>,
    made: u32,
    main: Vec<String>,
    work: String,
    history: History,
}

impl Scene {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("repo")).unwrap();
        let (twins, made, main, work) = (HashMap::new(), 0, Vec::new(), String::new());
        let mut scene = Self { dir, runtime, twins, made, main, work, history: History::default() };
        scene.git(&["init", "--quiet", "--initial-branch=main"]);
        let first = scene.commit(&[], None);
        scene.main.push(first);
        scene.moves();
        scene.work = scene.tip();
        scene.history.begun = Some(scene.tip());
        scene
    }

    fn git(&self, args: &[&str]) -> String {
        let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
        let args = [&who[..], args].concat();
        self.runtime.block_on(git::run(&self.dir.path().join("repo"), &args)).unwrap()
    }

    fn tip(&self) -> String {
        self.main.last().unwrap().clone()
    }

    /// A commit, whose twin has `landed` as another parent.
    fn commit(&mut self, parents: &[&str], landed: Option<&str>) -> String {
        self.made += 1;
        let tree = self.git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
        let make = |name: &str, parents: &[&str]| {
            let (message, mut args) =
                (format!("{name} {}", self.made), vec!["commit-tree", &*tree]);
            args.extend(parents.iter().flat_map(|parent| ["-p", parent]));
            self.git(&[&args[..], &["-m", &message]].concat())
        };
        let commit = make("commit", parents);
        let of = parents.iter().copied().chain(landed);
        let of: Vec<&str> = of.map(|parent| self.twins[parent].as_str()).collect();
        let twin = make("twin", &of);
        self.twins.insert(commit.clone(), twin);
        commit
    }

    fn part(&self) -> Parting {
        let (repo, target) = (self.dir.path().join("repo"), self.tip());
        let parting = part(&repo, Some(&target), &self.work, &self.history);
        self.runtime.block_on(parting).unwrap().unwrap()
    }

    fn works(&mut self) {
        self.work = self.commit(&[&self.work.clone()], None);
    }

    /// Others commit on the target.
    fn moves(&mut self) {
        let next = self.commit(&[&self.tip()], None);
        self.main.push(next);
    }

    /// The work lands by a squash, or by a real merge.
    fn lands(&mut self, is_real: bool) {
        let (before, work) = (self.tip(), self.work.clone());
        let result = if is_real {
            self.commit(&[&before, &work], None)
        } else {
            self.commit(&[&before], Some(&work))
        };
        self.main.push(result.clone());
        let landing = Landing { commit: work, branch: "main".into(), before, result };
        self.history.landings.insert(0, landing);
    }

    /// The attempt merges the target.
    fn takes(&mut self) {
        self.work = self.commit(&[&self.work.clone(), &self.tip()], None);
    }

    /// The target is moved back by some commits, the last of which is replaced by another one.
    fn is_amended(&mut self, by: usize) {
        let left = self.main.len().saturating_sub(by).max(1);
        self.main.truncate(left);
        self.moves();
    }

    /// What plain git finds between the twins.
    fn expected(&self) -> Vec<String> {
        let twin = |commit: &str| self.twins[commit].clone();
        let (work, begun) = (twin(&self.work), twin(self.history.begun.as_ref().unwrap()));
        let found = self.git(&["merge-base", "--all", &work, &twin(&self.tip()), &begun]);
        found.lines().map(str::to_owned).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Works,
    Moves,
    Squash,
    Merge,
    Takes,
    Amended(usize),
}

#[test]
fn it_is_the_merge_base_of_a_history_in_which_each_landing_was_a_real_merge() {
    let act = prop_oneof![
        4 => Just(Act::Works),
        3 => Just(Act::Moves),
        3 => Just(Act::Squash),
        1 => Just(Act::Merge),
        1 => Just(Act::Takes),
        1 => (1..4usize).prop_map(Act::Amended),
    ];
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..<_>::default() };
    let cases = proptest::collection::vec(act, 1..12);
    let tested = TestRunner::new(config).run(&cases, |acts| {
        let mut scene = Scene::new();
        for act in acts {
            match act {
                Act::Works => scene.works(),
                Act::Moves => scene.moves(),
                Act::Squash => scene.lands(false),
                Act::Merge => scene.lands(true),
                Act::Takes => scene.takes(),
                Act::Amended(by) => scene.is_amended(by),
            }
            let base = scene.part().base;
            prop_assert!(scene.expected().contains(&scene.twins[&base]), "after {act:?}");
        }
        Ok(())
    });
    tested.unwrap();
}

#[test]
fn rewritten_work_counts_since_what_was_merged_of_it() {
    let mut scene = Scene::new();
    let begun = scene.work.clone();
    scene.works();
    let first = scene.work.clone();
    scene.lands(false);
    // It is amended.
    scene.work = scene.commit(&[&begun], None);
    assert_eq!(scene.part(), Parting { base: first.clone(), landed: Some(0) });
    // Without the result in the target, all of it counts.
    scene.is_amended(1);
    assert_eq!(scene.part(), Parting { base: begun.clone(), landed: None });
    // It was moved to a commit of the target that is newer than where it began, without the result.
    let on = scene.tip();
    scene.lands(false);
    scene.work = scene.commit(&[&on], None);
    assert_eq!(scene.part(), Parting { base: on, landed: Some(0) });
    // What is taken back is merged as well.
    scene.work = begun.clone();
    assert_eq!(scene.part().base, begun);
}

#[test]
fn what_began_elsewhere_or_was_pruned_is_no_obstacle() {
    let mut scene = Scene::new();
    scene.works();
    scene.lands(false);
    let gone = "1".repeat(40);
    let begun = scene.history.begun.replace(gone.clone());
    let landing = &mut scene.history.landings[0];
    let first = std::mem::replace(&mut landing.commit, gone.clone());
    assert_eq!(Some(scene.part().base), begun, "the merged commit was pruned");
    scene.history.landings[0].commit.clone_from(&first);
    assert_eq!(scene.part().base, first);
    scene.history.landings[0].result = gone;
    assert_eq!(scene.part(), Parting { base: begun.clone().unwrap(), landed: None });
    // Without a target.
    let repo = scene.dir.path().join("repo");
    let since = |history: &History| {
        scene.runtime.block_on(since(&repo, "none", &scene.work, history)).unwrap()
    };
    assert_eq!(since(&History { begun: begun.clone(), ..History::default() }), begun);
    assert_eq!(since(&History::default()), None);
}

#[test]
fn a_fork_has_what_was_merged_of_its_source() {
    let mut scene = Scene::new();
    scene.works();
    let first = scene.work.clone();
    scene.works();
    scene.lands(false);
    let landings = std::mem::take(&mut scene.history.landings);
    scene.history.inherited.push(landings);
    // It was forked after the first commit; the second one is merged as well.
    scene.work = scene.commit(&[&first], None);
    assert_eq!(scene.part(), Parting { base: first, landed: None });
}

#[test]
fn the_last_merge_is_found_with_what_the_work_counted_since_then() {
    let mut scene = Scene::new();
    scene.works();
    scene.lands(false);
    let first = scene.work.clone();
    scene.works();
    scene.lands(false);
    let second = scene.history.landings[0].clone();
    // Later, there was nothing to merge.
    let tip = scene.tip();
    let nothing = Landing { before: tip.clone(), result: tip, ..second.clone() };
    scene.history.landings.insert(0, nothing);
    let last_merge = |scene: &Scene| {
        scene.git(&["update-ref", "refs/heads/main", &scene.tip()]);
        let repo = scene.dir.path().join("repo");
        let search = merged_last(&repo, "main", &scene.history);
        scene.runtime.block_on(search).unwrap()
    };
    assert_eq!(last_merge(&scene), Some((second, first.clone())));
    scene.is_amended(1);
    let (landing, since) = last_merge(&scene).unwrap();
    assert_eq!((landing.commit, Some(since)), (first, scene.history.begun.clone()));
    scene.is_amended(2);
    assert_eq!(last_merge(&scene), None, "the target has nothing of it");
}
