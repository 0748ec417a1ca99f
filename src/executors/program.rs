//! Finds a program on a given `PATH`.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};
use provost_actors::executor::Unavailable;

/// The absolute path of an executable program, by an absolute path or a plain name. Unlike a shell it
/// skips relative folders of `search`, and refuses relative paths: both depend on the working directory.
pub fn find(name: &str, search: &str) -> Result<PathBuf, Unavailable> {
    let path = Path::new(name);
    if path.is_absolute() {
        return if is_runnable(path) {
            Ok(path.to_owned())
        } else if path.exists() {
            Err(Unavailable::NotExecutable(name.to_owned()))
        } else {
            Err(Unavailable::Missing(name.to_owned()))
        };
    }
    if name.contains('/') {
        return Err(Unavailable::RelativePath(name.to_owned()));
    }
    std::env::split_paths(search)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_runnable(candidate))
        .ok_or_else(|| Unavailable::NotOnPath(name.to_owned()))
}

fn is_runnable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_their_absence_is_explained() {
        assert!(find("sh", "/nowhere:/bin:/usr/bin").unwrap().ends_with("sh"));
        assert_eq!(
            find("sh", "/nowhere").unwrap_err().to_string(),
            "sh is not on the daemon's PATH"
        );
        assert_eq!(find("/no/agent", "").unwrap_err().to_string(), "/no/agent does not exist");
        assert_eq!(
            find("/etc/passwd", "").unwrap_err().to_string(),
            "/etc/passwd is not executable"
        );
        assert!(find("./agent", "/bin").unwrap_err().to_string().contains("relative"));
    }
}
