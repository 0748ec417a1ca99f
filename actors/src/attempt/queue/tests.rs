use proptest::prelude::*;

use super::*;
use crate::event::Timestamp;

fn follow_up(prompt: &str) -> FollowUp {
    FollowUp {
        queue_id: QueueId::new(),
        prompt: prompt.to_owned(),
        variant: None,
        queued_at: Timestamp::from_millis(0),
    }
}

fn begun(step: Result<Step, Refusal>) -> Option<String> {
    step.unwrap().begin.map(|it| it.prompt)
}

#[test]
fn a_send_runs_at_once_and_is_refused_while_a_turn_runs() {
    let mut queue = Queue::default();
    assert_eq!(begun(queue.step(QueueEvent::Send(follow_up("a")))).as_deref(), Some("a"));
    let refusal = queue.step(QueueEvent::Send(follow_up("b"))).unwrap_err();
    assert_eq!(refusal.code, Code::TurnActive);
    assert_eq!(begun(queue.step(QueueEvent::TurnEnded)), None);
    assert!(!queue.active);
}

#[test]
fn a_queued_prompt_runs_at_once_when_idle_and_leaves_no_row() {
    let mut queue = Queue::default();
    let step = queue.step(QueueEvent::Queue(follow_up("a"))).unwrap();
    assert_eq!((step.added, step.taken), (None, vec![]));
    assert_eq!(step.begin.unwrap().prompt, "a");
}

#[test]
fn a_stop_holds_what_waits_until_the_next_send_or_queue() {
    let mut queue = Queue::new(true, vec![follow_up("a")], false);
    queue.step(QueueEvent::Stop).unwrap();
    assert_eq!(begun(queue.step(QueueEvent::TurnEnded)), None);
    assert!(queue.held);
    let mut sent = queue.clone();
    assert_eq!(begun(sent.step(QueueEvent::Send(follow_up("now")))).as_deref(), Some("now"));
    assert_eq!(begun(sent.step(QueueEvent::TurnEnded)).as_deref(), Some("a"));
    assert_eq!(begun(queue.step(QueueEvent::Queue(follow_up("b")))).as_deref(), Some("a"));
    assert_eq!(begun(queue.step(QueueEvent::TurnEnded)).as_deref(), Some("b"));
}

#[test]
fn no_more_wait_than_may_but_a_full_queue_that_is_held_can_be_let_go_on() {
    let mut queue = Queue::new(true, vec![follow_up("x"); WAITING_MAX], false);
    let refusal = queue.step(QueueEvent::Queue(follow_up("y"))).unwrap_err();
    assert_eq!(refusal.code, Code::RateLimited);
    let mut queue = Queue::new(false, vec![follow_up("x"); WAITING_MAX], true);
    assert_eq!(begun(queue.step(QueueEvent::Queue(follow_up("y")))).as_deref(), Some("x"));
    assert_eq!(queue.waiting.len(), WAITING_MAX);
}

/// The rules as the outside behaviour tells them, as plainly as can be: a list
/// of what was asked, and where reading it has come to.
#[derive(Default)]
struct Reference {
    running: bool,
    line: Vec<String>,
    held: bool,
    ran: Vec<String>,
}

impl Reference {
    fn run(&mut self, prompt: String) {
        self.running = true;
        self.ran.push(prompt);
    }

    fn go_on(&mut self) {
        if !self.running && !self.held && !self.line.is_empty() {
            let first = self.line.remove(0);
            self.run(first);
        }
    }

    fn apply(&mut self, action: Action, prompt: String) {
        match action {
            Action::Send if self.running => {}
            Action::Send => {
                self.held = false;
                self.run(prompt);
            }
            Action::Queue => {
                self.held = false;
                self.line.push(prompt);
                self.go_on();
            }
            Action::Cancel => {
                self.line.clear();
                self.held = false;
            }
            Action::Stop => self.held = self.held || self.running,
            Action::Unqueue => {
                self.running = false;
                self.held = true;
                let prompt = self.ran.pop().unwrap();
                self.line.insert(0, prompt);
            }
            Action::TurnEnds => {
                self.running = false;
                self.go_on();
            }
            Action::Crash | Action::CrashBeforeWriting => {}
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Send,
    Queue,
    Cancel,
    Stop,
    /// A stop while the turn waits for its slot.
    Unqueue,
    TurnEnds,
    /// Everything in memory is gone; what is on file is not.
    Crash,
    /// The next action is decided and not written down.
    CrashBeforeWriting,
}

/// The rows.
#[derive(Clone, Default)]
struct OnFile {
    active: bool,
    rows: Vec<FollowUp>,
    held: bool,
    ran: Vec<String>,
}

impl OnFile {
    fn write(&mut self, step: Step, queue: &Queue) {
        self.rows.extend(step.added);
        if let Some(returned) = step.returned {
            self.ran.pop();
            self.rows.insert(0, returned);
        }
        self.rows.retain(|row| !step.taken.contains(&row.queue_id));
        self.held = queue.held;
        self.active = queue.active;
        self.ran.extend(step.begin.map(|it| it.prompt));
    }
}

proptest! {
    #[test]
    fn every_prompt_runs_once_in_order_and_alone_whatever_happens(
        actions in prop::collection::vec(
            prop::sample::select(vec![
                Action::Send, Action::Queue, Action::Queue, Action::Queue, Action::Cancel,
                Action::Stop, Action::Unqueue, Action::TurnEnds, Action::TurnEnds, Action::Crash,
                Action::CrashBeforeWriting,
            ]),
            1..80,
        ),
    ) {
        let mut reference = Reference::default();
        let mut file = OnFile::default();
        let mut queue = Queue::default();
        let mut is_lost = false;
        for (number, action) in actions.into_iter().enumerate() {
            let prompt = number.to_string();
            let input = match action {
                Action::Send => QueueEvent::Send(follow_up(&prompt)),
                Action::Queue => QueueEvent::Queue(follow_up(&prompt)),
                Action::Cancel => QueueEvent::Cancel,
                Action::Stop => QueueEvent::Stop,
                Action::TurnEnds | Action::Unqueue if !queue.active => continue,
                Action::Unqueue => {
                    QueueEvent::Unqueued(reference.ran.last().map(|prompt| follow_up(prompt)))
                }
                Action::TurnEnds => QueueEvent::TurnEnded,
                Action::Crash => {
                    queue = Queue::new(file.active, file.rows.clone(), file.held);
                    continue;
                }
                Action::CrashBeforeWriting => {
                    is_lost = true;
                    continue;
                }
            };
            let before = queue.clone();
            let stepped = queue.step(input);
            if std::mem::take(&mut is_lost) {
                queue = Queue::new(file.active, file.rows.clone(), file.held);
                prop_assert_eq!(&queue, &before);
                continue;
            }
            reference.apply(action, prompt);
            if let Ok(step) = stepped {
                file.write(step, &queue);
            } else {
                prop_assert_eq!(&queue, &before);
            }
            prop_assert_eq!(&file.ran, &reference.ran);
            prop_assert_eq!(queue.active, reference.running);
            prop_assert_eq!(queue.held, reference.held);
            let waiting: Vec<_> = queue.waiting.iter().map(|it| it.prompt.clone()).collect();
            let rows: Vec<_> = file.rows.iter().map(|it| it.prompt.clone()).collect();
            prop_assert_eq!(&waiting, &reference.line);
            prop_assert_eq!(&rows, &reference.line);
        }
    }
}
