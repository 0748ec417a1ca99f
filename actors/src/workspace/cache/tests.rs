//! Entries of the cache, in real folders.

use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;
use crate::ids::AttemptId;
use crate::workspace::own::Own;
use crate::workspace::parting::History;

struct Scene {
    scratch: tempfile::TempDir,
    max_bytes: u64,
}

const PATHS: &[&str] = &["deps", "deps/inner", "other/made"];

impl Scene {
    fn new(max_bytes: u64) -> Self {
        let scene = Self { scratch: tempfile::tempdir().unwrap(), max_bytes };
        for worktree in ["one", "two"] {
            fs::create_dir_all(scene.worktrees().join(worktree)).unwrap();
        }
        scene
    }

    fn worktrees(&self) -> PathBuf {
        self.scratch.path().join("worktrees")
    }

    fn cache(&self) -> Cache {
        let root = self.scratch.path();
        let max_bytes = self.max_bytes;
        Cache { dir: root.join("cache"), scratch: root.join("scratch"), max_bytes }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.worktrees().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The recipe for a worktree.
    fn recipe(&self, name: &str) -> Recipe {
        let root = self.scratch.path();
        Recipe {
            repo: "repo".to_owned(),
            command: "make".to_owned(),
            key_files: vec!["lock".to_owned()],
            paths: PATHS.iter().map(|&path| path.to_owned()).collect(),
            runs_again: false,
            source: Source {
                repo: root.join("checkout"),
                worktrees: self.worktrees(),
                folder: String::new(),
                name: name.to_owned(),
                attempt: AttemptId::new(),
                own: Own::of(&root.join("attempt"), name),
                branch: "provost/x".to_owned(),
                target_branch: "main".to_owned(),
                base: String::new(),
                history: History::default(),
                scratch: root.join("scratch"),
                withheld: Vec::new(),
            },
        }
    }

    fn key(&self, name: &str) -> String {
        self.recipe(name).key().unwrap()
    }

    fn keep(&self, name: &str) -> Result<Option<Copied>, FolderError> {
        self.cache().keep(&self.recipe(name), &self.key(name))
    }

    fn take(&self, name: &str) -> Option<Copied> {
        self.cache().take(&self.recipe(name), &self.key(name)).unwrap()
    }

    fn left(&self) -> usize {
        fs::read_dir(self.cache().scratch).map_or(0, Iterator::count)
    }
}

#[test]
fn what_one_setup_made_another_worktree_gets() {
    let scene = Scene::new(1 << 20);
    scene.write("one/deps/inner/a.js", "module");
    scene.write("one/other/made", "made");
    assert_eq!(scene.take("two"), None, "nothing is kept yet");
    let kept = scene.keep("one").unwrap().unwrap();
    assert_eq!((kept.files, kept.bytes), (2, 10), "a path in a path is copied once");
    assert_eq!(scene.keep("one").unwrap(), None, "it is there");
    assert!(has_none(&scene.recipe("two")).unwrap());
    assert_eq!(scene.take("two").unwrap().files, 2);
    let read = |path: &str| fs::read_to_string(scene.worktrees().join(path)).unwrap();
    assert_eq!(
        (read("two/deps/inner/a.js"), read("two/other/made")),
        ("module".into(), "made".into())
    );
    assert!(!has_none(&scene.recipe("two")).unwrap());
    clear(&scene.recipe("two")).unwrap();
    assert!(has_none(&scene.recipe("two")).unwrap());
    assert_eq!(scene.left(), 0);
}

#[test]
fn a_key_follows_the_files_and_refuses_links() {
    let scene = Scene::new(1 << 20);
    assert_eq!(scene.key("one"), scene.key("two"));
    scene.write("two/lock", "1");
    assert_ne!(scene.key("one"), scene.key("two"));
    scene.write("one/lock", "1");
    assert_eq!(scene.key("one"), scene.key("two"));
    symlink("/etc/passwd", scene.worktrees().join("one/linked")).unwrap();
    let linked = Recipe { key_files: vec!["linked".to_owned()], ..scene.recipe("one") };
    assert!(matches!(linked.key(), Err(FolderError::Refused(_))));
}

#[test]
fn a_link_out_or_a_missing_path_makes_no_entry() {
    let scene = Scene::new(1 << 20);
    scene.write("one/deps/a", "a");
    assert!(
        matches!(scene.keep("one"), Err(FolderError::Refused(why)) if why.contains("other/made"))
    );
    scene.write("one/other/made", "made");
    symlink("/etc", scene.worktrees().join("one/deps/out")).unwrap();
    assert!(
        matches!(scene.keep("one"), Err(FolderError::Refused(why)) if why.contains("leads out"))
    );
    assert_eq!((scene.cache().entries().unwrap().len(), scene.left()), (0, 0));
}

#[test]
fn the_entry_that_was_used_longest_ago_goes_first() {
    let mut scene = Scene::new(1 << 20);
    scene.write("one/deps/a", &"a".repeat(1000));
    scene.write("one/other/made", "");
    scene.write("two/deps/a", &"b".repeat(1000));
    scene.write("two/other/made", "");
    scene.write("two/lock", "2");
    // That of each entry.
    let cost = scene.keep("one").unwrap().unwrap().cost();
    assert!(cost > 1000 + 3 * 1000, "its files and folders count: {cost}");
    let old = SystemTime::now() - Duration::from_mins(1);
    let first = scene.cache().entries().unwrap().remove(0);
    let marker = File::options().append(true).open(first.path.join(ENTRY)).unwrap();
    marker.set_modified(old).unwrap();
    scene.max_bytes = 2 * cost;
    scene.keep("two").unwrap().unwrap();
    scene.max_bytes = cost - 1;
    scene.write("one/lock", "3");
    // Too large: it makes no entry.
    assert!(scene.keep("one").is_err());
    scene.max_bytes = 2 * cost;
    scene.keep("one").unwrap().unwrap();
    let entries = scene.cache().entries().unwrap();
    assert_eq!(entries.len(), 2);
    assert!(!entries.iter().any(|entry| entry.path == first.path), "{entries:?}");
    scene.cache().remove(&entries[0]).unwrap();
    assert_eq!((scene.cache().entries().unwrap().len(), scene.left()), (1, 0));
}

#[test]
fn an_entry_that_the_disk_may_not_have_counts_for_one_boot() {
    let scene = Scene::new(1 << 20);
    scene.write("one/deps/a", "a");
    scene.write("one/other/made", "made");
    let (recipe, key) = (scene.recipe("one"), scene.key("one"));
    let dir = scene.cache().entry(&recipe.repo, &key);
    let read = || records::read::<Record>(&dir, ENTRY).unwrap().unwrap();
    scene.keep("one").unwrap().unwrap();
    let earlier = Record { boot: Some("an earlier boot".to_owned()), ..read() };
    records::write_durably(&dir, ENTRY, &earlier).unwrap();
    assert!(!scene.cache().has(&recipe, &key));
    assert_eq!(scene.take("two"), None);
    scene.keep("one").unwrap().unwrap();
    scene.cache().save(&recipe, &key).unwrap();
    assert_eq!(read().boot, None);
    assert_eq!(scene.take("two").unwrap().files, 2);
}

#[test]
fn where_the_setup_runs_again_what_holds_a_path_is_kept_and_gets_the_new_one() {
    let scene = Scene::new(1 << 20);
    let path = |name: &str| scene.worktrees().join(name).display().to_string();
    scene.write("one/deps/state.json", &path("one"));
    scene.write("one/other/made", "made");
    let refused = scene.keep("one").unwrap_err().to_string();
    assert!(refused.contains("\"state.json\" holds the path of the worktree"), "{refused}");
    let recipe = |name| Recipe { runs_again: true, ..scene.recipe(name) };
    let key = recipe("one").key().unwrap();
    assert_ne!(key, scene.key("one"), "what the other setting keeps is another entry");
    scene.cache().keep(&recipe("one"), &key).unwrap().unwrap();
    scene.cache().take(&recipe("two"), &key).unwrap().unwrap();
    let text = fs::read_to_string(scene.worktrees().join("two/deps/state.json")).unwrap();
    assert_eq!(text, path("two"));
}

#[test]
fn with_a_limit_of_zero_bytes_nothing_is_taken() {
    let mut scene = Scene::new(1 << 20);
    scene.write("one/deps/a", "a");
    scene.write("one/other/made", "made");
    scene.keep("one").unwrap().unwrap();
    scene.max_bytes = 0;
    assert_eq!(scene.take("two"), None);
    scene.max_bytes = 1 << 20;
    assert_eq!(scene.take("two").unwrap().files, 2);
}

#[test]
fn an_entry_is_kept_where_old_ones_can_not_be_removed() {
    let scene = Scene::new(1 << 20);
    scene.write("one/deps/a", "a");
    scene.write("one/other/made", "made");
    fs::create_dir_all(scene.cache().dir).unwrap();
    fs::write(scene.cache().dir.join("no folder"), "").unwrap();
    assert!(scene.cache().entries().is_err());
    assert_eq!(scene.keep("one").unwrap().unwrap().files, 2);
    assert_eq!(scene.take("two").unwrap().files, 2);
}
