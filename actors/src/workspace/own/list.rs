//! A list of references as git packs them (gitrepository-layout(5), packed-refs), and how the person's
//! references are merged with what the agent did to its own. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The object of each reference, by its full name.
pub type Refs = BTreeMap<String, String>;

/// Reads a list. Lines that name no reference, such as the header and the peeled tags, are left out.
pub fn parse(text: &str) -> Refs {
    let named = text.lines().filter_map(|line| line.split_once(' '));
    let is_one = |(object, name): &(&str, &str)| {
        matches!(object.len(), 40 | 64)
            && object.bytes().all(|byte| byte.is_ascii_hexdigit())
            && name.starts_with("refs/")
            && !name.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    named.filter(is_one).map(|(object, name)| (name.to_owned(), object.to_owned())).collect()
}

/// The list as text. It has no header: without one, git sorts the list and looks up tags itself.
pub fn text(refs: &Refs) -> String {
    let mut text = String::new();
    for (name, object) in refs {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{object} {name}");
    }
    text
}

/// The agent's references from now on: the person's, except where the agent has moved, made or deleted
/// one. `written` is what the agent was given last, `there` what it has, and `now` the person's.
pub fn merged(written: &Refs, there: &Refs, now: &Refs) -> Refs {
    let mut merged = Refs::new();
    for (name, object) in there {
        // A reference that is still as it was given follows the person's, also away. One that the agent
        // made or moved stays.
        let is_as_given = written.get(name) == Some(object);
        match now.get(name) {
            Some(now) if is_as_given => drop(merged.insert(name.clone(), now.clone())),
            None if is_as_given => {}
            _ => drop(merged.insert(name.clone(), object.clone())),
        }
    }
    // One that the agent was given and does not have any more is not given again: the agent deleted it.
    let new =
        now.iter().filter(|(name, _)| !written.contains_key(*name) && !there.contains_key(*name));
    merged.extend(new.map(|(name, object)| (name.clone(), object.clone())));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(entries: &[(&str, char)]) -> Refs {
        let entry = |(name, digit): &(&str, char)| {
            (format!("refs/heads/{name}"), digit.to_string().repeat(40))
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn the_persons_references_follow_and_the_agents_own_stay() {
        let written = refs(&[("main", '1'), ("moved", '1'), ("deleted", '1'), ("over", '1')]);
        let there =
            refs(&[("main", '1'), ("moved", 'a'), ("over", '1'), ("made", 'a'), ("both", 'a')]);
        let now =
            refs(&[("main", '2'), ("moved", '2'), ("deleted", '2'), ("new", '2'), ("both", '2')]);
        let expected =
            refs(&[("main", '2'), ("moved", 'a'), ("made", 'a'), ("new", '2'), ("both", 'a')]);
        assert_eq!(merged(&written, &there, &now), expected);
    }

    #[test]
    fn a_list_is_read_as_git_writes_it() {
        let object = "0123456789".repeat(4);
        let text = format!(
            "# pack-refs with: peeled fully-peeled sorted \n{object} refs/tags/v1\n^{object}\n\
             {object} HEAD\nsecret refs/heads/x\n"
        );
        let found = parse(&text);
        assert_eq!(found, Refs::from([("refs/tags/v1".to_owned(), object)]));
        assert_eq!(parse(&super::text(&found)), found);
    }
}
