//! What a renewal of a token changes in a file of credentials. An agent can write the attempt's copy, so
//! only the named fields are taken from it, and only if they have the types that they had: texts and
//! times. Pure.

use std::time::Duration;

use chrono::DateTime;
use serde_json::{Map, Value};

use crate::event::Timestamp;
use crate::sandbox::Credentials;

/// The largest file of credentials, in bytes. A larger one is left alone.
pub const CREDENTIALS_MAX: u64 = 64 * 1024;
/// The longest text of one field, in bytes.
const FIELD_MAX: usize = 16 * 1024;
/// How far ahead a time may be: no token lives longer. A later time would keep the person's next renewal from
/// counting as newer.
const AHEAD: Duration = Duration::from_hours(24 * 400);
/// A larger number is a time in milliseconds, a smaller one a time in seconds.
const SECONDS_MAX: f64 = 1e11;

/// The person's credentials with what the attempt's copy has newer. `None`: nothing of it may be taken, or
/// nothing is newer. Both files have to have the same top-level keys.
pub fn renewed(of: &Credentials, person: &[u8], own: &[u8], now: Timestamp) -> Option<Vec<u8>> {
    let read = |bytes: &[u8]| serde_json::from_slice::<Map<String, Value>>(bytes).ok();
    let (mut kept, own) = (read(person)?, read(own)?);
    let is_alike = kept.len() == own.len() && kept.keys().all(|key| own.contains_key(key));
    if !is_alike {
        return None;
    }
    let mut is_changed = false;
    // A path that begins with `*.` applies to each top-level entry, which has a token of its own.
    let has_entries = of.renewed.iter().any(|path| path.starts_with("*."));
    let entries: Vec<Option<String>> =
        if has_entries { kept.keys().cloned().map(Some).collect() } else { vec![None] };
    for entry in entries {
        let path = |pattern: &str| match (&entry, pattern.strip_prefix("*.")) {
            (Some(entry), Some(rest)) => {
                [entry.as_str()].into_iter().chain(rest.split('.')).map(str::to_owned).collect()
            }
            _ => pattern.split('.').map(str::to_owned).collect::<Vec<_>>(),
        };
        if let Some(changed) = of_entry(of, &kept, &own, path, now) {
            kept = changed;
            is_changed = true;
        }
    }
    is_changed.then(|| serde_json::to_vec_pretty(&kept).ok()).flatten()
}

/// The same for one entry. All of its fields are taken or none.
fn of_entry(
    of: &Credentials,
    person: &Map<String, Value>,
    own: &Map<String, Value>,
    path: impl Fn(&str) -> Vec<String>,
    now: Timestamp,
) -> Option<Map<String, Value>> {
    if let Some(newer) = &of.newer {
        let (before, after) = (at(person, &path(newer))?, at(own, &path(newer))?);
        if !is_newer(before, after, now) {
            return None;
        }
    }
    let mut changed = person.clone();
    for field in &of.renewed {
        let path = path(field);
        let (Some(before), Some(after)) = (at(person, &path), at(own, &path)) else { continue };
        if !is_like(before, after) {
            return None;
        }
        *at_mut(&mut changed, &path)? = after.clone();
    }
    (changed != *person).then_some(changed)
}

/// The value at a path of keys.
fn at<'a>(root: &'a Map<String, Value>, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(root.get(first)?, |value, part| value.as_object()?.get(part))
}

fn at_mut<'a>(root: &'a mut Map<String, Value>, path: &[String]) -> Option<&'a mut Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(root.get_mut(first)?, |value, part| value.as_object_mut()?.get_mut(part))
}

/// Whether a value may replace another one: a text that is not empty and not too long for a text, a number
/// for a number.
fn is_like(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::String(_), Value::String(text)) => !text.is_empty() && text.len() <= FIELD_MAX,
        (Value::Number(_), Value::Number(_)) => true,
        _ => false,
    }
}

/// Whether a time is later than another one, and not absurdly late. The fields of a file that has no time are
/// taken without this.
fn is_newer(before: &Value, after: &Value, now: Timestamp) -> bool {
    let latest = now.plus(AHEAD);
    match (before, after) {
        (Value::Number(before), Value::Number(after)) => {
            let (Some(before), Some(after)) = (before.as_f64(), after.as_f64()) else {
                return false;
            };
            let millis = if after > SECONDS_MAX { after } else { after * 1000.0 };
            #[expect(clippy::cast_precision_loss, reason = "a time in milliseconds")]
            let latest = latest.millis() as f64;
            after > before && millis < latest
        }
        // Times in the form of RFC 3339, each with an offset of its own.
        (Value::String(before), Value::String(after)) => {
            let moment = |text: &str| DateTime::parse_from_rfc3339(text).ok();
            let (Some(before), Some(after)) = (moment(before), moment(after)) else {
                return false;
            };
            after > before && after.timestamp_millis() < latest.millis()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(of: &Credentials, person: &Value, own: &Value) -> Option<Value> {
        let bytes = |value: &Value| serde_json::to_vec(value).unwrap();
        let now = Timestamp::from_millis(1_800_000_000_000);
        let taken = renewed(of, &bytes(person), &bytes(own), now)?;
        Some(serde_json::from_slice(&taken).unwrap())
    }

    fn credentials(renewed: &[&str], newer: &str) -> Credentials {
        let renewed = renewed.iter().map(ToString::to_string).collect();
        Credentials { file: "auth.json".into(), renewed, newer: Some(newer.into()) }
    }

    #[test]
    fn a_renewed_token_is_taken_and_nothing_beside_it() {
        let of = credentials(&["o.access", "o.refresh", "o.expires"], "o.expires");
        let person = json!({"o": {"access": "a", "refresh": "r", "expires": 1_800_000_000_000_i64, "plan": "x"}, "b": 1});
        let with = |access: Value, expires: Value| json!({"o": {"access": access, "refresh": "r2", "expires": expires, "plan": "evil", "hook": "sh"}, "b": 2});
        let later = json!(1_800_000_900_000_i64);
        let expected =
            json!({"o": {"access": "a2", "refresh": "r2", "expires": later, "plan": "x"}, "b": 1});
        assert_eq!(taken(&of, &person, &with(json!("a2"), later.clone())), Some(expected));
        for (access, expires, why) in [
            (json!("a2"), json!(1_800_000_000_000_i64), "not newer"),
            (json!("a2"), json!(1_900_000_000_000_i64), "beyond what a token lives"),
            (json!("a2"), json!("9"), "another type"),
            (json!({"x": 1}), later.clone(), "an object for a text"),
            (json!("x".repeat(20_000)), later.clone(), "too long"),
            (json!(""), later.clone(), "empty: logged out"),
        ] {
            assert_eq!(taken(&of, &person, &with(access, expires)), None, "{why}");
        }
        let mut more = with(json!("a2"), later);
        more["hooks"] = json!({});
        assert_eq!(taken(&of, &person, &more), None, "another shape");
        assert_eq!(renewed(&of, b"{}", b"no json", Timestamp::now()), None);
    }

    #[test]
    fn each_entry_has_its_own_time() {
        let of = credentials(&["*.access", "*.expires"], "*.expires");
        let person = json!({"a": {"access": "1", "expires": 10}, "b": {"access": "1", "expires": 10}, "k": {"key": "k"}});
        let own = json!({"a": {"access": "2", "expires": 11}, "b": {"access": "2", "expires": 9}, "k": {"key": "evil"}});
        let expected = json!({"a": {"access": "2", "expires": 11}, "b": {"access": "1", "expires": 10}, "k": {"key": "k"}});
        assert_eq!(taken(&of, &person, &own), Some(expected));
    }

    #[test]
    fn times_may_be_texts() {
        let of = credentials(&["t.access", "at"], "at");
        let person = json!({"t": {"access": "1"}, "at": "2026-11-20T10:00:00.5Z"});
        let own = |at: &str| json!({"t": {"access": "2"}, "at": at});
        assert!(taken(&of, &person, &own("2026-11-20T10:00:01Z")).is_some());
        assert!(taken(&of, &person, &own("2026-11-20T09:30:00-01:00")).is_some(), "10:30 in UTC");
        let earlier = ["2026-11-20T09:00:00Z", "2026-11-20T11:00:00+02:00"];
        for wrong in earlier.into_iter().chain(["9999-01-01T00:00:00Z", "9", "2027"]) {
            assert!(taken(&of, &person, &own(wrong)).is_none(), "{wrong}");
        }
    }
}
