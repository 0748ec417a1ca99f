//! Which of the daemon's own variables it passes on to executors, scripts, checks and git. Pure.

use std::collections::BTreeMap;

/// Where programs find the certificates of authorities that they trust: behind the proxy of a company,
/// nothing can be fetched without them.
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

/// What the person's configuration gives to a process beside what every one gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub set: BTreeMap<String, String>,
    /// `NAME` or `PREFIX_*` of the daemon's own variables.
    pub pass: Vec<String>,
}

impl Given {
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.pass.is_empty()
    }

    /// The variables, of a daemon with this environment. What is set goes before what is passed on.
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

/// The part of the daemon's environment that is passed on.
pub fn inherited(own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let passed_on = own.iter().filter(|(name, _)| is_base(name));
    passed_on.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether the daemon's own variable of this name is passed on.
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
