//! What a daemon takes up by itself is its own host's.

use provost_actors::ids::QuestionId;
use provost_actors::journal::{
    Consultations as _, Deliveries as _, Probe, Probes as _, Provisions as _, Snapshots as _,
    TurnSnapshot,
};

use super::*;
use crate::api::placed::Subject;
use crate::store::read_cache::Kept;

async fn run(store: &Store, sql: &'static str, values: impl Serialize) {
    let work = async |db: Db<'_>| db.run(sql, values).await;
    store.write(RetryBudget::Short, "test", work).await.unwrap();
}

struct Two {
    store: Scratch,
    /// Of each host: its view of the store, and its attempt.
    hosts: [(Store, Attempt); 2],
    project: ProjectId,
    task: TaskId,
}

/// A board with an attempt on `local`, which is this host, and one on `b`.
async fn two(phase: Phase) -> Two {
    let store = scratch().await;
    let project = project(&store).await;
    let of = store.start_context(task(&store, project).await).await.unwrap().task;
    let mine = attempt(&store, project, &of, phase).await;
    let theirs = attempt(&store, project, &of, phase).await;
    let sql = "UPDATE attempts SET host = 'b' WHERE attempt_id = $1";
    run(&store, sql, (theirs.attempt_id,)).await;
    // Another daemon, which keeps its own answers.
    let b = Store { host: "b".into(), kept: Kept::default(), ..store.store.clone() };
    let hosts = [(store.store.clone(), mine), (b, theirs)];
    Two { store, hosts, project, task: of.task_id }
}

#[tokio::test]
async fn each_host_takes_up_its_own_attempts_intents_and_ports() {
    let Two { store: _store, hosts, .. } = two(Phase::Queued).await;
    for (number, (store, own)) in hosts.iter().enumerate() {
        let unsettled = store.unsettled().await.unwrap();
        let ids: Vec<_> = unsettled.iter().map(|it| it.attempt_id).collect();
        assert_eq!(ids, [own.attempt_id]);
        let stop = Intent::StopAttempt { attempt_id: own.attempt_id, force: false };
        store.begin(&key(&format!("stop {number}"), "x"), &stop).await.unwrap();
        let blocks: Vec<u16> = (0..3).map(|block| 24000 + block * 10).collect();
        store.take_ports(own.attempt_id, &blocks, &[]).await.unwrap().unwrap();
    }
    // Of an attempt that is not there: its caller gets an error for it.
    hosts[0].0.begin(&key("unknown", "x"), &stop()).await.unwrap();
    for (store, own) in &hosts {
        let intents = store.open_intents().await.unwrap();
        let own_stop = Intent::StopAttempt { attempt_id: own.attempt_id, force: false };
        assert_eq!(intents.len(), 2, "{intents:?}");
        assert!(intents.iter().any(|it| it.1 == own_stop), "{intents:?}");
        assert_eq!(store.port_holders().await.unwrap(), [own.attempt_id]);
        let folders =
            store.worktree_folders(&hosts.each_ref().map(|it| it.1.attempt_id)).await.unwrap();
        assert_eq!(folders.len(), 1, "{folders:?}");
        assert_eq!(folders[0].0, own.attempt_id);
    }
}

#[tokio::test]
async fn each_host_resumes_its_own_and_takes_up_its_own_dev_servers() {
    let Two { store, hosts, .. } = two(Phase::Settled).await;
    run(&store, "UPDATE processes SET quota = 'auto', resume_at = 5", ()).await;
    for (store, own) in &hosts {
        let resumable = store.resumable().await.unwrap();
        assert_eq!(resumable.iter().map(|it| it.0).collect::<Vec<_>>(), [own.attempt_id]);
    }
    run(&store, "UPDATE processes SET run_reason = 'dev_server', ended_at = NULL", ()).await;
    for (store, own) in &hosts {
        let servers = store.open_dev_servers().await.unwrap();
        assert_eq!(servers.iter().map(|it| it.0).collect::<Vec<_>>(), [own.attempt_id]);
    }
}

#[tokio::test]
async fn each_host_runs_the_checks_whose_repositories_it_has() {
    let Two { store: _store, hosts, task, .. } = two(Phase::Settled).await;
    let mut runs = Vec::new();
    for (store, own) in &hosts {
        let finish = merge_of(own);
        store.record_finish(None, &finish).await.unwrap();
        let check = PlannedCheck {
            repo: None,
            work_of: None,
            given: None,
            name: "test".to_owned(),
            command: CheckCommand::Line("true".to_owned()),
            process_id: ProcessId::new(),
        };
        let submission = Submission {
            host: store.host.to_string(),
            run_id: CheckRunId::new(),
            attempt_id: Some(own.attempt_id),
            repos: vec![],
            is_empty_diff: None,
            checks: vec![check],
        };
        store.plan_finish_checks(&finish, task, &submission).await.unwrap();
        runs.push(submission.run_id);
    }
    for ((store, own), run) in hosts.iter().zip(&runs) {
        let open = store.open_checks().await.unwrap();
        assert_eq!(open.iter().map(|it| it.run_id).collect::<Vec<_>>(), [*run]);
        // Its finish is open: only its own host takes it up.
        let unsettled = store.unsettled().await.unwrap();
        assert_eq!(unsettled.iter().map(|it| it.attempt_id).collect::<Vec<_>>(), [own.attempt_id]);
    }
}

#[tokio::test]
async fn each_host_looks_for_conflicts_among_its_own_attempts() {
    let Two { store: _store, hosts, .. } = two(Phase::Settled).await;
    let ids = hosts.each_ref().map(|it| it.1.attempt_id);
    for (store, own) in &hosts {
        let snapshot = TurnSnapshot {
            repo: "a".to_owned(),
            commit_id: "c".to_owned(),
            tree_id: "t".to_owned(),
            base_id: "b".to_owned(),
        };
        store.record_snapshot(own.attempt_id, 1, &[snapshot], &[]).await.unwrap();
        let probe = Probe {
            repo: "/src/a".to_owned(),
            rival: None,
            commit_id: "c".to_owned(),
            rival_commit: "m".to_owned(),
            tree_id: "t".to_owned(),
            paths: vec!["x".to_owned()],
        };
        store.record_probes(own.attempt_id, &[probe]).await.unwrap();
    }
    for (store, own) in &hosts {
        let contests = store.contests(&ids).await.unwrap();
        assert_eq!(contests.iter().map(|it| it.attempt_id).collect::<Vec<_>>(), [own.attempt_id]);
        assert_eq!(contests[0].rivals, []);
        let found = store.in_conflict().await.unwrap();
        assert_eq!(found.iter().map(|it| it.attempt_id).collect::<Vec<_>>(), [own.attempt_id]);
        let open = store.contestants().await.unwrap();
        assert_eq!(open.iter().map(|it| it.0).collect::<Vec<_>>(), [own.attempt_id]);
        let far = Timestamp::now().plus(Duration::from_mins(1));
        let old = store.old_snapshots(far, None).await.unwrap();
        assert_eq!(old.iter().map(|it| it.0).collect::<Vec<_>>(), [own.attempt_id]);
    }
}

#[tokio::test]
async fn each_host_delivers_answers_to_its_own_askers_and_has_its_own_questions_answered() {
    let Two { store, hosts, project, task } = two(Phase::Settled).await;
    let sql = "INSERT INTO questions (question_id, project_id, handle, question, normal, priority,
                   status, answer, answered_by, asked_at, answered_at, answer_task, host)
         VALUES ($1, $2, $3, 'why', $3, 'high', $4, 'so', 'person', 1, 2, $5, $6)";
    let asked = QuestionId::new();
    let values = (asked, project, "Q-001", "answered", None::<TaskId>, "local");
    run(&store, sql, values).await;
    for (_, own) in &hosts {
        let sql = "INSERT INTO question_askers (question_id, agent, attempt_id, delivery)
             VALUES ($1, $2, $2, 'due')";
        run(&store, sql, (asked, own.attempt_id)).await;
    }
    for (store, own) in &hosts {
        assert_eq!(store.undelivered_questions().await.unwrap(), [asked]);
        let (now, later) = store.answers_to_send(asked).await.unwrap();
        let to: Vec<_> = now.iter().map(|it| it.attempt_id).collect();
        assert_eq!((to, later), (vec![own.attempt_id], None));
        store.answer_sent(asked, own.attempt_id, true).await.unwrap();
        assert_eq!(store.undelivered_questions().await.unwrap(), []);
    }
    // A question that no attempt answers yet belongs to the host that took the call.
    for (host, handle) in [("local", "Q-002"), ("b", "Q-003")] {
        let of = self::task(&store, project).await;
        run(&store, sql, (QuestionId::new(), project, handle, "open", of, host)).await;
    }
    let answering = QuestionId::new();
    run(&store, sql, (answering, project, "Q-004", "open", task, "local")).await;
    let mine = hosts[0].0.consultations().await.unwrap();
    let theirs = hosts[1].0.consultations().await.unwrap();
    assert_eq!((mine.len(), theirs.len()), (1, 2));
    assert!(theirs.contains(&answering), "its newest attempt is on b");
}

#[tokio::test]
async fn what_a_call_is_about_is_on_the_host_of_its_attempt() {
    let Two { store, hosts, .. } = two(Phase::Settled).await;
    for ((_, own), host) in hosts.iter().zip(["local", "b"]) {
        let (attempt, session) = (own.attempt_id.to_string(), own.session_id.to_string());
        for about in [Subject::Attempt(&attempt), Subject::Session(&session)] {
            let found = store.host_of(about).await.unwrap();
            assert_eq!(found, Some((host.to_owned(), Some(own.attempt_id))));
        }
    }
    let unknown = AttemptId::new().to_string();
    for about in [
        Subject::Attempt(&unknown),
        Subject::Session(&unknown),
        Subject::Approval(&unknown),
        Subject::ChecksOf(&unknown),
    ] {
        assert_eq!(store.host_of(about).await.unwrap(), None);
    }
}

#[tokio::test]
async fn work_for_an_attempt_of_another_host_is_applied_there_unless_it_is_taken_back_before() {
    let Two { store, hosts, .. } = two(Phase::Settled).await;
    let [(a, source), (b, onto)] = &hosts;
    let sql = "INSERT INTO hosts (host_id, incarnation, labels, slots, memory, version, state,
                                  registered_at, renewed_at)
         VALUES ('b', 1, '[]', 1, 1, '1', 'active', 1, 1)";
    run(&store, sql, ()).await;
    let applying = async || {
        let mut finish = merge_of(source);
        finish.request.onto = Some(onto.attempt_id);
        a.record_finish(None, &finish).await.unwrap();
        finish
    };
    let lends = async || b.attempt(onto.attempt_id).await.unwrap().unwrap().lends;
    let mut finish = applying().await;
    let id = finish.finish_id;
    assert_eq!(a.host_of_target(onto.attempt_id).await.unwrap().as_deref(), Some("b"));
    assert_eq!(a.to_apply().await.unwrap(), []);
    assert_eq!(b.to_apply().await.unwrap().len(), 1);
    assert!(!a.begin_applying(id).await.unwrap(), "the attempt is not there");
    assert_eq!(lends().await, None);
    assert!(b.begin_applying(id).await.unwrap() && b.begin_applying(id).await.unwrap());
    assert_eq!(lends().await, Some(id), "no turn begins before that goes on");
    assert!(!a.take_back(id).await.unwrap());
    finish.receipt.repos[0].commit = Some("beef".to_owned());
    b.end_applying(&finish).await.unwrap();
    let found = a.finish(id).await.unwrap().unwrap();
    assert_eq!((&found.receipt, found.state), (&finish.receipt, FinishState::Open));
    assert!(found.applied_at.is_some() && found.applied_by.as_deref() == Some("b"));
    assert_eq!((lends().await, b.to_apply().await.unwrap().len()), (None, 0));
    assert!(!a.take_back(id).await.unwrap(), "it is done");
    finish.state = FinishState::Done;
    a.end_finish(&finish).await.unwrap();

    let finish = applying().await;
    assert!(a.take_back(finish.finish_id).await.unwrap());
    assert!(!b.begin_applying(finish.finish_id).await.unwrap());
    assert_eq!(b.to_apply().await.unwrap(), []);
    a.end_finish(&Finish { state: FinishState::Refused, ..finish }).await.unwrap();
    // A host that is forgotten does not come back for it.
    let finish = applying().await;
    assert!(b.begin_applying(finish.finish_id).await.unwrap());
    run(&store, "DELETE FROM hosts WHERE host_id = 'b'", ()).await;
    assert!(a.take_back(finish.finish_id).await.unwrap());
}
