//! The idempotency key of a change. Pure.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::ask::Key;

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
    Some(Key { tool, request_id, payload_hash: payload_hash(input) })
}

/// SHA-256 in hex of the canonical JSON: keys sorted, absent fields left out,
/// so that a field that is added later does not change the hash of old calls.
fn payload_hash(input: &impl Serialize) -> String {
    // Inputs are structs of strings, numbers and lists; they always serialize.
    let mut payload = serde_json::to_value(input).unwrap_or_default();
    payload.sort_all_objects();
    leave_out_nulls(&mut payload);
    let digest = Sha256::digest(payload.to_string());
    digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string can't fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn leave_out_nulls(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, member| !member.is_null());
        members.values_mut().for_each(leave_out_nulls);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_payloads_have_equal_hashes_however_they_are_ordered() {
        let hash = |payload: Value| payload_hash(&payload);
        assert_eq!(
            hash(json!({"a": 1, "b": {"c": 2, "d": null}})),
            hash(json!({"b": {"c": 2}, "a": 1}))
        );
        assert_ne!(hash(json!({"a": 1})), hash(json!({"a": 2})));
        assert_eq!(hash(json!({})).len(), 64);
    }

    #[test]
    fn the_clients_id_wins_and_the_bridges_can_not_clash_with_it() {
        let id = |request, call| of("t", request, call, &json!({})).map(|key| key.request_id);
        assert_eq!(id(None, None), None);
        assert_eq!(id(Some("x"), Some("y")), id(Some("x"), None));
        assert_ne!(id(Some("x"), None), id(None, Some("x")));
        assert_ne!(id(Some("call:x"), None), id(None, Some("x")));
    }
}
