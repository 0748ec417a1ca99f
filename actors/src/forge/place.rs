//! Which repository of which forge a remote's URL names. Pure.

/// A repository of a forge, as a remote's URL names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeRepo {
    /// In lower case, without a user and a port.
    pub host: String,
    /// `owner/name`, or with more groups; without `.git`.
    pub repository: String,
}

/// Reads `https://HOST/OWNER/NAME.git`, `ssh://git@HOST/OWNER/NAME` and `git@HOST:OWNER/NAME`. `None`:
/// the URL names no repository of a forge, such as a path, or has characters that no forge allows in a
/// name.
pub fn place(url: &str) -> Option<ForgeRepo> {
    let (authority, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // git reads `HOST:PATH` only where no slash is before the colon (git-fetch(1), "GIT URLS").
        None => url.split_once(':').filter(|(host, _)| !host.contains('/'))?,
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    let is_plain = |part: &str| {
        let is_known = |c: char| c.is_ascii_alphanumeric() || "._-~".contains(c);
        !matches!(part, "" | "." | "..") && part.chars().all(is_known)
    };
    let is_whole = path.contains('/') && path.split('/').all(is_plain) && is_plain(host);
    is_whole.then(|| ForgeRepo { host: host.to_ascii_lowercase(), repository: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_host_and_a_repository() {
        for url in [
            "https://Forge.example/o/r.git",
            "https://ann:pw@forge.example:8443/o/r",
            "ssh://git@forge.example:22/o/r.git/",
            "git@forge.example:o/r.git",
            "git://forge.example/o/r",
        ] {
            let expected = ForgeRepo { host: "forge.example".into(), repository: "o/r".into() };
            assert_eq!(place(url), Some(expected), "{url}");
        }
        assert_eq!(place("git@h:g/s/r").unwrap().repository, "g/s/r");
        for url in [
            "/srv/r.git",
            "../r",
            "file:///srv/o/r",
            "https://h/r",
            "https://h/o/../r",
            "https://h/o/r?x=1",
        ] {
            assert_eq!(place(url), None, "{url}");
        }
    }
}
