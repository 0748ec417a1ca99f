//! Which of the daemon's own variables it passes on to executors, checks and git. Pure.

use std::collections::BTreeMap;

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
        for name in ["PATH", "LC_ALL", "XDG_CONFIG_HOME", "https_proxy", "NO_PROXY"] {
            assert!(is_base(name), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "PROVOST_HOME", "LD_PRELOAD", "GIT_DIR"] {
            assert!(!is_base(name), "{name}");
        }
    }
}
