//! Secrets: which variables hold one, and which texts ("needles") no file may contain. Pure.
//!
//! ```text
//!  the environment made ─┬─ without a secret ──▶ manifest.json
//!                        └─ with one ──▶ Secrets ──(memory only)──▶ shim ─▶ executor
//!                                           └─ needles ─▶ redact ─▶ spool
//! ```

pub mod file;
mod forms;
pub mod redact;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of the shortest value that is redacted: shorter texts occur everywhere in output.
const VALUE_MIN: usize = 4;
/// Bytes of the shortest line of a value that is redacted by itself.
const LINE_MIN: usize = 8;

/// Patterns for the names of variables that hold secrets: each is `NAME`, `PREFIX_*` or `*_SUFFIX`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretNames(pub Vec<String>);

impl SecretNames {
    /// The patterns if the configuration has none.
    pub const DEFAULT: [&str; 4] = ["*_API_KEY", "*_TOKEN", "*_SECRET", "*_PASSWORD"];

    /// Whether a text is a pattern: a name with at most one `*`, at its beginning or its end, and more than
    /// that.
    pub fn is_pattern(text: &str) -> bool {
        let stem = text.strip_suffix('*').or_else(|| text.strip_prefix('*')).unwrap_or(text);
        !stem.is_empty() && !stem.contains(['*', '=', '\0'])
    }

    /// Whether a pattern matches the name of a variable. Case matters.
    pub fn name(&self, variable: &str) -> bool {
        self.0.iter().any(|pattern| match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
            (Some(prefix), _) => variable.starts_with(prefix),
            (_, Some(suffix)) => variable.ends_with(suffix),
            _ => pattern == variable,
        })
    }

    /// Moves out of an executor's environment every variable whose value contains a secret. Secrets are the
    /// values of variables whose names match; the values in `own`, the daemon's environment, of variables
    /// that a pattern names without a `*`; and `more`, pairs of a name and a value. The result also has the
    /// needles for all of them.
    pub fn take_out(
        &self,
        env: &mut BTreeMap<String, String>,
        own: &BTreeMap<String, String>,
        more: &[(String, String)],
    ) -> Secrets {
        let given = env.iter().filter(|(name, _)| self.name(name));
        let held = own.iter().filter(|(name, _)| self.0.contains(name));
        let more = more.iter().map(|(name, value)| (name, value));
        let needles = needles(given.chain(held).chain(more));
        let shows_one = |value: &str| needles.iter().any(|needle| value.contains(&needle.text));
        let env = env.extract_if(.., |_, value| shows_one(value)).collect();
        Secrets { env, needles }
    }
}

/// What a shim gets in memory only (`shims::in_memfd`). `Debug` shows names only.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secrets {
    /// Variables of the executor whose values contain a secret.
    pub env: BTreeMap<String, String>,
    /// The texts to redact from the output.
    pub needles: Vec<Needle>,
}

/// A text that reveals a secret, and the name of the secret. Output shows the name in the text's place.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needle {
    pub name: String,
    /// Never empty.
    pub text: String,
}

impl Secrets {
    /// Whether a shim needs to get nothing.
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.needles.is_empty()
    }

    /// The names of all secrets, sorted, each once. The manifest lists them.
    pub fn names(&self) -> Vec<String> {
        let needles = self.needles.iter().map(|needle| &needle.name);
        let names: BTreeSet<&String> = self.env.keys().chain(needles).collect();
        names.into_iter().cloned().collect()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secrets({:?})", self.names())
    }
}

impl fmt::Debug for Needle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Needle({:?})", self.name)
    }
}

/// The texts that reveal the values: each value as it is, its forms within JSON, and its longer lines. The
/// first name of a text counts.
fn needles<'v>(values: impl Iterator<Item = (&'v String, &'v String)>) -> Vec<Needle> {
    let mut seen = BTreeSet::new();
    let mut needles = Vec::new();
    for (name, value) in values {
        // A line end at either end often comes from the file that held the value, and does not belong to the
        // secret.
        let value = value.trim_matches(['\r', '\n']);
        if value.len() < VALUE_MIN {
            continue;
        }
        let lines = value.lines().filter(|line| line.len() >= LINE_MIN).map(str::to_owned);
        for text in forms::of(value).into_iter().chain(lines) {
            if seen.insert(text.clone()) {
                needles.push(Needle { name: name.clone(), text });
            }
        }
    }
    needles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn names(patterns: &[&str]) -> SecretNames {
        SecretNames(patterns.iter().map(|&pattern| pattern.to_owned()).collect())
    }

    fn texts(secrets: &Secrets) -> Vec<(&str, &str)> {
        secrets.needles.iter().map(|n| (n.name.as_str(), n.text.as_str())).collect()
    }

    #[test]
    fn names_are_exact_or_open_at_one_end() {
        let names = names(&["KEY", "MY_*", "*_TOKEN"]);
        for name in ["KEY", "MY_", "MY_X", "A_TOKEN", "_TOKEN"] {
            assert!(names.name(name), "{name}");
        }
        for name in ["KEYS", "A_KEY", "XMY_", "TOKEN", "A_TOKENS", ""] {
            assert!(!names.name(name), "{name}");
        }
    }

    #[test]
    fn a_pattern_has_one_star_at_an_end_at_most() {
        assert!(
            ["A", "A_*", "*_A"]
                .into_iter()
                .chain(SecretNames::DEFAULT)
                .all(SecretNames::is_pattern)
        );
        assert!(!["", "*", "**", "*A*", "A*B", "A=B"].into_iter().any(SecretNames::is_pattern));
    }

    #[test]
    fn secrets_are_taken_out_and_so_is_what_holds_one() {
        let mut env = map(&[
            ("A_TOKEN", "hunter2"),
            ("B_TOKEN", "abc"),
            ("URL", "http://me:hunter2@host"),
            ("MODE", "fast"),
        ]);
        let own = map(&[("MASTER", "of the house"), ("C_TOKEN", "not given"), ("PATH", "/bin")]);
        let secrets = names(&["*_TOKEN", "MASTER"]).take_out(&mut env, &own, &[]);
        assert_eq!(env, map(&[("B_TOKEN", "abc"), ("MODE", "fast")]));
        let hidden = [("A_TOKEN", "hunter2"), ("URL", "http://me:hunter2@host")];
        assert_eq!(secrets.env, map(&hidden));
        assert_eq!(texts(&secrets), [("A_TOKEN", "hunter2"), ("MASTER", "of the house")]);
        assert_eq!(format!("{secrets:?}"), r#"Secrets(["A_TOKEN", "MASTER", "URL"])"#);
        assert!(names(&[]).take_out(&mut env, &own, &[]).is_empty());
    }

    #[test]
    fn a_secret_has_a_form_within_json_and_its_longer_lines() {
        let mut env = map(&[("A_KEY", "first line\nsecond\nthird \"line\"\n"), ("B_KEY", "a\tbc")]);
        let secrets = names(&["*_KEY"]).take_out(&mut env, &BTreeMap::new(), &[]);
        let found = texts(&secrets);
        for expected in [
            ("A_KEY", "first line\nsecond\nthird \"line\""),
            ("A_KEY", "first line\\nsecond\\nthird \\\"line\\\""),
            ("A_KEY", "first line"),
            ("A_KEY", "third \"line\""),
            ("B_KEY", "a\tbc"),
            ("B_KEY", "a\\tbc"),
        ] {
            assert!(found.contains(&expected), "{expected:?}");
        }
        assert!(!found.contains(&("A_KEY", "second")));
    }
}
