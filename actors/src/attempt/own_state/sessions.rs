//! The files of a session: found by the patterns of the configuration, and copied from one state to
//! another one, under the name of the new working folder. Blocking.
//!
//! A pattern is a path with `*` for any characters, `{id}`, `{id8}` (the first 8 characters of the id) and
//! `{cwd}` (the working folder, as the program spells it in a file name).

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::files::{Kind, Root};

/// The largest session: in bytes, and in files.
const BYTES_MAX: u64 = 512 * 1024 * 1024;
const FILES_MAX: usize = 10_000;
/// How many names of a folder are looked at.
const NAMES_MAX: usize = 100_000;
/// How deep folders may be nested.
const DEPTH_MAX: usize = 16;
/// The length of `{id8}`. A shorter id is not looked for.
const SHORT: usize = 8;

/// Whether an id can be part of a file name. An agent has chosen it, so it may be any text.
fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (SHORT..=128).contains(&id.len()) && !id.starts_with('.') && id.chars().all(plain)
}

/// A working folder as the name of a file in a state has it.
fn encoded(cwd: &Path) -> String {
    let text = cwd.to_string_lossy();
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Whether a state has the session. If no pattern names the id, the files hold all sessions, and any such
/// file counts.
pub fn has(root: &Root, patterns: &[String], id: &str) -> io::Result<bool> {
    let own = patterns.iter().filter(|it| it.contains("{id"));
    // Without such a pattern, the files that there are hold all sessions.
    let own: Vec<&String> =
        if own.clone().next().is_some() { own.collect() } else { patterns.iter().collect() };
    for pattern in own {
        if !found(root, pattern, id, Path::new(""))?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Copies the session's files; a file that is there already stays. A session beyond the limits is copied in
/// part: its program will say that it does not know it.
pub fn copy(from: &Root, to: &Root, patterns: &[String], id: &str, cwd: &Path) -> io::Result<()> {
    let mut room = (BYTES_MAX, FILES_MAX);
    for pattern in patterns {
        for Found { path, target, kind } in found(from, pattern, id, cwd)? {
            copy_all(from, to, &path, &target, kind, &mut room, DEPTH_MAX)?;
        }
    }
    Ok(())
}

/// Copies a file, or a folder with what is in it. `room`: what may still be copied.
fn copy_all(
    from: &Root,
    to: &Root,
    path: &Path,
    target: &Path,
    kind: Kind,
    room: &mut (u64, usize),
    depth: usize,
) -> io::Result<()> {
    if kind == Kind::Folder {
        let inside = if depth == 0 { Vec::new() } else { from.list(path, NAMES_MAX)? };
        for (name, kind) in inside {
            if let Some(kind) = kind {
                let (path, target) = (path.join(&name), target.join(&name));
                copy_all(from, to, &path, &target, kind, room, depth - 1)?;
            }
        }
        return Ok(());
    }
    let Some(file) = from.file(path)? else { return Ok(()) };
    let size = file.metadata()?.len();
    let (bytes, files) = (room.0.checked_sub(size), room.1.checked_sub(1));
    let (Some(bytes), Some(files)) = (bytes, files) else { return Ok(()) };
    *room = (bytes, files);
    if to.file(target)?.is_some() {
        return Ok(());
    }
    to.put(target, file.take(size))
}

/// A file or a folder that a pattern has matched.
struct Found {
    path: PathBuf,
    /// Where it belongs in a state for the new working folder.
    target: PathBuf,
    kind: Kind,
}

/// What a pattern matches, folder by folder. Nothing for an id that is not plain.
fn found(root: &Root, pattern: &str, id: &str, cwd: &Path) -> io::Result<Vec<Found>> {
    if !is_plain(id) {
        return Ok(Vec::new());
    }
    let mut at = vec![Found { path: PathBuf::new(), target: PathBuf::new(), kind: Kind::Folder }];
    for part in pattern.split('/') {
        let wanted = part.replace("{id8}", &id[..SHORT]).replace("{id}", id);
        let wanted = wanted.replace("{cwd}", "*");
        let mut next = Vec::new();
        for above in at.iter().filter(|it| it.kind == Kind::Folder) {
            for (name, kind) in root.list(&above.path, NAMES_MAX)? {
                let Some(kind) = kind.filter(|_| matches(&wanted, &name)) else { continue };
                let new = if part == "{cwd}" { encoded(cwd) } else { name.clone() };
                let (path, target) = (above.path.join(name), above.target.join(new));
                next.push(Found { path, target, kind });
            }
        }
        at = next;
    }
    Ok(at)
}

/// Whether a name matches a pattern with `*` for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(place) = left.find(part) else { return false };
        left = &left[place + part.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: &str = "0123abcd-77";

    #[test]
    fn a_pattern_names_what_it_says() {
        for (pattern, name) in [("a", "a"), ("*", "x"), ("r-*-x*", "r-1-x.json"), ("*x*", "axb")] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("r-*-x", "r-1-y"), ("*x", "xa"), ("a*a", "a")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_session_is_found_and_laid_where_the_new_working_folder_has_it() {
        let scratch = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
        for file in [
            format!("projects/-w-old/{ID}.jsonl"),
            format!("projects/-w-old/{ID}/sub/agent.jsonl"),
            "projects/-w-old/other-session.jsonl".to_owned(),
            "settings.json".to_owned(),
        ] {
            let file = from.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        fs::write(scratch.path().join("key"), "a key").unwrap();
        symlink("../../../key", from.join(format!("projects/-w-old/{ID}/link"))).unwrap();
        fs::create_dir(&to).unwrap();
        let [from, to_root] = [&from, &to].map(|it| Root::open(it).unwrap());
        let patterns = ["projects/{cwd}/{id}.jsonl", "projects/{cwd}/{id}"].map(str::to_owned);
        assert!(has(&from, &patterns, ID).unwrap());
        assert!(!has(&to_root, &patterns, ID).unwrap());
        copy(&from, &to_root, &patterns, ID, Path::new("/w/n_w")).unwrap();
        let own = to.join("projects/-w-n-w");
        assert!(own.join(format!("{ID}.jsonl")).exists());
        assert!(own.join(format!("{ID}/sub/agent.jsonl")).exists());
        assert!(!own.join(format!("{ID}/link")).exists());
        assert!(!own.join("other-session.jsonl").exists());
        for id in ["../../../key", "*", "", ".", "projects"] {
            assert!(!has(&from, &patterns, id).unwrap(), "{id}");
        }
    }
}
