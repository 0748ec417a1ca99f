//! Finds a program on a given `PATH`, as a shell does.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The absolute path of an executable program, or a sentence why there is none.
pub fn find(name: &str, search: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    if path.is_absolute() {
        return if is_runnable(path) {
            Ok(path.to_owned())
        } else if path.exists() {
            Err(format!("{name} is not executable"))
        } else {
            Err(format!("{name} does not exist"))
        };
    }
    if name.contains('/') {
        return Err(format!("{name} is a relative path; give an absolute one, or a name on PATH"));
    }
    std::env::split_paths(search)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|candidate| is_runnable(candidate))
        .ok_or_else(|| format!("{name} is not on the daemon's PATH"))
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
        assert_eq!(find("sh", "/nowhere").unwrap_err(), "sh is not on the daemon's PATH");
        assert_eq!(find("/no/agent", "").unwrap_err(), "/no/agent does not exist");
        assert_eq!(find("/etc/passwd", "").unwrap_err(), "/etc/passwd is not executable");
        assert!(find("./agent", "/bin").unwrap_err().contains("relative"));
    }
}
