//! Which files patterns name literally. Pure.

use std::collections::BTreeSet;

/// The files that patterns name without a wildcard: credentials are copied only by name.
pub(super) struct Named {
    /// Paths from the root of the checkout.
    paths: BTreeSet<String>,
    /// Names in any folder.
    names: BTreeSet<String>,
}

impl Named {
    pub fn read(patterns: &[String]) -> Self {
        let (mut paths, mut names) = (BTreeSet::new(), BTreeSet::new());
        for line in patterns {
            let line = line.trim_end();
            if line.starts_with(['#', '!']) || line.contains(['*', '?', '[', '\\']) {
                continue;
            }
            if line.trim_end_matches('/').contains('/') {
                paths.insert(line.trim_start_matches('/').to_owned());
            } else {
                names.insert(line.to_owned());
            }
        }
        Self { paths, names }
    }

    pub fn has(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.paths.contains(path) || self.names.contains(name)
    }
}
