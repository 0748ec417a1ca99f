//! Hashes of calls' payloads, equal for payloads that mean the same. Pure.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 in hex of the canonical JSON: keys sorted, absent fields left out,
/// so that a field that is added later does not change the hash of old calls.
pub fn hash(payload: &impl Serialize) -> String {
    // Payloads are structs of strings, numbers and lists; they always serialize.
    let mut payload = serde_json::to_value(payload).unwrap_or_default();
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
        let hash = |payload: Value| hash(&payload);
        assert_eq!(
            hash(json!({"a": 1, "b": {"c": 2, "d": null}})),
            hash(json!({"b": {"c": 2}, "a": 1}))
        );
        assert_ne!(hash(json!({"a": 1})), hash(json!({"a": 2})));
        assert_eq!(hash(json!({})).len(), 64);
    }
}
