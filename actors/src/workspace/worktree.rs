//! Names of branches and worktree folders. Pure.

use crate::ids::AttemptId;

/// A title as part of a branch and a path: lower case ASCII letters and digits, words joined by
/// one `-`, at most 40 characters.
pub fn slug(title: &str) -> String {
    const MAX: usize = 40;
    let mut slug = String::new();
    for word in title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        if slug.len() + word.len() >= MAX && !slug.is_empty() {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.extend(word.chars().take(MAX).map(|c| c.to_ascii_lowercase()));
    }
    if slug.is_empty() { "task".to_owned() } else { slug }
}

/// `<short id>-<slug>`: the attempt's folder under `worktrees/`, and with the
/// configured prefix its branch. The id comes first, so no slug can clash.
pub fn folder(attempt: AttemptId, title: &str) -> String {
    format!("{}-{}", attempt.short(), slug(title))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_slug_keeps_whole_words_and_says_something_for_any_title() {
        assert_eq!(slug("Fix: the  Login/Logout bug!"), "fix-the-login-logout-bug");
        assert_eq!(slug("日本語"), "task");
        assert_eq!(slug(&"word ".repeat(30)), "word-word-word-word-word-word-word-word");
    }

    proptest! {
        #[test]
        fn a_slug_is_always_a_safe_part_of_a_ref_and_a_path(title in ".*") {
            let slug = slug(&title);
            prop_assert!((1..=40).contains(&slug.len()));
            prop_assert!(slug.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"));
        }
    }
}
