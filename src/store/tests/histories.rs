//! What is on record of the work of attempts, and of those that they were forked from.

use provost_actors::journal::{Fork, MergeReceipt, TargetState};
use provost_actors::workspace::parting::{History, Landing};

use super::*;

/// Has the attempt's work be merged, and another merge fail before anything was computed.
async fn lands(store: &Store, attempt: &Attempt, commit: &str) -> Landing {
    let [before, result] = ["before", "after"].map(|it| format!("{it} {commit}"));
    for is_computed in [true, false] {
        let mut finish = merge_of(attempt);
        store.record_finish(None, &finish).await.unwrap();
        finish.receipt.repos[0].commit = Some(commit.to_owned());
        finish.receipt.repos[0].merged = is_computed.then(|| MergeReceipt {
            old: before.clone(),
            new: result.clone(),
            tree: None,
            place: TargetState::New,
        });
        finish.state = FinishState::Done;
        store.end_finish(&finish).await.unwrap();
    }
    Landing { commit: commit.to_owned(), branch: "main".to_owned(), before, result }
}

#[tokio::test]
async fn a_fork_has_the_history_of_its_source() {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let source = attempt(&store, project, &of, Phase::Settled).await;
    let repos = store.repos(project).await.unwrap();
    let mut fork = new_attempt(&repos[0], project, &of, Phase::Settled);
    fork.fork = Some(Fork { attempt_id: source.attempt_id, turn: 1 });
    fork.repos[0].base_commit = "f0".into();
    store.record_start(None, &fork, &started(&fork)).await.unwrap();
    let first = lands(&store, &source, "first").await;
    let second = lands(&store, &source, "second").await;
    let own = lands(&store, &fork, "own").await;

    let ids = [source.attempt_id, fork.attempt_id];
    let mut found = store.histories(&ids).await.unwrap();
    let mut of = |attempt: &Attempt| {
        found.remove(&(attempt.attempt_id, attempt.repos[0].board_path.clone())).unwrap()
    };
    let (begun, landings) = (Some("c0ffee".to_owned()), vec![second, first]);
    let inherited = vec![landings.clone()];
    assert_eq!(of(&source), History { begun: begun.clone(), landings, ..History::default() });
    assert_eq!(of(&fork), History { begun, landings: vec![own], inherited });
    assert!(store.histories(&[AttemptId::new()]).await.unwrap().is_empty());
}
