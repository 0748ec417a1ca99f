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

/// Merges the references into the agent's list, and notes them as written. Blocking.
fn write(own: &Own, now: &Refs) -> io::Result<()> {
    if give(own, now)? {
        fs::rename(own.next_refs(), own.written_refs())?;
    }
    Ok(())
}

/// Merges the references into the agent's list, after a note of what it is to get. `false`: nothing has
/// changed.
fn give(own: &Own, now: &Refs) -> io::Result<bool> {
    let packed = own.common().join("packed");
    let read =
        |bytes: Option<Vec<u8>>| list::parse(&String::from_utf8_lossy(&bytes.unwrap_or_default()));
    let noted = |path: &Path| io::Result::Ok(read(if_there(regular::own(path, LIST_MAX))?));
    // The agent may have put anything there: what can't be read is an empty list.
    let there = read(regular::own(&packed.join(LIST), LIST_MAX).ok());
    let mut written = noted(&own.written_refs())?;
    // A write that was cut off may have changed the agent's list: what the list has of it was written, and
    // was not moved by the agent. This is noted first, because this write may be cut off, too.
    let mut next = noted(&own.next_refs())?;
    next.retain(|name, to| there.get(name) == Some(&*to));
    if !next.is_empty() {
        written.extend(next);
        let kept = own.root().join("kept");
        regular::replace(&kept, "refs", "refs.given", list::text(&written).as_bytes())?;
    }
    let merged = list::merged(&written, &there, now);
    let is_new = merged != there || *now != written;
    if is_new {
        fs::write(own.next_refs(), list::text(now))?;
        regular::replace(&packed, LIST, NEXT, list::text(&merged).as_bytes())?;
    }
    Ok(is_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_write_that_was_cut_off_gave_still_follows_the_persons() {
        let dir = tempfile::tempdir().unwrap();
        let own = Own::of(dir.path(), "app");
        for folder in [own.common().join("packed"), own.root().join("kept")] {
            fs::create_dir_all(folder).unwrap();
        }
        let refs = |digit: &str| {
            ["main", "moved"]
                .map(|name| (format!("refs/heads/{name}"), digit.repeat(40)))
                .into_iter()
                .collect::<Refs>()
        };
        let packed = own.common().join("packed").join(LIST);
        let there = || list::parse(&fs::read_to_string(&packed).unwrap());
        write(&own, &refs("1")).unwrap();
        let mut agents = refs("1");
        agents.insert("refs/heads/moved".to_owned(), "a".repeat(40));
        fs::write(&packed, list::text(&agents)).unwrap();
        // The daemon dies before the note of what was written, and the next one before its list is there.
        assert!(give(&own, &refs("2")).unwrap());
        let list = fs::read(&packed).unwrap();
        assert!(give(&own, &refs("3")).unwrap());
        fs::write(&packed, list).unwrap();
        write(&own, &refs("4")).unwrap();
        agents.insert("refs/heads/main".to_owned(), "4".repeat(40));
        assert_eq!(there(), agents);
        assert!(!give(&own, &refs("4")).unwrap(), "nothing is new");
    }
}
