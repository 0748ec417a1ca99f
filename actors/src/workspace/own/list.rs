//! A list of references as git packs them (gitrepository-layout(5)), and how the person's come into the
//! attempt's beside what the agent did. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Objects by the names of their references.
pub type Refs = BTreeMap<String, String>;

/// Reads a list; lines that name no reference are left out.
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

/// The list as text. Without a header, git sorts it and looks tags up itself.
pub fn text(refs: &Refs) -> String {
    let mut text = String::new();
    for (name, object) in refs {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{object} {name}");
    }
    text
}

/// The person's references now, but where the agent has moved, made or deleted one: `written` is what it
/// was given last, and `there` what it has.
pub fn merged(written: &Refs, there: &Refs, now: &Refs) -> Refs {
    let mut merged = Refs::new();
    for (name, object) in there {
        let is_as_given = written.get(name) == Some(object);
        match now.get(name) {
            Some(now) if is_as_given => drop(merged.insert(name.clone(), now.clone())),
            None if is_as_given => {}
            _ => drop(merged.insert(name.clone(), object.clone())),
        }
    }
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
