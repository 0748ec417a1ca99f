//! Paths as text. git knows paths as bytes, JSON only Unicode: a path that is no
//! UTF-8 is written as git writes it, in double quotes with octal escapes. Pure.

use std::fmt::Write;

/// `<repo>/<path>`, as clients see it.
#[must_use]
pub fn show(repo: &str, path: &[u8]) -> String {
    let bytes = [repo.as_bytes(), b"/", path].concat();
    let Err(error) = String::from_utf8(bytes) else {
        return format!("{repo}/{}", String::from_utf8_lossy(path));
    };
    let mut text = String::from('"');
    for byte in error.as_bytes() {
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

/// The bytes of a path that a client gave.
#[must_use]
pub fn read(text: &str) -> Vec<u8> {
    unquote(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

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
            same @ (b'"' | b'\\') => bytes.push(same),
            _ => return None,
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

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(path in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(read(&show("app", &path)), [b"app/", &path[..]].concat());
        }
    }
}
