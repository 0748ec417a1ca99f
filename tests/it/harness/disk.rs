//! A small disk of a test's own: a tmpfs in a mount namespace that only the test's
//! thread and what it starts can see. It is gone with them, however they end.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::program;

pub struct SmallDisk {
    ballast: PathBuf,
}

impl SmallDisk {
    /// Mounts one at a folder, with the options of tmpfs(5). `None`, and a word on
    /// stderr, where only root may.
    pub fn at(folder: &Path, options: &str) -> Option<Self> {
        own_mounts()?;
        let at = folder.to_str().unwrap();
        mount(&["-t", "tmpfs", "-o", options, "tmpfs", at]);
        Some(Self { ballast: folder.join("ballast") })
    }

    /// Takes all the room there is.
    pub fn fill(&self) {
        self.fill_but(0);
    }

    /// Takes all the room there is but so many bytes.
    pub fn fill_but(&self, left: u64) {
        let mut ballast = File::create(&self.ballast).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while ballast.write_all(&vec![1; size]).is_ok() {}
        }
        let len = ballast.metadata().unwrap().len();
        ballast.set_len(len - left).unwrap();
    }

    pub fn free(&self) {
        fs::remove_file(&self.ballast).unwrap();
    }
}

/// Gives this thread mounts of its own.
pub fn own_mounts() -> Option<()> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not tried: only root may mount");
        return None;
    }
    // SAFETY: unshare(2) takes a number and touches no memory. The thread gets a
    // working folder of its own as well; it stays where it is.
    let unshared = unsafe { nix::libc::unshare(nix::libc::CLONE_NEWNS) };
    assert_eq!(unshared, 0, "{}", std::io::Error::last_os_error());
    mount(&["--make-rprivate", "/"]);
    Some(())
}

/// mount(8), which sees the mounts of this thread.
pub fn mount(args: &[&str]) {
    let done = program("mount").args(args).output().unwrap();
    assert!(done.status.success(), "mount {args:?}: {done:?}");
}

/// umount(8). What has opened a file of that mount keeps it: a daemon may have
/// connected to its database meanwhile, to read.
pub fn unmount(at: &Path) {
    let done = program("umount").arg("--lazy").arg(at).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}
