//! Calls under way, by their key: a call made again while the first still runs
//! waits for the first one's answer. Pure bookkeeping; what is durable about a
//! key is the journal's.

use std::collections::HashMap;

use crate::journal::Key;
use crate::refusal::Refusal;

/// Who waits for which call. `P` is the port of a waiting caller, `A` an answer.
#[derive(Debug)]
pub struct Flights<P, A> {
    calls: HashMap<(&'static str, String), Call<P, A>>,
}

#[derive(Debug)]
struct Call<P, A> {
    payload_hash: String,
    ports: Vec<P>,
    /// It has been answered, and the answer is not on file yet.
    answer: Option<A>,
}

/// What a caller is to its call.
#[derive(Debug, PartialEq)]
pub enum Boarding<P, A> {
    /// The first: it brings the effect about, then [`Flights::land`]s.
    First(P),
    /// Another one does; the port is kept.
    Joined,
    /// Another one has.
    Answered(P, A),
    /// The same id with another payload.
    Conflict(P, Refusal),
}

impl<P, A> Default for Flights<P, A> {
    fn default() -> Self {
        Self { calls: HashMap::new() }
    }
}

impl<P, A: Clone> Flights<P, A> {
    /// Boards a call.
    pub fn board(&mut self, key: &Key, port: P) -> Boarding<P, A> {
        let Some(call) = self.calls.get_mut(&name(key)) else {
            let payload_hash = key.payload_hash.clone();
            let call = Call { payload_hash, ports: Vec::new(), answer: None };
            self.calls.insert(name(key), call);
            return Boarding::First(port);
        };
        if call.payload_hash != key.payload_hash {
            return Boarding::Conflict(port, key.conflict());
        }
        if let Some(answer) = &call.answer {
            return Boarding::Answered(port, answer.clone());
        }
        call.ports.push(port);
        Boarding::Joined
    }

    /// The call has been answered: those who joined it. One whose answer is not on
    /// file keeps it here until it is [forgotten](Self::forget).
    pub fn land(&mut self, key: &Key, unkept: Option<A>) -> Vec<P> {
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
        let mut flights: Flights<u8, &str> = Flights::default();
        assert_eq!(flights.board(&key("a"), 1), Boarding::First(1));
        assert_eq!(flights.board(&key("a"), 2), Boarding::Joined);
        assert!(matches!(flights.board(&key("b"), 3), Boarding::Conflict(3, refusal)
            if refusal.code == Code::IdempotencyConflict));
        assert_eq!(flights.land(&key("a"), None), [2]);
        assert_eq!(flights.board(&key("b"), 4), Boarding::First(4));
    }

    #[test]
    fn an_answer_that_is_not_on_file_is_given_from_here() {
        let mut flights = Flights::default();
        flights.board(&key("a"), 1);
        flights.board(&key("a"), 2);
        assert_eq!(flights.land(&key("a"), Some("stopped")), [2]);
        assert_eq!(flights.board(&key("a"), 3), Boarding::Answered(3, "stopped"));
        assert!(matches!(flights.board(&key("b"), 4), Boarding::Conflict(4, _)));
        flights.forget(&key("a"));
        assert_eq!(flights.board(&key("b"), 5), Boarding::First(5));
    }
}
