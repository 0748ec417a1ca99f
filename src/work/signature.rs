//! What several reports of one error have in common. Pure.

/// The length to which a signature is cut, in characters.
const SIGNATURE: usize = 300;

/// The part of an error that is the same in each run: without numbers, addresses, ids and paths.
pub fn of(error: &str) -> String {
    let words: Vec<String> = error.split_whitespace().map(constant_part).collect();
    provost_actors::text::cut(words.join(" "), SIGNATURE)
}

fn constant_part(word: &str) -> String {
    let core = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/' && c != '\\');
    let is_path = core.contains(['/', '\\']) && core.contains(char::is_alphanumeric);
    if is_path {
        return "<path>".to_owned();
    }
    // A UUID, a hash, an address or a date.
    let digits = core.strip_prefix("0x").unwrap_or(core);
    let is_id = digits.len() >= 8 && digits.contains(|c: char| c.is_ascii_digit());
    if is_id && digits.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return "#".to_owned();
    }
    let mut constant = String::with_capacity(word.len());
    for letter in word.chars() {
        match letter {
            _ if !letter.is_numeric() => constant.push(letter),
            _ if constant.ends_with('#') => {}
            _ => constant.push('#'),
        }
    }
    constant
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_signature_has_no_numbers_addresses_ids_or_paths() {
        assert_eq!(
            of(
                "panicked at /tmp/x1/src/a.rs:12:5:\n left: 3, at 0x7ffe12ab (id 8f14e45f-ceea-467f-9575-0a0b0c0d0e0f) in 12.5ms"
            ),
            "panicked at <path> left: #, at # (id # in #.#ms"
        );
        assert_eq!(of("C:\\x\\y.txt gone"), "<path> gone");
    }

    proptest! {
        #[test]
        fn a_signature_is_the_same_for_all_numbers_and_of_itself(
            text in "[a-zA-Z0-9 ./:#-]{0,60}", one in any::<u32>(), other in any::<u32>(),
        ) {
            let sign = |n: u32| of(&format!("{text} after {n} ms"));
            prop_assert_eq!(sign(one), sign(other));
            prop_assert_eq!(of(&sign(one)), sign(one));
            prop_assert!(!sign(one).contains(char::is_numeric));
        }
    }
}
