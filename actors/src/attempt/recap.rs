//! The prompt of a session that begins without the executor's memory of the attempt: it repeats the task
//! and earlier turns. Pure.

use crate::event::ProcessStatus;
use crate::journal::Past;
use crate::text::cut;

/// The longest repetition of the first prompt, and of any other text, in characters.
const TASK_MAX: usize = 8000;
const TEXT_MAX: usize = 2000;
/// How many bytes all turns but the first may have together; the oldest of them are left out.
const TURNS_MAX: usize = 16 * 1024;

/// What the first prompt of a process builds on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// What the executor knows by itself, which may be nothing: the prompt is as it was given.
    Own,
    /// A summary of earlier turns: this prompt begins with it.
    Recap(String),
    /// The last snapshot, because the host of the turn before was lost: this prompt says so.
    Moved(String),
    /// A copy of the executor's session with this id, which is another attempt's.
    Fork(String),
}

impl Beginning {
    /// The entry of the log before the prompt, which tells a person why the prompt is not as it was given.
    pub fn notice(&self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Recap(_) => Some(
                "the agent has no session that it could resume: a new one begins, and the prompt \
                 repeats the task and what was done so far",
            ),
            Self::Moved(_) => Some(
                "the host of the turn before was lost: this one begins anew on another, with the \
                 same prompt",
            ),
            Self::Fork(_) => Some(
                "the attempt begins from a turn of another one, in a copy of the agent's own \
                 session",
            ),
        }
    }
}

/// Which files an attempt has after its host was lost.
const KEPT: &str = "the machine of the last turn was lost, so the files are as the last snapshot \
                    before has them, and what was done after it is gone";

/// Whether the host was lost in the last turn.
pub fn is_moved(past: &[Past]) -> bool {
    past.last().is_some_and(|last| last.lost_host.is_some())
}

/// The prompt after a summary of the `past` turns, oldest first. If no turn is worth a summary, the prompt is
/// as it was given, except for a sentence about a lost host.
pub fn prompt(past: &[Past], prompt: &str) -> String {
    let all = past;
    // The last turns that failed without a message and had this very prompt are left out.
    let is_again = |past: &Past| past.final_message.is_none() && past.prompt == prompt;
    let last = past.iter().rposition(|past| !is_again(past)).map_or(0, |last| last + 1);
    let Some((first, later)) = past[..last].split_first() else {
        return if is_moved(all) {
            format!("This prompt was begun before: {KEPT}.\n\n{prompt}")
        } else {
            prompt.to_owned()
        };
    };
    let mut turns: Vec<String> = Vec::new();
    let mut room = TURNS_MAX;
    for turn in later.iter().rev().map(|past| summary(past, TEXT_MAX)) {
        if turn.len() > room {
            break;
        }
        room -= turn.len();
        turns.push(turn);
    }
    let left_out = later.len() - turns.len();
    if left_out > 0 {
        turns.push(format!("({left_out} turns are left out.)"));
    }
    turns.push(summary(first, TASK_MAX));
    turns.reverse();
    format!(
        "You go on with work that was begun in a session that is not available. This is what \
         Provost recorded of it, oldest first; {}.\n\n{}\n\nThe prompt now:\n{prompt}",
        if is_moved(all) { KEPT } else { "the files are as that work left them" },
        turns.join("\n\n")
    )
}

/// One turn: its prompt, at most so many characters of it, its last message, and how it ended.
fn summary(past: &Past, most: usize) -> String {
    let Past { turn, prompt, final_message, status, lost_host } = past;
    let prompt = cut(prompt.clone(), most);
    let how = match status {
        _ if lost_host.is_some() => "its machine was lost",
        ProcessStatus::Completed => "it completed",
        ProcessStatus::Killed => "it was stopped",
        _ => "it failed",
    };
    match final_message {
        Some(said) => {
            let said = cut(said.clone(), TEXT_MAX);
            format!("Prompt {turn}:\n{prompt}\nYour last message ({how}):\n{said}")
        }
        None => format!("Prompt {turn}:\n{prompt}\nYou left no message ({how})."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(turn: u32, prompt: &str, said: Option<&str>) -> Past {
        let (prompt, final_message) = (prompt.to_owned(), said.map(str::to_owned));
        Past { turn, prompt, final_message, status: ProcessStatus::Completed, lost_host: None }
    }

    #[test]
    fn an_agent_learns_what_the_loss_of_its_machine_has_cost() {
        let lost = |turn, prompt| Past {
            status: ProcessStatus::Killed,
            lost_host: Some("a".to_owned()),
            ..past(turn, prompt, None)
        };
        let again = prompt(&[lost(1, "do it")], "do it");
        assert!(again.starts_with("This prompt was begun before: the machine"), "{again}");
        assert!(again.ends_with("after it is gone.\n\ndo it"), "{again}");
        let turns = [past(1, "build it", Some("built")), lost(2, "test it")];
        let recap = prompt(&turns, "test it");
        assert!(recap.contains("oldest first; the machine of the last turn was lost"), "{recap}");
        assert!(recap.contains("built") && recap.ends_with("now:\ntest it"), "{recap}");
    }

    #[test]
    fn a_first_prompt_is_given_as_it_is() {
        assert_eq!(prompt(&[], "do it"), "do it");
        assert_eq!(prompt(&[past(1, "do it", None)], "do it"), "do it", "it came to nothing");
    }

    #[test]
    fn the_task_and_what_was_said_stand_before_the_prompt() {
        let turns = [past(1, "build it", Some("built")), past(2, "now test it", None)];
        let recap = prompt(&turns, "now test it");
        assert!(recap.ends_with("The prompt now:\nnow test it"), "{recap}");
        assert!(recap.contains("Prompt 1:\nbuild it\nYour last message (it completed):\nbuilt"));
        assert!(!recap.contains("Prompt 2"), "it is the same prompt again: {recap}");
        assert!(prompt(&turns, "else").contains("Prompt 2:\nnow test it\nYou left no message"));
    }

    #[test]
    fn a_long_past_is_summarized_by_its_first_turn_and_its_last_ones() {
        let long = "x".repeat(1900);
        let turns: Vec<Past> = (1..=100).map(|turn| past(turn, &long, Some(&long))).collect();
        let recap = prompt(&turns, "go on");
        assert!(recap.len() < TASK_MAX + TEXT_MAX + TURNS_MAX + 1000, "{}", recap.len());
        assert!(recap.contains("Prompt 1:") && recap.contains("Prompt 100:"));
        assert!(recap.contains("turns are left out") && !recap.contains("Prompt 50:"));
    }
}
