//! Where a host has a repository: at its path on the board, or in a bare mirror below the host's home.
//! Pure, except that it looks whether something exists at a path.

use std::path::{Path, PathBuf};

use crate::ids::RepoId;

/// The rule of one host. The default is a board that is not shared: each repository is at its path.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The folder of the mirrors; `None`: this host has none, and only paths count.
    mirrors: Option<PathBuf>,
    /// Every repository is in a mirror (`[host] repositories = "mirrors"`).
    avoids_paths: bool,
}

impl Places {
    /// For a host of a shared board. Unless `avoids_paths` is set, a repository that exists at its path
    /// is used there.
    pub fn with_mirrors(folder: PathBuf, avoids_paths: bool) -> Self {
        Self { mirrors: Some(folder), avoids_paths }
    }

    /// Where the repository is, or must be made. Once a mirror exists, it is used even if the path
    /// appears later: its worktrees were made of it.
    pub fn of(&self, repo: RepoId, path: &str) -> PathBuf {
        let Some(mirrors) = &self.mirrors else { return PathBuf::from(path) };
        let mirror = mirrors.join(format!("{repo}.git"));
        let uses_path = !self.avoids_paths && !mirror.exists() && is_repository(Path::new(path));
        if uses_path { PathBuf::from(path) } else { mirror }
    }

    /// Whether a path from [`Self::of`] is a mirror's.
    pub fn is_mirror(&self, place: &Path) -> bool {
        self.mirrors.as_ref().is_some_and(|mirrors| place.starts_with(mirrors))
    }

    /// Whether no repository is ever used at its path on the board.
    pub fn avoids_paths(&self) -> bool {
        self.avoids_paths
    }
}

/// Whether a folder looks like a repository, with a working tree or bare.
fn is_repository(path: &Path) -> bool {
    path.join(".git").exists() || path.join("HEAD").exists() && path.join("objects").exists()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_repository_is_at_its_path_unless_the_host_has_a_mirror_or_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mirrors) = (dir.path().join("app"), dir.path().join("mirrors"));
        let (id, text) = (RepoId::new(), path.to_string_lossy().into_owned());
        assert_eq!(Places::default().of(id, &text), path);
        let places = Places::with_mirrors(mirrors.clone(), false);
        let mirror = mirrors.join(format!("{id}.git"));
        assert_eq!(places.of(id, &text), mirror);
        fs::create_dir_all(path.join(".git")).unwrap();
        assert_eq!(places.of(id, &text), path);
        assert!(!places.is_mirror(&path) && places.is_mirror(&mirror));
        assert_eq!(Places::with_mirrors(mirrors, true).of(id, &text), mirror);
        fs::create_dir_all(&mirror).unwrap();
        assert_eq!(places.of(id, &text), mirror);
    }
}
