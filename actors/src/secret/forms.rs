//! The forms of a text within a JSON string, as the usual encoders write it (RFC 8259, section 7). Pure.
//! An agent's output is mostly JSON, so a secret appears there in one of these forms.

use std::collections::BTreeSet;
use std::fmt::Write;

/// How an encoder escapes characters, beyond what JSON requires.
#[derive(Clone, Copy)]
struct Encoder {
    /// Characters beyond ASCII become `\uXXXX`.
    ascii: bool,
    /// Further characters that become `\uXXXX`.
    more: &'static str,
    /// `/` becomes `\/`.
    slash: bool,
    /// The digits of `\uXXXX` are upper case.
    upper: bool,
}

const PLAIN: Encoder = Encoder { ascii: false, more: "", slash: false, upper: false };
/// JavaScript, Rust and most others; Python and Ruby on Rails; PHP; Go; .NET.
const ENCODERS: [Encoder; 7] = [
    PLAIN,
    Encoder { ascii: true, ..PLAIN },
    Encoder { ascii: true, slash: true, ..PLAIN },
    Encoder { slash: true, ..PLAIN },
    Encoder { more: "<>&\u{2028}\u{2029}", ..PLAIN },
    Encoder { ascii: true, more: "<>&'", ..PLAIN },
    Encoder { ascii: true, more: "<>&'\"+`", upper: true, ..PLAIN },
];

/// The text itself, its forms within JSON, and those within JSON within JSON. For most secrets these are all
/// equal, so the set has one element.
pub fn of(text: &str) -> BTreeSet<String> {
    let once: BTreeSet<String> = ENCODERS.iter().map(|encoder| encoder.encode(text)).collect();
    let twice = ENCODERS.iter().flat_map(|outer| {
        let inner = [outer.encode(text), PLAIN.encode(text)];
        inner.map(|inner| outer.encode(&inner))
    });
    let twice: BTreeSet<String> = twice.collect();
    once.into_iter().chain(twice).chain([text.to_owned()]).collect()
}

impl Encoder {
    fn encode(self, text: &str) -> String {
        let mut encoded = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            match c {
                _ if (self.ascii && !c.is_ascii()) || self.more.contains(c) => {
                    self.escape(c, &mut encoded);
                }
                '"' => encoded.push_str("\\\""),
                '\\' => encoded.push_str("\\\\"),
                '/' if self.slash => encoded.push_str("\\/"),
                '\n' => encoded.push_str("\\n"),
                '\r' => encoded.push_str("\\r"),
                '\t' => encoded.push_str("\\t"),
                '\u{8}' => encoded.push_str("\\b"),
                '\u{c}' => encoded.push_str("\\f"),
                '\0'..' ' => self.escape(c, &mut encoded),
                _ => encoded.push(c),
            }
        }
        encoded
    }

    /// Writes `\uXXXX`, as a surrogate pair for a character beyond the basic plane.
    fn escape(self, c: char, into: &mut String) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string never fails.
            let _ = if self.upper {
                write!(into, "\\u{unit:04X}")
            } else {
                write!(into, "\\u{unit:04x}")
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_encoders_make_of_a_text_is_known() {
        let forms = of("a/b<c>&é+\"😀");
        for form in [
            "a/b<c>&é+\"😀",
            "a/b<c>&é+\\\"😀",
            // Python, PHP, Go, .NET.
            "a/b<c>&\\u00e9+\\\"\\ud83d\\ude00",
            "a\\/b<c>&\\u00e9+\\\"\\ud83d\\ude00",
            "a/b\\u003cc\\u003e\\u0026é+\\\"😀",
            "a/b\\u003Cc\\u003E\\u0026\\u00E9\\u002B\\u0022\\uD83D\\uDE00",
            // JSON within JSON.
            "a/b<c>&é+\\\\\\\"😀",
            "a/b<c>&\\\\u00e9+\\\\\\\"\\\\ud83d\\\\ude00",
        ] {
            assert!(forms.contains(form), "{form}: {forms:?}");
        }
        assert_eq!(of("sk-abc_123").len(), 1);
    }

    proptest! {
        #[test]
        fn every_form_reads_back(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}") {
            let read = |form: &str| serde_json::from_str::<String>(&format!("\"{form}\""));
            for encoder in ENCODERS {
                prop_assert_eq!(read(&encoder.encode(&text)).unwrap(), text.clone());
            }
        }
    }
}
