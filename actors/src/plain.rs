//! Names in rows of the board, checked where they are read. A program that can write rows must not be able
//! to choose a folder outside of this host's, an option of git, or a reference that git would read as
//! something else.
//!
//! For `#[serde(deserialize_with = "plain::…")]`.

use std::path::{Component, Path};

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// The name of a file or folder that becomes a part of a path on this host.
///
/// # Errors
/// It is empty, or has more than one part.
pub fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    read(from, is_name, "no plain name of a folder")
}

/// The name of a branch, without `refs/heads/`.
///
/// # Errors
/// It is no name that git accepts, or begins with `-`.
pub fn branch<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    read(from, is_branch, "no name of a branch")
}

/// The id of a commit or another object.
///
/// # Errors
/// It is empty, or has other characters than letters and digits: options and expressions such as `a:b` do.
pub fn object<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    read(from, is_object, "no name of an object")
}

fn read<'de, D: Deserializer<'de>>(
    from: D,
    is_plain: fn(&str) -> bool,
    what: &str,
) -> Result<String, D::Error> {
    let said = String::deserialize(from)?;
    if is_plain(&said) { Ok(said) } else { Err(D::Error::custom(format!("{said:?} is {what}"))) }
}

fn is_name(said: &str) -> bool {
    let mut parts = Path::new(said).components();
    let is_one = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    is_one && !said.contains(['/', '\0'])
}

/// The rules of git-check-ref-format(1).
fn is_branch(said: &str) -> bool {
    let is_odd = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let is_part = |part: &str| {
        let ends = Path::new(part).extension().is_some_and(|it| it.eq_ignore_ascii_case("lock"));
        !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !ends
    };
    !said.starts_with('-')
        && said.split('/').all(is_part)
        && !said.contains(is_odd)
        && !said.contains("..")
        && !said.contains("@{")
}

fn is_object(said: &str) -> bool {
    !said.is_empty() && said.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_a_folder_or_is_an_option() {
        assert!(["a", "1234-say-hello", ".a", "-a", "ä b"].iter().all(|it| is_name(it)));
        assert!(!["", ".", "..", "a/b", "/a", "../a", "a/", "a\0"].iter().any(|it| is_name(it)));
        assert!(["main", "provost/1234/x", "a.b", "ä"].iter().all(|it| is_branch(it)));
        let bad =
            ["", "-x", "/a", "a/", "a//b", "a..b", "a b", "a.lock", "a/.b", "a@{1}", "a:b", "a\n"];
        assert!(!bad.iter().any(|it| is_branch(it)));
        assert!(is_object("0f") && !["", "--all", "a:b", "a b"].iter().any(|it| is_object(it)));
    }
}
