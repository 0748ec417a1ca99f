//! Guesses which changed file a wrong path means: one with the `a/` or `b/` of a patch, without its
//! repository or its folders, in the wrong case, or with a typing error. Pure.

use provost_actors::nearest::nearest;

/// The changed path that is meant, from paths of the form `<repository>/<path>`. `None` if several fit
/// equally.
pub fn meant<'c>(given: &str, changed: &[&'c str]) -> Option<&'c str> {
    let only = |is_it: &dyn Fn(&str) -> bool| {
        let mut those = changed.iter().filter(|path| is_it(path));
        those.next().filter(|_| those.next().is_none()).copied()
    };
    // Tries the given path, then the path without its first folder, and so on: the longest end wins.
    for end in ends(given) {
        let is_end = |path: &str| {
            same(path, end) || path.split_once('/').is_some_and(|(_, rest)| same(rest, end))
        };
        if let Some(path) = only(&is_end) {
            return Some(path);
        }
    }
    let ends_with = |path: &str| ends(path).any(|end| same(end, given));
    only(&ends_with).or_else(|| nearest(given, changed.iter().copied()))
}

/// The path and each of its ends that begins after a slash, longest first.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    let after = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
    std::iter::once(path).chain(after).filter(|end| !end.is_empty())
}

fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_slightly_off_lead_to_the_one_that_was_meant() {
        let changed = ["front/src/main.rs", "front/x.txt", "back/x.txt", "back/only"];
        for (given, path) in [
            ("a/front/x.txt", Some("front/x.txt")),
            ("b/src/main.rs", Some("front/src/main.rs")),
            ("/src/SRC/Main.rs", Some("front/src/main.rs")),
            ("main.rs", Some("front/src/main.rs")),
            ("front/src/mian.rs", Some("front/src/main.rs")),
            ("Back/X.TXT", Some("back/x.txt")),
            ("only", Some("back/only")),
            ("wombat", None),
        ] {
            assert_eq!(meant(given, &changed), path, "{given}");
        }
        assert_eq!(meant("x", &[]), None);
    }
}
