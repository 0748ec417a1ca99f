//! Keyed calls in flight: a call made again while the first runs waits for its answer. Pure.

use std::collections::HashMap;

use crate::journal::Key;
use crate::refusal::Refusal;

/// The calls in flight. `P` is the port of a waiting caller, `A` an answer.
#[derive(Debug)]
pub struct InFlight<P, A> {
    calls: HashMap<(&'static str, String), Call<P, A>>,
}

#[derive(Debug)]
struct Call<P, A> {
    payload_hash: String,
    ports: Vec<P>,
    /// Its answer, while that is not on file yet.
    answer: Option<A>,
}

/// The role of a caller in its call.
#[derive(Debug, PartialEq)]
pub enum CallRole<P, A> {
    /// The first: it carries out the call, then [finishes](InFlight::finish) it.
    First(P),
    /// Another caller carries it out; the port is kept.
    Joined,
    /// Another caller has carried it out.
    Answered(P, A),
    /// An earlier call had this id and another payload.
    Conflict(P, Refusal),
}

impl<P, A> Default for InFlight<P, A> {
    fn default() -> Self {
        Self { calls: HashMap::new() }
    }
}

impl<P, A: Clone> InFlight<P, A> {
    pub fn join(&mut self, key: &Key, port: P) -> CallRole<P, A> {
        let Some(call) = self.calls.get_mut(&name(key)) else {
            let payload_hash = key.payload_hash.clone();
            let call = Call { payload_hash, ports: Vec::new(), answer: None };
            self.calls.insert(name(key), call);
            return CallRole::First(port);
        };
        if call.payload_hash != key.payload_hash {
            return CallRole::Conflict(port, key.conflict());
        }
        if let Some(answer) = &call.answer {
            return CallRole::Answered(port, answer.clone());
        }
        call.ports.push(port);
        CallRole::Joined
    }

    /// Ends a call; returns those who joined it. An answer that is not on file is kept
    /// here until it is [forgotten](Self::forget).
    pub fn finish(&mut self, key: &Key, unkept: Option<A>) -> Vec<P> {
        let Some(mut call) = self.calls.remove(&name(key)) else { return Vec::new() };
        let ports = std::mem::take(&mut call.ports);
        if unkept.is_some() {
            call.answer = unkept;
            self.calls.insert(name(key), call);
        }
        ports
    }

    /// The call's answer is on file.
    pub fn forget(&mut self, key: &Key) {
        self.calls.remove(&name(key));
    }
}

fn name(key: &Key) -> (&'static str, String) {
    (key.tool, key.request_id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Code;

    fn key(hash: &str) -> Key {
        Key {
            tool: "stop_attempt",
            request_id: "r".into(),
            payload_hash: hash.into(),
            resolved_hash: None,
        }
    }

    #[test]
    fn a_second_call_waits_for_the_first_and_another_payload_conflicts() {
        let mut in_flight: InFlight<u8, &str> = InFlight::default();
        assert_eq!(in_flight.join(&key("a"), 1), CallRole::First(1));
        assert_eq!(in_flight.join(&key("a"), 2), CallRole::Joined);
        assert!(matches!(in_flight.join(&key("b"), 3), CallRole::Conflict(3, refusal)
            if refusal.code == Code::IdempotencyConflict));
        assert_eq!(in_flight.finish(&key("a"), None), [2]);
        assert_eq!(in_flight.join(&key("b"), 4), CallRole::First(4));
    }

    #[test]
    fn an_answer_that_is_not_on_file_is_given_from_here() {
        let mut in_flight = InFlight::default();
        in_flight.join(&key("a"), 1);
        in_flight.join(&key("a"), 2);
        assert_eq!(in_flight.finish(&key("a"), Some("stopped")), [2]);
        assert_eq!(in_flight.join(&key("a"), 3), CallRole::Answered(3, "stopped"));
        assert!(matches!(in_flight.join(&key("b"), 4), CallRole::Conflict(4, _)));
        in_flight.forget(&key("a"));
        assert_eq!(in_flight.join(&key("b"), 5), CallRole::First(5));
    }
}
