//! Paths as text. git allows any bytes in a path. One that is not UTF-8 is written as git writes it, in
//! double quotes with octal escapes (git-config(1), core.quotePath). Pure.

use std::fmt::Write;

/// `<repo>/<path>`, as clients see it; all of it in quotes if the path is not UTF-8.
pub fn show(repo: &str, path: &[u8]) -> String {
    let bytes = [repo.as_bytes(), b"/", path].concat();
    String::from_utf8(bytes).unwrap_or_else(|error| quoted(error.as_bytes()))
}

/// The path in quotes, all of it printable ASCII. git reads this form, too.
pub fn quoted(path: &[u8]) -> String {
    let mut text = String::from('"');
    for byte in path {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => {
                // Writing to a string can't fail.
                let _ = write!(text, "\\{byte:03o}");
            }
        }
    }
    text.push('"');
    text
}

/// The bytes of a path that a client gave: unquoted if it is in valid quotes, else as it is.
pub fn read(text: &str) -> Vec<u8> {
    unquote(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

/// The bytes in quotes; `None`: this is not what git writes.
fn unquote(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::new();
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            first @ b'0'..=b'3' => {
                let digits = [first, rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?.to_owned();
                bytes.push(u8::from_str_radix(&digits, 8).ok()?);
            }
            letter => {
                let at = b"abtnvfr\"\\".iter().position(|name| *name == letter)?;
                bytes.push(b"\x07\x08\t\n\x0b\x0c\r\"\\"[at]);
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_json_can_not_carry_is_quoted() {
        assert_eq!(show("app", "ä \"x\"\n".as_bytes()), "app/ä \"x\"\n");
        assert_eq!(show("app", b"caf\xe9\n\""), r#""app/caf\351\012\"""#);
    }

    #[test]
    fn gits_own_quoting_is_read() {
        assert_eq!(read(r#""app/a\tb\n\\\"\303\244""#), "app/a\tb\n\\\"ä".as_bytes());
        assert_eq!(read(r#""app/\q""#), br#""app/\q""#);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(path in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(read(&show("app", &path)), [b"app/", &path[..]].concat());
            prop_assert_eq!(read(&quoted(&path)), path);
        }
    }
}
