//! Paths that a worker names, which must stay within its repository. Pure.

use std::path::{Component, Path};

use provost_actors::refusal::{Code, Refusal};

/// Refuses a path that is absolute, or leads out of the repository or into `.git`.
pub fn check(field: &str, path: &str) -> Result<(), Refusal> {
    let is_within = |part: Component| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        Component::CurDir => true,
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
    };
    // Separators and drives of other systems are refused, so that no path means something else there.
    let is_foreign = path.contains(['\\', '\0']) || path.as_bytes().get(1) == Some(&b':');
    if !is_foreign && !path.starts_with('~') && Path::new(path).components().all(is_within) {
        return Ok(());
    }
    let message = format!("`{field}` must be a path within the repository, not {path:?}");
    let hint = format!("Call the tool again with {field}, a path relative to the repository.");
    Err(Refusal::new(Code::InvalidArgument, message).hint(hint).detail("path", field))
}

/// Checks each path of a list; the refusal names the index.
pub fn check_all<'a>(field: &str, paths: impl IntoIterator<Item = &'a str>) -> Result<(), Refusal> {
    let mut numbered = paths.into_iter().enumerate();
    numbered.try_for_each(|(n, path)| check(&format!("{field}[{n}]"), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_within_the_repository() {
        for path in ["src/a.rs", "./a", "a b.txt", "..a/b", "x/...", ".github/x", "ä"] {
            assert!(check("file_path", path).is_ok(), "{path}");
        }
        for path in ["/etc/passwd", "../x", "a/../../x", "a\\..\\x", "C:\\x", "~/x", ".git/config"]
        {
            let refusal = check_all("attachedFiles", ["fine", path]).unwrap_err();
            assert_eq!(refusal.details["path"], "attachedFiles[1]", "{path}");
        }
    }
}
