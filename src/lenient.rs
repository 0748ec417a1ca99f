//! Reads JSON that other programs wrote. If the strict parser refuses a text, known violations of the
//! grammar (RFC 8259) are repaired and the text is parsed once more: one odd character costs that
//! character, and not its whole line. Pure.

use std::fmt::Write as _;

use serde_json::Value;

/// Deepest nesting that is kept; what is deeper becomes `null`. The parser's own limit is 127 levels.
const DEPTH_MAX: usize = 120;

/// Reads one JSON text. Half a surrogate pair and bytes that are not UTF-8 become U+FFFD; a byte order
/// mark and NUL bytes between values are removed; control characters in strings stay as they are; numbers
/// beyond the range of a float become the largest one; what is deeper than [`DEPTH_MAX`] levels becomes
/// `null`. If a key occurs twice, its last value counts. `None`: it is not JSON in spite of the repair.
pub fn read(text: &[u8]) -> Option<Value> {
    serde_json::from_slice(text).ok().or_else(|| {
        let text = String::from_utf8_lossy(text);
        serde_json::from_str(&repaired(&text)).ok()
    })
}

/// The text with the repairs that [`read`] lists.
fn repaired(text: &str) -> String {
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut depth = 0_usize;
    while let Some(next) = rest.chars().next() {
        let taken = match next {
            '"' => {
                let length = string(rest);
                if depth <= DEPTH_MAX {
                    repair_string(&rest[..length], &mut repaired);
                }
                length
            }
            '{' | '[' => {
                depth += 1;
                if depth <= DEPTH_MAX {
                    repaired.push(next);
                } else if depth == DEPTH_MAX + 1 {
                    repaired.push_str("null");
                }
                1
            }
            '}' | ']' => {
                if depth <= DEPTH_MAX {
                    repaired.push(next);
                }
                depth = depth.saturating_sub(1);
                1
            }
            '-' | '0'..='9' => {
                let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
                let length = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
                if depth <= DEPTH_MAX {
                    repaired.push_str(&number(&rest[..length]));
                }
                length
            }
            '\0' => 1,
            other => {
                if depth <= DEPTH_MAX {
                    repaired.push(other);
                }
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    repaired
}

/// The length in bytes of the string that the text begins with, both quotes included.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Appends a string with its escapes and control characters repaired.
fn repair_string(string: &str, repaired: &mut String) {
    let mut rest = string;
    while let Some(next) = rest.chars().next() {
        let taken = match (next, unit(rest)) {
            (_, Some(0xd800..=0xdbff)) if matches!(unit(&rest[6..]), Some(0xdc00..=0xdfff)) => {
                repaired.push_str(&rest[..12]);
                12
            }
            (_, Some(0xd800..=0xdfff)) => {
                repaired.push('\u{fffd}');
                6
            }
            // The backslash and what it escapes go together, so that an escaped backslash begins no other
            // escape.
            ('\\', _) => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                repaired.push_str(&rest[..length]);
                length
            }
            (control @ '\0'..='\u{1f}', _) => {
                // Writing to a string never fails.
                let _ = write!(repaired, "\\u{:04x}", u32::from(control));
                1
            }
            (other, _) => {
                repaired.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
}

/// The UTF-16 code unit of the `\uXXXX` that the text begins with, if it begins with one.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
    u16::from_str_radix(digits, 16).ok()
}

/// A number that the parser accepts: one beyond the range of `f64` becomes the largest of its sign.
fn number(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if number.is_infinite() => f64::MAX.copysign(number).to_string(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_programs_write_in_spite_of_the_grammar_costs_no_line() {
        let deep = format!("{{\"id\":7,\"x\":{}1{}}}", "[".repeat(500), "]".repeat(500));
        for (text, expected) in [
            (&br#"{"t":"cut \ud83d"}"#[..], json!({"t": "cut \u{fffd}"})),
            (
                br#"{"t":"\udc00\ud83d\ude00\ud83d\n\\ud83d"}"#,
                json!({"t": "\u{fffd}😀\u{fffd}\n\\ud83d"}),
            ),
            ("\u{feff}{\"t\":1}".as_bytes(), json!({"t": 1})),
            (b"{\"t\":\"a\0b\x1b[0m\"}\0", json!({"t": "a\0b\u{1b}[0m"})),
            (b"{\"t\":\"\xff\"}", json!({"t": "\u{fffd}"})),
            (br#"{"t":1,"t":2}"#, json!({"t": 2})),
            (br#"{"t":18446744073709551615}"#, json!({"t": u64::MAX})),
            (br#"{"t":-1e999}"#, json!({"t": f64::MIN})),
        ] {
            assert_eq!(read(text), Some(expected), "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(read(deep.as_bytes()).unwrap()["id"], 7);
        for text in [&b"not JSON"[..], b"{\"t\":", b"\"", b"", b"{\"t\":\"\\"] {
            assert_eq!(read(text), None);
        }
    }

    proptest! {
        #[test]
        fn what_is_json_stays_as_it_is(text in "\\PC{0,40}", number in any::<i64>()) {
            let value = json!({"text": text, "list": [number, null, {"a": true}]});
            let written = value.to_string();
            prop_assert_eq!(repaired(&written), written.clone());
            prop_assert_eq!(read(format!("\u{feff}{written}").as_bytes()), Some(value));
        }

        #[test]
        fn no_text_is_too_odd(text in "[\\[\\]{}\",:\\\\u0-9a-fd8\\x00-\\x7f]{0,60}") {
            read(text.as_bytes());
        }
    }
}
