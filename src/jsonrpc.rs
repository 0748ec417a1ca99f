//! How both ends of the socket answer a JSON-RPC line that is too long to be read: they find its id in
//! its beginning. Pure.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// How much of a line is searched for its id, in bytes. So much is kept of a line that is too long.
pub const ID_WITHIN: usize = 1024;

/// The top-level id of a message, from its beginning, so that the refusal reaches the caller that waits
/// for it. `None`: the first [`ID_WITHIN`] bytes have no id.
pub fn id_in_head(head: &[u8]) -> Option<Value> {
    struct Seeker<'a>(&'a mut Option<Value>);

    impl<'de> Visitor<'de> for Seeker<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<String>()? {
                if key == "id" {
                    *self.0 = Some(map.next_value()?);
                    return Ok(());
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }

    let mut found = None;
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    let mut json = serde_json::Deserializer::from_slice(&head[..head.len().min(ID_WITHIN)]);
    // The text is cut, so the parser fails in the end. An id that it has seen before counts.
    let _ = json.deserialize_map(Seeker(&mut found));
    found
}
