//! The person's branches, tags and remote-tracking references in an attempt's own repository: an agent
//! that rebases onto `main` means the `main` of now. They are written at the beginning of each turn,
//! except those that the agent has moved itself, and do not change during a turn.

use std::fs;
use std::io;
use std::path::Path;

use super::Own;
use super::list::{self, Refs};
use crate::blocking::{blocking, if_there};
use crate::workspace::git::{self, GitError};
use crate::workspace::regular;

/// Bytes of the longest list that is read.
const LIST_MAX: u64 = 64 << 20;
/// The name of git's list, which the agent's git reads and writes.
const LIST: &str = "packed-refs";
/// Its name until it is complete.
const NEXT: &str = "packed-refs.provost";

/// Writes the person's references of the repository at `repo` into the attempt's own one, whose branch
/// has the given name.
///
/// # Errors
/// git can't read the person's references, or the list can't be written.
pub async fn refresh(repo: &Path, own: &Own, branch: &str) -> Result<(), GitError> {
    let now = of_person(repo, branch).await?;
    let own = own.clone();
    Ok(blocking(move || write(&own, &now)).await?)
}

/// The person's references. The attempt's own branch is left out, and names that can't exist beside it:
/// git allows no branch `a/b` beside a branch `a`.
async fn of_person(repo: &Path, branch: &str) -> Result<Refs, GitError> {
    // A symbolic reference, such as `origin/HEAD`, prints an empty line, which is no reference.
    let format = "--format=%(if)%(symref)%(then)%(else)%(objectname) %(refname)%(end)";
    let kinds = ["refs/heads", "refs/tags", "refs/remotes"];
    let listed = git::run(repo, &[&["for-each-ref", format][..], &kinds].concat()).await?;
    let branch = format!("refs/heads/{branch}");
    let is_in = |one: &str, other: &str| {
        one == other || one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
    };
    let mut refs = list::parse(&listed);
    refs.retain(|name, _| !is_in(name, &branch) && !is_in(&branch, name));
    Ok(refs)
}

/// Merges the references into the agent's list. Blocking.
fn write(own: &Own, now: &Refs) -> io::Result<()> {
    let packed = own.common().join("packed");
    let read =
        |bytes: Option<Vec<u8>>| list::parse(&String::from_utf8_lossy(&bytes.unwrap_or_default()));
    // The agent may have put anything there: what can't be read is an empty list.
    let there = read(regular::own(&packed.join(LIST), LIST_MAX).ok());
    let written = read(if_there(regular::own(&own.written_refs(), LIST_MAX))?);
    let merged = list::merged(&written, &there, now);
    if merged != there || *now != written {
        regular::replace(&packed, LIST, NEXT, list::text(&merged).as_bytes())?;
        fs::write(own.written_refs(), list::text(now))?;
    }
    Ok(())
}
