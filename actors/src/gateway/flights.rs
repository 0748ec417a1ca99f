//! Calls under way, by their key: a call made again while the first still runs
//! waits for the first one's answer. Pure bookkeeping; what is durable about a
//! key is the journal's.

use std::collections::HashMap;

use crate::journal::Key;
use crate::refusal::Refusal;

/// Who waits for which call. `P` is the port of a waiting caller.
#[derive(Debug)]
pub struct Flights<P> {
    waiting: HashMap<(&'static str, String), (String, Vec<P>)>,
}

/// What a caller is to its call.
#[derive(Debug, PartialEq)]
pub enum Boarding<P> {
    /// The first: it brings the effect about, then [`Flights::land`]s.
    First(P),
    /// Another one does; the port is kept.
    Joined,
    /// The same id with another payload.
    Conflict(P, Refusal),
}

impl<P> Default for Flights<P> {
    fn default() -> Self {
        Self { waiting: HashMap::new() }
    }
}

impl<P> Flights<P> {
    /// Boards a call.
    pub fn board(&mut self, key: &Key, port: P) -> Boarding<P> {
        let name = (key.tool, key.request_id.clone());
        match self.waiting.get_mut(&name) {
            None => {
                self.waiting.insert(name, (key.payload_hash.clone(), Vec::new()));
                Boarding::First(port)
            }
            Some((hash, ports)) if *hash == key.payload_hash => {
                ports.push(port);
                Boarding::Joined
            }
            Some(_) => Boarding::Conflict(port, key.conflict()),
        }
    }

    /// The call has been answered: those who joined it.
    pub fn land(&mut self, key: &Key) -> Vec<P> {
        self.waiting
            .remove(&(key.tool, key.request_id.clone()))
            .map_or_else(Vec::new, |(_, ports)| ports)
    }
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
        let mut flights = Flights::default();
        assert_eq!(flights.board(&key("a"), 1), Boarding::First(1));
        assert_eq!(flights.board(&key("a"), 2), Boarding::Joined);
        assert!(matches!(flights.board(&key("b"), 3), Boarding::Conflict(3, refusal)
            if refusal.code == Code::IdempotencyConflict));
        assert_eq!(flights.land(&key("a")), [2]);
        assert_eq!(flights.board(&key("b"), 4), Boarding::First(4));
    }
}
