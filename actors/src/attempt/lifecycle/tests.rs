use proptest::prelude::*;

use super::*;
use crate::event::Timestamp;

fn exit(code: i32) -> ExitRecord {
    ExitRecord {
        v: 1,
        exit_code: Some(code),
        exit_signal: None,
        reason: None,
        limit: None,
        stopped: None,
        at: Timestamp::from_millis(0),
        stdout_bytes: 0,
        stderr_bytes: 0,
    }
}

fn run(life: &mut Life, inputs: &[LifeEvent]) -> Vec<Effect> {
    inputs.iter().flat_map(|input| life.step(input.clone())).collect()
}

fn started() -> Life {
    let mut life = Life::preparing();
    let effects = run(&mut life, &[LifeEvent::Prepared, LifeEvent::Spawned]);
    assert_eq!(effects, [Effect::Spawn, Effect::Enter(Phase::Running)]);
    life
}

fn settled(effects: &[Effect]) -> Option<&Ending> {
    effects.iter().find_map(|effect| match effect {
        Effect::Settle(ending) => Some(ending),
        _ => None,
    })
}

fn answered(effects: &[Effect]) -> Option<&TurnStopped> {
    effects.iter().find_map(|effect| match effect {
        Effect::Answer(stopped) => Some(stopped),
        _ => None,
    })
}

const SOFT: LifeEvent = LifeEvent::Stop { force: false, by_message: false };
const FORCE: LifeEvent = LifeEvent::Stop { force: true, by_message: false };
const KILLED: LifeEvent = LifeEvent::Killed { signalled: 1, survivors: 0 };

#[test]
fn a_stop_waits_for_the_end_of_a_setup() {
    let mut life = Life::preparing();
    assert!(run(&mut life, &[LifeEvent::SettingUp, SOFT, SOFT, FORCE]).is_empty());
    let effects = run(&mut life, &[LifeEvent::NotStarted("setup: stopped".to_owned())]);
    let ending = settled(&effects).unwrap();
    assert_eq!(ending.reason.as_deref(), Some("setup: stopped"));
    assert_eq!(ending.stopped.as_ref().unwrap().signals, ["SIGTERM", "SIGKILL"]);
    assert!(answered(&effects).unwrap().stopped);
}

#[test]
fn nothing_is_spawned_after_a_setup_that_ended_well_during_a_stop() {
    let mut life = Life::preparing();
    let effects = run(&mut life, &[LifeEvent::SettingUp, SOFT, LifeEvent::Prepared]);
    assert!(settled(&effects).is_some() && !effects.contains(&Effect::Spawn), "{effects:?}");
}

#[test]
fn a_turn_that_ends_by_itself_settles_when_its_log_is_whole() {
    let mut life = started();
    assert_eq!(run(&mut life, &[LifeEvent::Exited(exit(0))]), [Effect::Drain(exit(0))]);
    let effects = run(&mut life, &[LifeEvent::Drained]);
    assert_eq!(settled(&effects).unwrap().exit, Some(exit(0)));
    assert!(!life.is_over(), "its leftovers may be alive");
    run(&mut life, &[LifeEvent::TreeGone]);
    assert!(life.is_over());
}

#[test]
fn a_soft_stop_climbs_the_ladder_and_ends_with_the_whole_tree() {
    let mut life = started();
    let effects = run(&mut life, &[SOFT]);
    assert!(
        effects.contains(&Effect::Interrupt { by_message: false })
            && !effects.contains(&Effect::KillTree)
    );
    assert_eq!(run(&mut life, &[LifeEvent::Timer(Timer::Terminate)]), [Effect::Terminate]);
    assert_eq!(run(&mut life, &[LifeEvent::Timer(Timer::Kill)]), [Effect::KillTree]);
    let effects = run(&mut life, &[KILLED, LifeEvent::Exited(exit(9)), LifeEvent::Drained]);
    let stopped = answered(&effects).unwrap();
    assert!(stopped.stopped);
    assert_eq!(stopped.facts.signals, ["SIGINT", "SIGTERM", "SIGKILL"]);
    assert_eq!(settled(&effects).unwrap().stopped.as_ref(), Some(&stopped.facts));
}

#[test]
fn what_an_obedient_leader_leaves_behind_has_the_rest_of_the_grace() {
    let mut life = started();
    run(&mut life, &[SOFT]);
    let effects = run(&mut life, &[LifeEvent::Exited(exit(130))]);
    assert!(effects.contains(&Effect::Terminate) && !effects.contains(&Effect::KillTree));
    let wait = [LifeEvent::Terminated(1), LifeEvent::Drained, LifeEvent::Timer(Timer::Drain)];
    assert!(settled(&run(&mut life, &wait)).is_none(), "the tree is not gone yet");
    assert_eq!(run(&mut life, &[LifeEvent::Timer(Timer::Kill)]), [Effect::KillTree]);
    let effects = run(&mut life, &[KILLED]);
    assert_eq!(answered(&effects).unwrap().facts.signals, ["SIGINT", "SIGTERM", "SIGKILL"]);
}

#[test]
fn a_soft_stop_is_over_when_nothing_is_left() {
    let mut life = started();
    let effects = run(
        &mut life,
        &[SOFT, LifeEvent::Exited(exit(0)), LifeEvent::TreeGone, LifeEvent::Drained],
    );
    assert_eq!(answered(&effects).unwrap().facts.signals, ["SIGINT"]);
    assert!(life.is_over());
}

#[test]
fn an_executor_that_has_ended_its_turn_is_to_end_too() {
    let mut life = started();
    let effects = run(&mut life, &[LifeEvent::TurnEnded]);
    assert_eq!(effects, [Effect::CloseStdin, Effect::Arm(Timer::Linger)]);
    let effects = run(&mut life, &[LifeEvent::Timer(Timer::Linger)]);
    assert_eq!(effects, [Effect::Dismiss, Effect::Arm(Timer::Outstay)]);
    assert_eq!(run(&mut life, &[LifeEvent::Timer(Timer::Outstay)]), [Effect::KillLeader]);
    let effects = run(&mut life, &[LifeEvent::Exited(exit(9)), LifeEvent::Drained]);
    assert_eq!(settled(&effects).unwrap().stopped, None);
}

#[test]
fn one_that_ends_in_time_is_left_alone() {
    let mut life = started();
    run(&mut life, &[LifeEvent::TurnEnded, LifeEvent::Exited(exit(0))]);
    let late = [LifeEvent::Timer(Timer::Linger), LifeEvent::Timer(Timer::Outstay)];
    assert_eq!(run(&mut life, &late), []);
}

#[test]
fn a_protocols_own_interrupt_goes_before_the_signals() {
    let mut life = started();
    let effects = run(&mut life, &[LifeEvent::Stop { force: false, by_message: true }]);
    assert!(effects.contains(&Effect::Interrupt { by_message: true }));
    assert_eq!(run(&mut life, &[LifeEvent::TurnEnded]), [Effect::CloseStdin]);
    let effects =
        run(&mut life, &[LifeEvent::Exited(exit(0)), LifeEvent::TreeGone, LifeEvent::Drained]);
    assert_eq!(answered(&effects).unwrap().facts.signals, ["interrupt"]);
}

#[test]
fn force_cuts_the_grace_short() {
    let mut life = started();
    run(&mut life, &[SOFT, LifeEvent::Exited(exit(0))]);
    assert_eq!(run(&mut life, &[FORCE]), [Effect::KillTree]);
}

#[test]
fn a_tree_that_is_gone_before_it_could_be_killed_has_no_survivors() {
    let mut life = started();
    let effects = run(&mut life, &[SOFT, LifeEvent::Exited(exit(130)), LifeEvent::TreeGone]);
    assert!(answered(&effects).is_none());
    let effects = run(&mut life, &[LifeEvent::Drained]);
    assert_eq!(answered(&effects).unwrap().survivors, 0);
    assert!(life.is_over());
    let late = LifeEvent::Killed { signalled: 0, survivors: 1 };
    assert_eq!(run(&mut life, &[late]), []);
}

#[test]
fn force_kills_at_once_also_during_a_soft_stop() {
    let mut life = started();
    assert_eq!(run(&mut life, &[FORCE]), [Effect::KillTree, Effect::Enter(Phase::Stopping)]);
    let mut life = started();
    run(&mut life, &[SOFT]);
    assert_eq!(run(&mut life, &[FORCE]), [Effect::KillTree]);
}

#[test]
fn a_flooded_log_delays_a_stop_only_for_its_grace() {
    let mut life = started();
    let effects = run(&mut life, &[FORCE, KILLED, LifeEvent::Exited(exit(9))]);
    assert!(effects.contains(&Effect::Arm(Timer::Drain)));
    assert!(settled(&effects).is_none());
    let effects = run(&mut life, &[LifeEvent::Timer(Timer::Drain)]);
    assert!(settled(&effects).is_some() && answered(&effects).is_some());
    assert_eq!(run(&mut life, &[LifeEvent::Drained]), []);
}

#[test]
fn stop_requests_are_idempotent() {
    let mut life = started();
    run(&mut life, &[SOFT]);
    assert_eq!(run(&mut life, &[SOFT, SOFT]), []);
}

#[test]
fn a_stop_before_the_process_started_settles_without_one() {
    let mut life = Life::preparing();
    let effects = run(&mut life, &[SOFT]);
    assert!(answered(&effects).unwrap().stopped);
    assert_eq!(run(&mut life, &[LifeEvent::Prepared]), [], "nothing is spawned any more");
    assert!(life.is_over());
}

#[test]
fn a_stop_while_the_process_is_being_started_waits_for_it() {
    let mut life = Life::preparing();
    run(&mut life, &[LifeEvent::Prepared]);
    assert_eq!(run(&mut life, &[FORCE]), []);
    assert!(run(&mut life, &[LifeEvent::Spawned]).contains(&Effect::KillTree));
}

#[test]
fn stopping_a_settled_attempt_kills_what_it_left_behind_and_says_nothing_was_running() {
    let mut life = started();
    run(&mut life, &[LifeEvent::Exited(exit(0)), LifeEvent::Drained]);
    assert_eq!(
        run(&mut life, &[SOFT]),
        [Effect::KillTree, Effect::Arm(Timer::Drain)],
        "no ladder: the leader is gone"
    );
    let effects = run(&mut life, &[KILLED]);
    assert!(settled(&effects).is_none());
    let stopped = answered(&effects).unwrap();
    assert!(!stopped.stopped);
    assert_eq!(stopped.facts.signals, ["SIGKILL"]);
}

#[test]
fn a_leader_that_can_not_be_killed_is_said_and_another_stop_tries_again() {
    let mut life = started();
    let killed = LifeEvent::Killed { signalled: 1, survivors: 1 };
    let effects = run(&mut life, &[FORCE, killed, LifeEvent::Timer(Timer::Drain)]);
    let stopped = answered(&effects).unwrap();
    assert!(!stopped.stopped && stopped.survivors == 1);
    assert!(run(&mut life, &[FORCE]).contains(&Effect::KillTree));
}

#[test]
fn what_a_stop_does_to_processes_comes_before_its_row() {
    for stop in [SOFT, FORCE] {
        let effects = run(&mut started(), &[stop]);
        assert_eq!(effects.last(), Some(&Effect::Enter(Phase::Stopping)));
    }
}

#[test]
fn a_stop_is_answered_though_the_disk_takes_no_record_of_the_end() {
    let stalled = LifeEvent::Stalled(true);
    for inputs in [[FORCE, KILLED, stalled.clone()], [stalled, FORCE, KILLED]] {
        let mut life = started();
        let effects = run(&mut life, &inputs);
        let stopped = answered(&effects).unwrap();
        assert!(stopped.stopped && stopped.survivors == 0);
        assert!(settled(&effects).is_none());
        let again = run(&mut life, &[SOFT]);
        assert!(!answered(&again).unwrap().stopped, "nothing was left to stop");
        let effects = run(&mut life, &[LifeEvent::Stalled(false), LifeEvent::Exited(exit(9))]);
        assert_eq!(effects, [Effect::Drain(exit(9))]);
        assert!(settled(&run(&mut life, &[LifeEvent::Drained])).is_some());
    }
}

#[test]
fn a_record_that_is_only_slow_is_waited_for() {
    let mut life = started();
    let effects = run(&mut life, &[FORCE, KILLED, LifeEvent::Timer(Timer::Drain)]);
    assert!(answered(&effects).is_none());
}

#[test]
fn what_can_not_start_settles_with_the_reason() {
    let mut life = Life::preparing();
    let effects = run(&mut life, &[LifeEvent::NotStarted("no git".into())]);
    assert_eq!(settled(&effects).unwrap().reason.as_deref(), Some("no git"));
    assert!(life.is_over());
}

#[test]
fn a_survivor_that_is_not_the_leader_does_not_hide_that_the_leader_was_stopped() {
    let mut life = started();
    let killed = LifeEvent::Killed { signalled: 2, survivors: 1 };
    let effects = run(&mut life, &[FORCE, killed, LifeEvent::Exited(exit(9)), LifeEvent::Drained]);
    let stopped = answered(&effects).unwrap();
    assert!(stopped.stopped && stopped.survivors == 1);
    assert!(settled(&effects).unwrap().stopped.is_some());
}

#[test]
fn a_second_stop_while_the_log_is_taken_in_does_not_undo_the_first() {
    let mut life = started();
    let effects =
        run(&mut life, &[FORCE, KILLED, LifeEvent::Exited(exit(9)), SOFT, LifeEvent::Drained]);
    assert!(answered(&effects).unwrap().stopped);
    assert!(settled(&effects).unwrap().stopped.is_some());
}

#[test]
fn a_stop_that_was_obeyed_while_no_daemon_ran_is_remembered() {
    let mut life = Life::stopping();
    let effects =
        run(&mut life, &[LifeEvent::Exited(exit(130)), LifeEvent::TreeGone, LifeEvent::Drained]);
    assert!(settled(&effects).unwrap().stopped.is_some());
    assert!(life.is_over());
}

#[test]
fn a_settled_turn_whose_end_is_reported_again_still_takes_in_its_log() {
    let mut life = Life::settled();
    assert_eq!(run(&mut life, &[LifeEvent::Exited(exit(0))]), [Effect::Drain(exit(0))]);
}

fn any_input() -> impl Strategy<Value = LifeEvent> {
    prop_oneof![
        Just(LifeEvent::SettingUp),
        Just(LifeEvent::Prepared),
        Just(LifeEvent::NotStarted("reason".into())),
        Just(LifeEvent::Spawned),
        Just(LifeEvent::Exited(exit(1))),
        Just(LifeEvent::Drained),
        any::<(bool, bool)>().prop_map(|(force, by_message)| LifeEvent::Stop { force, by_message }),
        Just(LifeEvent::TurnEnded),
        Just(LifeEvent::Timer(Timer::Linger)),
        Just(LifeEvent::Timer(Timer::Outstay)),
        Just(LifeEvent::Timer(Timer::Terminate)),
        Just(LifeEvent::Timer(Timer::Kill)),
        Just(LifeEvent::Timer(Timer::Drain)),
        (0u32..3, 0u32..2)
            .prop_map(|(signalled, survivors)| LifeEvent::Killed { signalled, survivors }),
        (0u32..2).prop_map(LifeEvent::Terminated),
        Just(LifeEvent::TreeGone),
        any::<bool>().prop_map(LifeEvent::Stalled),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_a_turn_settles_at_most_once_and_every_stop_is_answered_at_most_once(
        inputs in prop::collection::vec(any_input(), 0..40),
    ) {
        let mut life = Life::preparing();
        let (mut settled, mut asked) = (0, false);
        for input in inputs {
            asked |= matches!(input, LifeEvent::Stop { .. });
            for effect in life.step(input) {
                match effect {
                    Effect::Settle(_) => settled += 1,
                    Effect::Answer(_) => prop_assert!(std::mem::take(&mut asked)),
                    _ => {}
                }
            }
        }
        prop_assert!(settled <= 1);
    }

    #[test]
    fn however_far_a_turn_has_come_a_forced_stop_is_answered_once_its_tree_is_dead(
        inputs in prop::collection::vec(any_input(), 0..20),
    ) {
        let mut life = Life::preparing();
        run(&mut life, &inputs);
        let mut effects = run(&mut life, &[FORCE]);
        // What the world then does, in the order in which it does it.
        effects.extend(run(&mut life, &[
            LifeEvent::Prepared, LifeEvent::Spawned, KILLED, LifeEvent::Exited(exit(9)), KILLED, LifeEvent::Drained,
        ]));
        prop_assert!(answered(&effects).is_some());
    }
}
