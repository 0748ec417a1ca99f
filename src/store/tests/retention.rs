//! What is removed of what a board keeps of settled attempts for other hosts.

use provost_actors::event::Channel;
use provost_actors::host::{HostRole, Registration};
use provost_actors::ids::RepoId;
use provost_actors::journal::{Bundle, Bundles as _, Pushed, TurnBundle};
use provost_actors::log::Mark;
use provost_actors::log::shipped::{Chunk, Shipment, Shipped, ShippedLogs as _};

use super::*;

/// After all that a test does.
const LATER: i64 = i64::MAX / 2;

fn bundle(commit: &str, needs: Option<&str>) -> Bundle {
    Bundle {
        commit_id: commit.into(),
        needs: needs.map(str::to_owned),
        sha256: Some(format!("of {commit}")),
        bytes: 1,
    }
}

#[tokio::test]
async fn a_base_commit_goes_once_nothing_begins_from_it_or_builds_on_it() {
    let store = scratch().await;
    let project = project(&store).await;
    let id = task(&store, project).await;
    let task = store.start_context(id).await.unwrap().task;
    let runs = attempt(&store, project, &task, Phase::Running).await;
    let repo: RepoId = runs.repos[0].repo_id;
    for (commit, needs) in [
        ("first", None),
        ("c0ffee", Some("first")),
        ("unused", Some("first")),
        ("on unused", Some("unused")),
        ("on nothing", Some("gone")),
    ] {
        store.record_base_bundle(repo, &bundle(commit, needs), true).await.unwrap();
    }
    assert_eq!(store.base_bundle(repo, "on nothing").await.unwrap(), None);
    let of_a_remote = bundle("remote", Some("there"));
    store.record_base_bundle(repo, &of_a_remote, false).await.unwrap();
    assert!(store.base_bundle(repo, "remote").await.unwrap().is_some());
    assert_eq!(store.prune_settled(0).await.unwrap(), 0, "all are young");
    assert_eq!(store.prune_settled(LATER).await.unwrap(), 3);
    let mut left = store.base_commits(repo).await.unwrap();
    left.sort_unstable();
    assert_eq!(left, ["c0ffee", "first"], "the attempt runs");
    let sql = "UPDATE attempts SET phase = 'settled'";
    store.write(RetryBudget::Short, "test", async |db| db.run(sql, ()).await).await.unwrap();
    assert_eq!(store.prune_settled(LATER).await.unwrap(), 2);
    assert!(store.base_commits(repo).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_remote_is_to_get_or_to_remove_is_in_the_rows() {
    let store = scratch().await;
    let project = project(&store).await;
    let id = task(&store, project).await;
    let task = store.start_context(id).await.unwrap().task;
    let of = attempt(&store, project, &task, Phase::Running).await.attempt_id;
    let left = async |turn: u32| {
        let snapshot = TurnSnapshot {
            repo: "a".into(),
            commit_id: format!("of{turn}"),
            tree_id: "t".into(),
            base_id: "b".into(),
        };
        let bundle = TurnBundle {
            repo: "a".into(),
            bundle: bundle(&snapshot.commit_id, None),
            pushed: Pushed::Due,
            remote: None,
        };
        store.record_snapshot(of, turn, &[snapshot], &[bundle]).await.unwrap();
    };
    let due = async |remote, again| store.due_pushes(remote, again).await.unwrap();
    left(1).await;
    assert_eq!(due(None, true).await, []);
    assert_eq!(due(Some("upstream"), true).await, [], "no such remote is recorded");
    let first = due(Some("origin"), false).await.pop().unwrap();
    assert_eq!((first.turn, &*first.url, first.pushed), (1, "https://h/o/r", Pushed::Due));
    assert!(store.record_push(&first, Pushed::Failed).await.unwrap());
    assert_eq!(due(Some("origin"), false).await, []);
    assert_eq!(due(Some("origin"), true).await.len(), 1);
    left(2).await;
    assert!(!store.record_push(&first, Pushed::There).await.unwrap(), "there is a newer one");
    let second = due(Some("origin"), false).await.pop().unwrap();
    assert!(store.record_push(&second, Pushed::There).await.unwrap());
    let has = store.turn_bundles(of).await.unwrap().pop().unwrap();
    assert_eq!((has.pushed, has.remote.as_deref()), (Pushed::There, Some("origin")));
    assert_eq!(due(Some("origin"), true).await, []);

    let sql = "UPDATE attempts SET phase = 'settled'";
    store.write(RetryBudget::Short, "test", async |db| db.run(sql, ()).await).await.unwrap();
    store.prune_settled(LATER).await.unwrap();
    assert_eq!(due(None, false).await, [], "it is still to be merged");
    store.remove_project(project).await.unwrap();
    let unwanted = due(None, false).await.pop().unwrap();
    assert_eq!((unwanted.remote.as_str(), unwanted.pushed), ("origin", Pushed::Unwanted));
    store.prune_settled(LATER).await.unwrap();
    assert!(store.record_push(&unwanted, Pushed::Removed).await.unwrap());
    assert_eq!(due(Some("origin"), true).await, []);
}

#[tokio::test]
async fn an_old_copy_is_cut_down_to_its_newest_chunk_and_goes_on_from_there() {
    let store = scratch().await;
    let project = project(&store).await;
    let id = task(&store, project).await;
    let task = store.start_context(id).await.unwrap().task;
    let of = attempt(&store, project, &task, Phase::Running).await.attempt_id;
    let registration = Registration {
        host_id: LOCAL.into(),
        secret: "mine".into(),
        labels: vec![],
        slots: 1,
        memory: 0,
        version: "1".into(),
        role: HostRole::All,
        lease: None,
        fenced_at: None,
    };
    let home = store.register_host(&registration).await.unwrap().secret;
    let copy = async || store.shipped(of, Channel::Raw).await.unwrap();
    let ship = async |before: Option<Shipped>, oldest: u64| {
        let first = before.as_ref().map_or(Mark::default(), Shipped::end);
        let chunk = Chunk::of(first, 2, b"{}\n{}\n").unwrap();
        let shipment = Shipment {
            attempt_id: of,
            channel: Channel::Raw,
            before,
            oldest,
            next: chunk.end(),
            last_activity_at: None,
            chunks: vec![chunk],
        };
        assert_eq!(store.ship(&[shipment]).await.unwrap(), 1);
    };
    for _ in 0..3 {
        ship(copy().await, 0).await;
    }
    assert_eq!(store.prune_settled(LATER).await.unwrap(), 0, "it runs");
    let sql = "UPDATE attempts SET phase = 'settled'";
    store.write(RetryBudget::Short, "test", async |db| db.run(sql, ()).await).await.unwrap();
    for removed in [2, 0] {
        assert_eq!(store.prune_settled(LATER).await.unwrap(), removed);
    }
    let cut = copy().await.unwrap();
    assert_eq!((cut.oldest, cut.next_entry, &cut.home), (4, 6, &home));
    // Its host has the older entries still: the copy does not.
    ship(Some(cut), 0).await;
    let grown = copy().await.unwrap();
    assert_eq!((grown.oldest, grown.next_entry), (4, 8));
    assert_eq!(store.prune_settled(LATER).await.unwrap(), 1, "it has grown");
    assert_eq!(copy().await.unwrap().oldest, 6);
}

#[tokio::test]
async fn a_part_that_is_kept_again_is_not_pruned_before_its_bundle_is_recorded() {
    let store = scratch().await;
    store.keep_part("of it", 0, b"content").await.unwrap();
    // A daemon that was killed before it recorded the bundle comes back after days.
    store.change("UPDATE bundle_parts SET made_at = 1", ()).await;
    store.keep_part("of it", 0, b"content").await.unwrap();
    store.prune().await.unwrap();
    assert_eq!(store.part("of it", 0).await.unwrap().unwrap(), b"content");
}
