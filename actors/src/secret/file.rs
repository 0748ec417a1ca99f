//! Credentials in files that are copied into worktrees: which file names look like them, and which of their
//! texts no log may show. Pure.

/// Bytes of the longest file whose whole text is one secret.
const WHOLE_MAX: usize = 16 * 1024;
/// Bytes of the shortest value that is a secret even if its variable's name does not say so.
const VALUE_MIN: usize = 8;
/// Values that many such files have and that are in every log: they are no secrets.
const ORDINARY: [&str; 9] = [
    "development",
    "production",
    "localhost",
    "127.0.0.1",
    "disabled",
    "postgres",
    "debugging",
    "information",
    "undefined",
];

/// Whether a file's name (without folders) says that credentials are in it. Case does not matter.
pub fn is_credential(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        ".npmrc",
        ".pypirc",
        ".netrc",
        ".htpasswd",
        ".dockercfg",
        ".git-credentials",
        ".vault-token",
        ".pgpass",
    ];
    const BEGINNINGS: [&str; 6] =
        [".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "service-account"];
    const ENDS: [&str; 8] = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk"];
    const STEMS: [&str; 4] = ["secret", "secrets", "credential", "credentials"];
    const KINDS: [&str; 7] = ["", "json", "yml", "yaml", "toml", "ini", "env"];
    let name = name.to_ascii_lowercase();
    let (stem, kind) = name.split_once('.').unwrap_or((&name, ""));
    NAMES.contains(&&*name)
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || ENDS.iter().any(|end| name.ends_with(end))
        || (STEMS.contains(&stem) && KINDS.contains(&kind))
}

/// The secrets of a file of credentials, each with a name for the log (`file:KEY`, or `file`). They are the
/// values of its `KEY=value` lines that are long enough, no numbers and not ordinary. If no line has that
/// form and the text is short, the whole text is the secret. `is_secret`: whether the name of a variable
/// alone makes its value a secret.
pub fn values(file: &str, text: &str, is_secret: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let lines: Vec<(&str, &str)> = text.lines().filter_map(assignment).collect();
    if lines.is_empty() {
        let whole = (text.len() <= WHOLE_MAX && !text.trim().is_empty())
            .then(|| (file.to_owned(), text.trim().to_owned()));
        return whole.into_iter().collect();
    }
    let is_hidden = |(key, value): &(&str, &str)| {
        let is_long = value.len() >= VALUE_MIN && value.parse::<f64>().is_err();
        is_secret(key) || (is_long && !ORDINARY.contains(value))
    };
    let hidden = lines.into_iter().filter(is_hidden);
    hidden.map(|(key, value)| (format!("{file}:{key}"), value.to_owned())).collect()
}

/// Parses `KEY=value` as shells and readers of `.env` files do: `export`, quotes, and comments after ` #`.
/// `None`: the line has another form.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if key.is_empty() || !key.chars().all(is_name) {
        return None;
    }
    let value = value.trim();
    let unquoted = ['"', '\'', '`'].iter().find_map(|quote| {
        let rest = value.strip_prefix(*quote)?;
        rest.split_once(*quote).map(|(inside, _)| inside)
    });
    // After a value without quotes, a comment may follow.
    let bare = || value.split_once(" #").map_or(value, |(before, _)| before.trim_end());
    Some((key, unquoted.unwrap_or_else(bare)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_credentials_are_known_and_those_of_code_are_none() {
        for name in [
            ".env",
            ".env.local",
            ".ENV",
            "server.pem",
            "id_ed25519",
            ".npmrc",
            "secrets.yml",
            "credentials",
            "credentials.json",
        ] {
            assert!(is_credential(name), "{name}");
        }
        for name in ["env", "environment.js", "secretsmanager.js", "keys.js", "package.json"] {
            assert!(!is_credential(name), "{name}");
        }
    }

    #[test]
    fn values_are_secrets_and_what_is_in_every_log_is_not() {
        let text = "# a comment\nexport DB_URL=\"postgres://u:pw@host/db\" # here\nPORT=30001234\n\
             MODE=development\nPIN_SECRET=12\nPASS=correct horse # no\nEMPTY=\nnot a line\n";
        let found = values(".env", text, |key| key.ends_with("_SECRET"));
        let expected = [
            (".env:DB_URL", "postgres://u:pw@host/db"),
            (".env:PIN_SECRET", "12"),
            (".env:PASS", "correct horse"),
        ];
        let found: Vec<_> =
            found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_without_variables_is_a_secret_as_a_whole() {
        let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----\n";
        let found = values("a.pem", key, |_| false);
        assert_eq!(found, [("a.pem".to_owned(), key.trim().to_owned())]);
        assert!(values("a.pem", &"x".repeat(WHOLE_MAX + 1), |_| false).is_empty());
        assert!(values("a.pem", "\n", |_| false).is_empty());
    }
}
