//! Secrets that Provost makes: 256 random bits each, as text. Files have the secrets, the store has only
//! their hashes.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// The file in a home with the owner's token, for that person's own programs.
pub const TOKEN_FILE: &str = "http-token";

/// A new secret: 43 characters that need no quoting in a URL or a shell. Fails if the kernel gives no
/// random bits.
pub fn make() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| io::Error::other(format!("the kernel gives no random bits: {error}")))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The hash of a secret, as the store has it. A fast hash without salt is enough, because the secret is
/// random.
pub fn hash(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(secret))
}

/// Replaces a file by one with this secret that only its owner can read. The rename replaces it as a
/// whole. Nothing is synced, so a loss of power can leave the file empty, which [`kept_or_made`] treats
/// as missing. `scratch` is a folder on the same file system, because a rename needs that; a daemon
/// empties it at its start.
pub fn keep(secret: &str, file: &Path, scratch: &Path) -> io::Result<()> {
    fs::create_dir_all(scratch)?;
    let mut written = tempfile::NamedTempFile::new_in(scratch)?;
    writeln!(written, "{secret}")?;
    written.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// The secret in a file. If the file is missing or empty, a new secret is made and kept in it.
pub fn kept_or_made(file: &Path, scratch: &Path) -> io::Result<String> {
    let kept = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    if !kept.trim().is_empty() {
        return Ok(kept.trim().to_owned());
    }
    let made = make()?;
    keep(&made, file, scratch)?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_made_once_and_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (file, scratch) = (dir.path().join("secret"), dir.path().join("scratch"));
        let made = kept_or_made(&file, &scratch).unwrap();
        assert_eq!(made.len(), 43);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(kept_or_made(&file, &scratch).unwrap(), made);
        // What a crash has left empty is made anew.
        fs::write(&file, "").unwrap();
        assert_ne!(kept_or_made(&file, &scratch).unwrap(), made);
    }
}
