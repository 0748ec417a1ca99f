//! Keeps the credentials of an attempt's state and the person's own in step: what the person has
//! renewed goes to the attempt, and a token that the program has renewed comes back. Blocking.
//!
//! ```text
//!  for each file: is it still what it was when both were last in step?
//!
//!  the person's   the attempt's   then
//!  changed        any             the person's goes to the attempt
//!  the same       the same        nothing
//!  the same       changed         what may be taken of it (credentials.rs) goes to the person, else nothing
//!  any            missing         the person's goes to the attempt when a turn begins, else nothing
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::credentials::{CREDENTIALS_MAX, renewed};
use super::files::Root;
use crate::event::Timestamp;
use crate::sandbox::places::{Person, real};
use crate::sandbox::{Credentials, StatePlace};
use crate::workspace::regular;

/// What both sides were when they were last in step: SHA-256 digests, by the file's path in the state. It
/// lies outside of the state, so no agent can write it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Agreed(BTreeMap<String, Pair>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pair {
    person: String,
    own: String,
}

/// What is to be done about one file.
enum Step {
    Nothing,
    ToAttempt,
    ToPerson(Vec<u8>),
    /// Nothing of what the attempt has may be taken.
    Refused,
}

/// Compares all files of credentials once. `lays`: a file that is missing in the attempt's state is written
/// there, because a turn begins.
pub fn keep(
    root: &Root,
    places: &[StatePlace],
    person: &Person<'_>,
    agreed: &mut Agreed,
    lays: bool,
) -> io::Result<()> {
    for place in places {
        let Ok(from) = person.path(&place.from) else { continue };
        for of in &place.credentials {
            let below = Path::new(&place.folder).join(&of.file);
            one(root, &below, &from.join(&of.file), of, agreed, lays)?;
        }
    }
    Ok(())
}

/// Removes the attempt's copies of credentials.
pub fn forget(root: &Root, places: &[StatePlace]) -> io::Result<()> {
    let mut files = places.iter().flat_map(|place| {
        place.credentials.iter().map(move |of| Path::new(&place.folder).join(&of.file))
    });
    files.try_for_each(|file| root.remove(&file))
}

/// Compares one file.
fn one(
    root: &Root,
    below: &Path,
    theirs: &Path,
    of: &Credentials,
    agreed: &mut Agreed,
    lays: bool,
) -> io::Result<()> {
    // The person may have made it a link, which is followed. Without the file, there is nothing to keep.
    let Some((path, person)) = of_person(theirs) else { return Ok(()) };
    let own = root.read(below, CREDENTIALS_MAX)?;
    let key = below.to_string_lossy().into_owned();
    let before = agreed.0.get(&key);
    let (now, digest_of_own) = (digest(&person), own.as_deref().map(digest));
    let step = match (&own, before) {
        (None, _) if lays => Step::ToAttempt,
        (None, _) => Step::Nothing,
        (Some(_), None) => Step::ToAttempt,
        (Some(_), Some(before)) if before.person != now => Step::ToAttempt,
        (Some(_), Some(before)) if Some(&before.own) == digest_of_own.as_ref() => Step::Nothing,
        (Some(own), Some(_)) => {
            renewed(of, &person, own, Timestamp::now()).map_or(Step::Refused, Step::ToPerson)
        }
    };
    let pair = match step {
        Step::Nothing => return Ok(()),
        Step::ToAttempt => {
            root.put(below, &person[..])?;
            Pair { person: now.clone(), own: now }
        }
        Step::ToPerson(taken) => {
            if !replaced(&path, &now, &taken)? {
                return Ok(());
            }
            tracing::info!(file = %path.display(), "a renewed token was taken from an attempt");
            Pair { person: digest(&taken), own: digest_of_own.unwrap_or_default() }
        }
        Step::Refused => {
            tracing::warn!(file = %path.display(), "what an attempt made of its credentials was not taken");
            Pair { person: now, own: digest_of_own.unwrap_or_default() }
        }
    };
    agreed.0.insert(key, pair);
    Ok(())
}

/// The person's file and its real path. `None`: there is none, or it is too large.
fn of_person(file: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let path = real(file)?;
    let bytes = regular::read(&path, CREDENTIALS_MAX + 1).ok()?;
    (bytes.len() as u64 <= CREDENTIALS_MAX).then_some((path, bytes))
}

/// Replaces the person's file, if it still is what it was. `false`: it has changed, and the next look
/// decides.
fn replaced(path: &Path, was: &str, content: &[u8]) -> io::Result<bool> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.provost-{}", uuid::Uuid::now_v7()));
    let replaced = swapped(path, &temporary, was, content);
    if !matches!(replaced, Ok(true)) {
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

/// Writes the new file beside the old one, durably and with its rights, then renames it.
fn swapped(path: &Path, temporary: &Path, was: &str, content: &[u8]) -> io::Result<bool> {
    let mut options = File::options();
    let mut file = options.write(true).create_new(true).mode(0o600).open(temporary)?;
    file.write_all(content)?;
    file.set_permissions(fs::metadata(path)?.permissions())?;
    file.sync_all()?;
    let is_same = of_person(path).is_some_and(|(_, now)| digest(&now) == was);
    if is_same {
        fs::rename(temporary, path)?;
    }
    Ok(is_same)
}

fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const OLD: &str = r#"{"token":{"access":"a","expires":1000},"kept":1}"#;
    const NEW: &str = r#"{"token":{"access":"b","expires":2000},"kept":2}"#;

    struct Sides {
        _scratch: tempfile::TempDir,
        home: PathBuf,
        state: PathBuf,
        places: Vec<StatePlace>,
        agreed: Agreed,
    }

    impl Sides {
        fn new() -> Self {
            let scratch = tempfile::tempdir().unwrap();
            let home = scratch.path().join("home");
            let state = scratch.path().join("state");
            for folder in [&home, &state] {
                fs::create_dir(folder).unwrap();
            }
            fs::write(home.join("auth.json"), OLD).unwrap();
            let credentials = Credentials {
                file: "auth.json".into(),
                renewed: vec!["token.access".into(), "token.expires".into()],
                newer: Some("token.expires".into()),
            };
            let place = StatePlace {
                from: "~/".into(),
                folder: "s".into(),
                credentials: vec![credentials],
                ..StatePlace::default()
            };
            let agreed = Agreed::default();
            let mut sides = Self { _scratch: scratch, home, state, places: vec![place], agreed };
            sides.look(true);
            sides
        }

        fn look(&mut self, lays: bool) {
            let person = Person { home: Some(&self.home), ..Person::default() };
            let root = Root::open(&self.state).unwrap();
            keep(&root, &self.places, &person, &mut self.agreed, lays).unwrap();
        }

        fn own(&self) -> PathBuf {
            self.state.join("s/auth.json")
        }

        fn person(&self) -> String {
            fs::read_to_string(self.home.join("auth.json")).unwrap()
        }
    }

    #[test]
    fn a_renewed_credential_comes_back_as_data() {
        let mut sides = Sides::new();
        assert_eq!(fs::read_to_string(sides.own()).unwrap(), OLD);
        fs::write(sides.own(), NEW).unwrap();
        sides.look(false);
        let back: serde_json::Value = serde_json::from_str(&sides.person()).unwrap();
        assert_eq!(back, serde_json::json!({"token": {"access": "b", "expires": 2000}, "kept": 1}));
        // Neither side changes any more.
        let person = sides.person();
        sides.look(false);
        assert_eq!(
            (sides.person(), fs::read_to_string(sides.own()).unwrap()),
            (person, NEW.into())
        );
        // Another attempt, or the person, has renewed it since.
        let newest = NEW.replace("2000", "3000");
        fs::write(sides.home.join("auth.json"), &newest).unwrap();
        sides.look(false);
        assert_eq!(fs::read_to_string(sides.own()).unwrap(), newest);
    }

    #[test]
    fn a_forged_credential_does_not_come_back() {
        type Forge = fn(&Sides);
        let forgeries: [(&str, Forge); 6] = [
            ("a link", |it| {
                fs::remove_file(it.own()).unwrap();
                fs::write(it.home.join("other"), NEW).unwrap();
                symlink(it.home.join("other"), it.own()).unwrap();
            }),
            ("a folder that is a link", |it| {
                fs::remove_dir_all(it.state.join("s")).unwrap();
                fs::create_dir(it.home.join("x")).unwrap();
                fs::write(it.home.join("x/auth.json"), NEW).unwrap();
                symlink(it.home.join("x"), it.state.join("s")).unwrap();
            }),
            ("another shape", |it| fs::write(it.own(), NEW.replace("kept", "hooks")).unwrap()),
            ("no JSON", |it| fs::write(it.own(), "token").unwrap()),
            ("oversized", |it| fs::write(it.own(), NEW.to_owned() + &" ".repeat(70_000)).unwrap()),
            ("older", |it| fs::write(it.own(), NEW.replace("2000", "900")).unwrap()),
        ];
        for (what, forge) in forgeries {
            let mut sides = Sides::new();
            forge(&sides);
            sides.look(false);
            sides.look(false);
            assert_eq!(sides.person(), OLD, "{what}");
        }
    }

    #[test]
    fn what_the_person_has_changed_meanwhile_stays() {
        let mut sides = Sides::new();
        fs::write(sides.own(), NEW).unwrap();
        let changed = OLD.replace("\"a\"", "\"mine\"");
        fs::write(sides.home.join("auth.json"), &changed).unwrap();
        sides.look(false);
        assert_eq!(sides.person(), changed);
        assert_eq!(fs::read_to_string(sides.own()).unwrap(), changed);
        assert!(!replaced(&sides.home.join("auth.json"), &digest(b"else"), b"x").unwrap());
        assert_eq!(fs::read_dir(&sides.home).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn who_has_logged_out_in_the_attempt_is_logged_in_again_by_the_next_turn() {
        let mut sides = Sides::new();
        fs::remove_file(sides.own()).unwrap();
        sides.look(false);
        assert!(!sides.own().exists());
        sides.look(true);
        assert_eq!(fs::read_to_string(sides.own()).unwrap(), OLD);
    }
}
