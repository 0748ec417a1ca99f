//! Which of the daemon's own variables are passed on to executors, scripts, checks and git. Pure.

use std::collections::BTreeMap;

/// The variables that say where programs find the certificates of authorities that they trust. Behind the
/// proxy of a company nothing can be fetched without them.
pub const CERTIFICATES: [&str; 10] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
];

/// Variables that the person's configuration gives to a process, beside those that every process gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Variables with their values, as the configuration has them.
    pub set: BTreeMap<String, String>,
    /// Names, or `PREFIX_*`, of the daemon's own variables that are passed on.
    pub pass: Vec<String>,
}

impl Given {
    /// Whether the configuration gives nothing.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.pass.is_empty()
    }

    /// The variables for a process of a daemon with the environment `own`. A value that is set replaces one
    /// that is passed on.
    pub fn of(&self, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let passed = own.iter().filter(|(name, _)| {
            self.pass.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == &pattern,
            })
        });
        passed.chain(&self.set).map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// The part of the daemon's environment that every process gets.
pub fn inherited(own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let passed_on = own.iter().filter(|(name, _)| is_base(name));
    passed_on.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether every process gets the daemon's variable of this name. A list of what is passed and not of what
/// is held back: an unknown variable may be a secret.
pub fn is_base(name: &str) -> bool {
    const NAMES: [&str; 9] =
        ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TZ", "TMPDIR"];
    NAMES.contains(&name)
        || CERTIFICATES.contains(&name)
        || name == "SSH_AUTH_SOCK"
        || name.starts_with("LC_")
        || name.starts_with("XDG_")
        || name.ends_with("_PROXY")
        || name.ends_with("_proxy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_variables_pass() {
        for name in
            ["PATH", "LC_ALL", "XDG_CONFIG_HOME", "https_proxy", "NO_PROXY", "SSL_CERT_FILE"]
        {
            assert!(is_base(name), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "PROVOST_HOME", "LD_PRELOAD", "GIT_DIR"] {
            assert!(!is_base(name), "{name}");
        }
    }

    #[test]
    fn what_is_given_is_passed_by_name_or_prefix_and_what_is_set_goes_first() {
        let table = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let own = table(&[("NPM_TOKEN", "1"), ("NPM_X", "2"), ("CI_A", "3"), ("CI", "4")]);
        let pass = ["NPM_TOKEN", "CI_*"].map(str::to_owned).to_vec();
        let given = Given { set: table(&[("CI_A", "own")]), pass };
        assert_eq!(given.of(&own), table(&[("CI_A", "own"), ("NPM_TOKEN", "1")]));
    }
}
