//! The idempotency key of a change. Pure.

use provost_actors::payload;
use serde::Serialize;

use crate::api::Key;

/// The key of a call, if anyone asked for idempotency: the client by a
/// `request_id`, or the bridge by the id it gave the call.
pub fn of(
    tool: &'static str,
    request_id: Option<&str>,
    call_id: Option<&str>,
    input: &impl Serialize,
) -> Option<Key> {
    // Each origin has a prefix of its own, so that neither can forge the other.
    let request_id = match (request_id, call_id) {
        (Some(id), _) => format!("request:{id}"),
        (None, Some(id)) => format!("call:{id}"),
        (None, None) => return None,
    };
    Some(Key { tool, request_id, payload_hash: payload::hash(input), resolved_hash: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_clients_id_wins_and_the_bridges_can_not_clash_with_it() {
        let id = |request, call| of("t", request, call, &json!({})).map(|key| key.request_id);
        assert_eq!(id(None, None), None);
        assert_eq!(id(Some("x"), Some("y")), id(Some("x"), None));
        assert_ne!(id(Some("x"), None), id(None, Some("x")));
        assert_ne!(id(Some("call:x"), None), id(None, Some("x")));
    }
}
