//! What uses a folder: processes that work in it or have a file of it open, and file systems
//! that are mounted in it. Only root can see other users' processes.

use std::fs;
use std::path::{Path, PathBuf};

use super::proc;

/// A process other than the caller that uses something in the folder.
pub fn user_of(folder: &Path) -> Option<i32> {
    let (folder, own) = (placed(folder), std::process::id().cast_signed());
    proc::all().into_iter().filter(|pid| *pid != own).find(|pid| uses(*pid, &folder))
}

/// A mount point at or below the folder (proc_pid_mountinfo(5)).
pub fn mount_below(folder: &Path) -> Option<PathBuf> {
    let (folder, mounts) = (placed(folder), fs::read_to_string("/proc/self/mountinfo").ok()?);
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    points.map(|point| PathBuf::from(unescaped(point))).find(|point| point.starts_with(&folder))
}

/// A path as the kernel shows it: without links above it.
fn placed(path: &Path) -> PathBuf {
    let above = path.parent().and_then(|above| above.canonicalize().ok());
    above.zip(path.file_name()).map_or_else(|| path.to_owned(), |(above, name)| above.join(name))
}

fn uses(pid: i32, folder: &Path) -> bool {
    let leads_in = |link: PathBuf| fs::read_link(link).is_ok_and(|path| path.starts_with(folder));
    let process = PathBuf::from(format!("/proc/{pid}"));
    let open = || fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    ["cwd", "root", "exe"].iter().any(|link| leads_in(process.join(link)))
        || open().any(|entry| leads_in(entry.path()))
}

fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests need real children")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_works_in_a_folder_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        fs::create_dir(folder.join("below")).unwrap();
        assert_eq!(user_of(&folder), None);
        let mut child =
            Command::new("sleep").arg("600").current_dir(folder.join("below")).spawn().unwrap();
        let (within, beside) = (user_of(&folder), user_of(&folder.join("other")));
        std::os::unix::fs::symlink(&folder, folder.join("other")).unwrap();
        let by_link = user_of(&folder.join("other/below"));
        child.kill().unwrap();
        child.wait().unwrap();
        let pid = Some(child.id().cast_signed());
        assert_eq!((within, beside, by_link), (pid, None, pid));
    }

    #[test]
    fn mounts_are_found_below_a_folder_only() {
        assert_eq!(mount_below(Path::new("/proc")), Some("/proc".into()));
        assert_eq!(mount_below(tempfile::tempdir().unwrap().path()), None);
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
    }
}
