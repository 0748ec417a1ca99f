use super::*;
use crate::ids::AttemptId;
use crate::journal::{FinishAction, FinishRequest, RepoRequest};
use crate::workspace::merge::{Signature, Strategy};

/// A finish of two repositories, `a` and `b`.
fn finish(into: Option<&str>) -> Finish {
    let [name, email, date] = ["Ann", "ann@localhost", "1700000000 +0000"].map(str::to_owned);
    let repo = |name: &str| RepoRequest {
        name: name.to_owned(),
        head: "head".to_owned(),
        into: into.map(str::to_owned),
        push: None,
        onto: None,
        by: None,
    };
    let action = if into.is_some() { FinishAction::Merge } else { FinishAction::Commit };
    let request = FinishRequest {
        action,
        strategy: Strategy::Merge,
        message: "m".to_owned(),
        by: Some(Signature { name, email, date, committer: None }),
        repos: vec![repo("a"), repo("b")],
        onto: None,
        deletes_branch: false,
        proposal: None,
    };
    Finish::new(AttemptId::new(), request)
}

fn merged(old: &str, new: &str) -> Stepped {
    let tree = (old != new).then(|| "tree".to_owned());
    let [old, new] = [old, new].map(str::to_owned);
    Stepped::Computed(MergeReceipt { old, new, tree, place: TargetState::Old })
}

/// Takes the next step, which has to be this one, with this result.
#[track_caller]
fn step(finish: &mut Finish, expected: &Step, stepped: Stepped) {
    let step = next(finish);
    assert_eq!(step, *expected);
    record(&mut finish.receipt, &step, stepped);
}

fn refused() -> Refusal {
    Refusal::new(Code::CheckoutInTheWay, "a is in the way")
}

/// Both are committed and computed, and the checks are planned.
fn planned() -> (Finish, CheckRunId) {
    let mut it = finish(Some("main"));
    for at in [0, 1] {
        step(&mut it, &Step::Commit(at), Stepped::Committed("c".to_owned()));
    }
    for at in [0, 1] {
        step(&mut it, &Step::Compute(at), merged("old", "new"));
    }
    let run = CheckRunId::new();
    let checks = ChecksReceipt { run_id: Some(run), passed: None };
    step(&mut it, &Step::Plan, Stepped::Planned(checks));
    (it, run)
}

fn checked() -> Finish {
    let (mut it, run) = planned();
    step(&mut it, &Step::Await(run), Stepped::Checked(true));
    it
}

#[test]
fn a_commit_ends_once_all_is_committed() {
    let mut it = finish(None);
    step(&mut it, &Step::Commit(0), Stepped::Committed("c".to_owned()));
    step(&mut it, &Step::Commit(1), Stepped::Committed("head".to_owned()));
    assert_eq!(next(&it), Step::End(Ending::Done));
}

#[test]
fn a_discard_ends_once_the_worktrees_are_gone() {
    let mut it = finish(None);
    it.request.action = FinishAction::Discard;
    let snapshots = vec![None, Some("c".to_owned())];
    step(&mut it, &Step::Discard, Stepped::Discarded(snapshots));
    assert_eq!(next(&it), Step::End(Ending::Done));
    assert_eq!(it.receipt.repos[1].snapshot.as_deref(), Some("c"));
}

#[test]
fn nothing_moves_before_all_is_computed_and_checked() {
    let mut it = checked();
    step(&mut it, &Step::Move(0), Stepped::Moved);
    step(&mut it, &Step::Move(1), Stepped::Moved);
    assert_eq!(next(&it), Step::End(Ending::Done));
}

#[test]
fn a_project_without_checks_goes_on_at_once_and_what_has_everything_stays() {
    let mut it = finish(Some("main"));
    for at in [0, 1] {
        step(&mut it, &Step::Commit(at), Stepped::Committed("c".to_owned()));
    }
    step(&mut it, &Step::Compute(0), merged("old", "old"));
    step(&mut it, &Step::Compute(1), merged("old", "new"));
    let none = ChecksReceipt { run_id: None, passed: Some(true) };
    step(&mut it, &Step::Plan, Stepped::Planned(none));
    step(&mut it, &Step::Move(1), Stepped::Moved);
    assert_eq!(next(&it), Step::End(Ending::Done));
}

#[test]
fn nothing_to_merge_needs_no_checks() {
    let mut it = finish(Some("main"));
    for at in [0, 1] {
        step(&mut it, &Step::Commit(at), Stepped::Committed("c".to_owned()));
    }
    for at in [0, 1] {
        step(&mut it, &Step::Compute(at), merged("old", "old"));
    }
    assert_eq!(next(&it), Step::End(Ending::Done));
}

#[test]
fn checks_that_fail_end_it_and_nothing_has_moved() {
    let (mut it, run) = planned();
    step(&mut it, &Step::Await(run), Stepped::Checked(false));
    assert_eq!(next(&it), Step::End(Ending::ChecksFailed));
    assert_eq!(it.receipt.checks.unwrap().passed, Some(false));
}

#[test]
fn conflicts_and_refusals_end_it_from_wherever_it_is() {
    let mut it = finish(Some("main"));
    step(&mut it, &Step::Commit(0), Stepped::Refused(refused()));
    assert_eq!(next(&it), Step::End(Ending::Refused(refused())));
    let mut it = finish(Some("main"));
    for at in [0, 1] {
        step(&mut it, &Step::Commit(at), Stepped::Committed("c".to_owned()));
    }
    let conflicts = Conflicting { repo: "a".to_owned(), at: None, target: None, conflicts: vec![] };
    step(&mut it, &Step::Compute(0), Stepped::Conflicts(conflicts.clone()));
    assert_eq!(next(&it), Step::End(Ending::Conflicts(conflicts)));
}

#[test]
fn what_moved_goes_back_when_another_can_not_move() {
    let mut it = checked();
    step(&mut it, &Step::Move(0), Stepped::Moved);
    step(&mut it, &Step::Move(1), Stepped::Refused(refused()));
    step(&mut it, &Step::Return(0), Stepped::Moved);
    assert_eq!(next(&it), Step::End(Ending::Refused(refused())));
    assert_eq!(it.receipt.repos[0].merged.as_ref().unwrap().place, TargetState::Old);
}

#[test]
fn what_can_not_go_back_is_left_and_the_first_reason_stays() {
    for stepped in [Stepped::Elsewhere, Stepped::Refused(Refusal::internal("x"))] {
        let mut it = checked();
        step(&mut it, &Step::Move(0), Stepped::Moved);
        step(&mut it, &Step::Move(1), Stepped::Refused(refused()));
        step(&mut it, &Step::Return(0), stepped);
        assert_eq!(next(&it), Step::End(Ending::Refused(refused())));
        assert_eq!(it.receipt.repos[0].merged.as_ref().unwrap().place, TargetState::Left);
        assert_eq!(it.left(), ["a"]);
        let refusal = with_left(refused(), &it.left());
        assert!(
            refusal.message.ends_with(
                "The target branch of a had moved already and could not go back: it has the work."
            ),
            "{refusal}"
        );
        assert_eq!(refusal.details["merged"], serde_json::json!(["a"]));
    }
}

#[test]
fn a_target_that_moves_is_computed_and_checked_again_a_few_times() {
    let mut it = checked();
    step(&mut it, &Step::Move(0), Stepped::Moved);
    for _ in 0..RECOMPUTED_MAX {
        step(&mut it, &Step::Move(1), Stepped::Elsewhere);
        step(&mut it, &Step::Compute(1), merged("later", "newer"));
        let run = CheckRunId::new();
        let checks = ChecksReceipt { run_id: Some(run), passed: None };
        step(&mut it, &Step::Plan, Stepped::Planned(checks));
        step(&mut it, &Step::Await(run), Stepped::Checked(true));
    }
    step(&mut it, &Step::Move(1), Stepped::Elsewhere);
    step(&mut it, &Step::Return(0), Stepped::Moved);
    assert!(matches!(next(&it), Step::End(Ending::Refused(_))));
}

/// However the steps end, and wherever a daemon reads the receipt back, it ends, and a finish
/// that is not done has left no branch at its result that could go back.
#[test]
fn every_way_ends_and_leaves_all_or_nothing() {
    let mut ways = vec![finish(Some("main"))];
    let mut ended = 0;
    for _ in 0..200 {
        let Some(it) = ways.pop() else { break };
        let kept = serde_json::to_value(&it.receipt).unwrap();
        assert_eq!(serde_json::from_value::<FinishReceipt>(kept).unwrap(), it.receipt);
        let results = match next(&it) {
            Step::End(ending) => {
                ended += 1;
                let places = it.receipt.repos.iter().filter_map(|repo| repo.merged.as_ref());
                let moved = places.filter(|merged| merged.place == TargetState::New).count();
                assert_eq!(moved, if ending == Ending::Done { 2 } else { 0 });
                continue;
            }
            step @ (Step::DeleteBranch(_) | Step::Push(_) | Step::Propose(_)) => {
                panic!("a merge has no {step:?}")
            }
            Step::Commit(_) => vec![Stepped::Committed("c".to_owned())],
            Step::Compute(_) => vec![merged("old", "new"), Stepped::Refused(refused())],
            Step::Plan => {
                let run_id = Some(CheckRunId::new());
                vec![Stepped::Planned(ChecksReceipt { run_id, passed: None })]
            }
            Step::Await(_) => vec![Stepped::Checked(true), Stepped::Checked(false)],
            Step::Move(_) if it.receipt.recomputed > 0 => {
                vec![Stepped::Moved, Stepped::Refused(refused())]
            }
            Step::Move(_) => vec![Stepped::Moved, Stepped::Elsewhere, Stepped::Refused(refused())],
            Step::Return(_) => vec![Stepped::Moved, Stepped::Elsewhere],
            Step::Discard => panic!("it merges"),
        };
        for stepped in results {
            let mut after = it.clone();
            record(&mut after.receipt, &next(&it), stepped);
            ways.push(after);
        }
    }
    assert!(ways.is_empty() && ended > 10, "{} ways, {ended} ended", ways.len());
}

#[test]
fn a_person_has_the_branches_deleted_once_the_worktrees_are_gone() {
    let mut it = finish(None);
    (it.request.action, it.request.deletes_branch) = (FinishAction::Discard, true);
    step(&mut it, &Step::Discard, Stepped::Discarded(vec![None, None]));
    step(&mut it, &Step::DeleteBranch(0), Stepped::BranchDeleted(true, Some("tip".to_owned())));
    step(&mut it, &Step::DeleteBranch(1), Stepped::BranchDeleted(false, None));
    assert_eq!(next(&it), Step::End(Ending::Done));
    assert_eq!(it.receipt.repos[1].branch_deleted, Some(false));
}

#[test]
fn a_pull_request_is_made_where_something_was_pushed() {
    let mut it = finish(None);
    it.request.action = FinishAction::CreatePr;
    for repo in &mut it.request.repos {
        repo.push = Some(PushRequest {
            remote: "origin".to_owned(),
            url: "https://h/o/r".to_owned(),
            branch: "b".to_owned(),
            before: None,
            forces: false,
            base: Some("main".to_owned()),
        });
    }
    for at in [0, 1] {
        step(&mut it, &Step::Commit(at), Stepped::Committed("c".to_owned()));
    }
    step(&mut it, &Step::Push(0), Stepped::Pushed(false));
    step(&mut it, &Step::Push(1), Stepped::Pushed(true));
    let made = PullRequest { url: "https://h/o/r/1".to_owned(), number: 1 };
    step(&mut it, &Step::Propose(1), Stepped::Proposed(made));
    assert_eq!(next(&it), Step::End(Ending::Done));
    let mut it = it.clone();
    it.receipt.repos[1].pull_request = None;
    step(&mut it, &Step::Propose(1), Stepped::Refused(refused()));
    assert_eq!(next(&it), Step::End(Ending::Refused(refused())));
}
