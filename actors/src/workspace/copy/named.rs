//! Which files patterns name literally, without a wildcard. Credentials are copied only if they are named
//! so. Pure.

use std::collections::BTreeSet;

use crate::secret::file::is_credential;

/// The files that patterns name without a wildcard.
pub(super) struct Named {
    /// Paths from the root of the checkout.
    paths: BTreeSet<String>,
    /// Names that count in any folder: from lines without a slash (gitignore(5)).
    names: BTreeSet<String>,
}

/// The text that a line matches, without its escapes. `None`: it has a wildcard, is a comment or an
/// exclusion.
fn literal(line: &str) -> Option<String> {
    let line = line.trim_end();
    if line.starts_with(['#', '!']) {
        return None;
    }
    let (mut text, mut letters) = (String::new(), line.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '*' | '?' | '[' => return None,
            '\\' => text.push(letters.next()?),
            letter => text.push(letter),
        }
    }
    Some(text)
}

/// The line that names exactly this path: the hint for a file that was left out.
pub(super) fn line_for(path: &str) -> String {
    let mut line = "/".to_owned();
    for letter in path.chars() {
        if matches!(letter, '*' | '?' | '[' | '\\') {
            line.push('\\');
        }
        line.push(letter);
    }
    line
}

/// Those of the lines that name a file of credentials. If they come from the repository, a person must
/// approve them.
pub fn credential_lines(lines: &[String]) -> Vec<String> {
    let names_one = |line: &&String| {
        let text = literal(line);
        text.is_some_and(|text| text.rsplit('/').next().is_some_and(is_credential))
    };
    lines.iter().filter(names_one).cloned().collect()
}

impl Named {
    /// Reads the patterns; lines with a wildcard name nothing.
    pub fn read(patterns: &[String]) -> Self {
        let (mut paths, mut names) = (BTreeSet::new(), BTreeSet::new());
        for line in patterns.iter().filter_map(|line| literal(line)) {
            if line.contains('/') {
                paths.insert(line.trim_start_matches('/').to_owned());
            } else {
                names.insert(line);
            }
        }
        Self { paths, names }
    }

    /// Whether a line names this path from the root of the checkout.
    pub fn has(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.paths.contains(path) || self.names.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_a_path_names_that_path_and_no_other() {
        for path in [".env", "app/[id]/.env", "a*b?/.env", "back\\slash/.env", " x/.env"] {
            let line = line_for(path);
            let lines = std::slice::from_ref(&line);
            let named = Named::read(lines);
            assert!(named.has(path) && !named.has("other/.env"), "{path}");
            assert_eq!(credential_lines(lines), lines);
        }
    }

    #[test]
    fn a_wildcard_names_no_credentials() {
        let lines = ["*", ".env*", "!/.env", "# /.env", "/config/", "/a/[.]env", "x\\"];
        let lines = lines.map(str::to_owned);
        assert!(credential_lines(&lines).is_empty());
        assert!(!Named::read(&lines).has(".env"));
    }
}
