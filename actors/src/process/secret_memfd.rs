//! Hands secrets to a starting shim in a memfd, on its standard input. Neither its
//! environment nor a file shows them.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::process::Stdio;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::secret::Secrets;

/// What a shim gets for its standard input.
pub fn pack(secrets: &Secrets) -> io::Result<Stdio> {
    if secrets.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = File::from(memfd_create(c"provost-secrets", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&serde_json::to_vec(secrets)?)?;
    file.rewind()?;
    Ok(file.into())
}

/// The secrets on this shim's standard input.
pub fn unpack() -> io::Result<Secrets> {
    let mut bytes = Vec::new();
    File::from(io::stdin().as_fd().try_clone_to_owned()?).read_to_end(&mut bytes)?;
    if bytes.is_empty() { Ok(Secrets::default()) } else { Ok(serde_json::from_slice(&bytes)?) }
}
