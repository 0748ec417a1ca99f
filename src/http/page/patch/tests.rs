use std::fs;
use std::path::Path;

use maud::html;
use proptest::prelude::*;

use super::*;
use crate::http::page::colours::Colours;

const PATCH: &str = r#"diff --git a/src/main.rs b/src/main.rs
index 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644
--- a/src/main.rs
+++ b/src/main.rs
@@ -1,4 +1,4 @@ fn main() {
 let a = 1;
-let b = <2>;
+let b = <3>;

 end
@@ -10 +10,2 @@
---- a/minus
+diff --git a/no b/no
++++ b/plus
\ No newline at end of file
diff --git a/old name b/new name
similarity index 91%
rename from old name
rename to new name
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/logo.png b/logo.png
new file mode 100644
index 0000000000000000000000000000000000000000..3333333333333333333333333333333333333333
GIT binary patch
literal 4
Lc$_(N-- 
+++ b/x

literal 0
HcmV?d00001

diff --git "a/caf\303\251 \"x\"\t" "b/caf\303\251 \"x\"\t"
deleted file mode 100644
index 4444444444444444444444444444444444444444..0000000000000000000000000000000000000000
--- "a/caf\303\251 \"x\"\t"
+++ /dev/null
@@ -1 +0,0 @@
-gone
\ No newline at end of file
"#;

#[test]
fn a_patch_is_read_into_files_hunks_and_rows() {
    let files = parse(PATCH);
    let paths: Vec<_> = files.iter().map(FilePatch::path).collect();
    assert_eq!(paths, ["src/main.rs", "new name", "run.sh", "logo.png", "café \"x\"\t"]);
    let kinds: Vec<_> = files.iter().map(|file| file.kind).collect();
    let (modified, added, deleted) = (Kind::Modified, Kind::Added, Kind::Deleted);
    assert_eq!(kinds, [modified, Kind::Renamed, modified, added, deleted]);
    let main = &files[0];
    assert_eq!(main.new_blob.as_deref(), Some("2".repeat(40).as_str()));
    assert_eq!(main.row_count(), 8);
    assert_eq!(main.hunks[0].heading, "fn main() {");
    let rows: Vec<_> =
        main.hunks[0].rows.iter().map(|row| (row.old, row.new, row.text.as_str())).collect();
    let expected = [
        (Some(1), Some(1), "let a = 1;"),
        (Some(2), None, "let b = <2>;"),
        (None, Some(2), "let b = <3>;"),
        (Some(3), Some(3), ""),
        (Some(4), Some(4), "end"),
    ];
    assert_eq!(rows, expected);
    assert_eq!(main.hunks[0].rows[1].marks, vec![Range { start: 9, end: 10 }]);
    assert_eq!(main.hunks[1].rows[2].text, "+++ b/plus");
    assert!(main.hunks[1].rows[2].is_unended && !main.hunks[1].rows[1].is_unended);
    assert_eq!((&*files[1].old_path, files[1].similarity), ("old name", Some(91)));
    assert_eq!(files[2].new_mode.as_deref(), Some("100755"));
    assert!(files[3].is_binary && files[3].hunks.is_empty());
    assert_eq!(files[4].hunks[0].rows.len(), 1);
}

#[test]
fn what_is_no_patch_has_no_files() {
    for text in ["", "diff --git", "@@ -1 +1 @@\n-a\n+b\n", "hello\n"] {
        assert!(parse(text).is_empty(), "{text}");
    }
    let cut = parse("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b");
    assert_eq!(cut[0].row_count(), 2);
    let huge = "diff --git a/x b/x\n@@ -18446744073709551615,9 +18446744073709551615,9 @@\n a\n";
    assert_eq!(parse(huge)[0].row_count(), 0);
}

#[test]
fn the_views_of_a_file() {
    let file = parse(PATCH).remove(0);
    let below = |side: Side, line| (side == Side::Old && line == 2).then(|| html! { "a comment" });
    let colours = Colours::default();
    let view = View { file: &file, colours: &colours, rows: 0..7, below: &below };
    insta::assert_snapshot!("unified", lines(&unified(&view)));
    insta::assert_snapshot!("beside", lines(&side_by_side(&view)));
    let rest = View { rows: 7..usize::MAX, ..view };
    let rest = unified(&rest).into_string();
    assert!(rest.contains("plus") && !rest.contains("@@") && !rest.contains("minus"), "{rest}");
}

/// Markup with a line for each row.
fn lines(markup: &maud::Markup) -> String {
    markup.clone().into_string().replace("<tr", "\n<tr").replace("<tbody", "\n<tbody")
}

/// A repository of its own, gone with its folder.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        scene.git(&["init", "--quiet"]);
        scene
    }

    fn git(&self, args: &[&str]) -> String {
        #[expect(clippy::disallowed_methods, reason = "git itself makes what is read")]
        let mut command = std::process::Command::new("git");
        command.current_dir(self.0.path()).args(args).env("GIT_CONFIG_NOSYSTEM", "1");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env_remove("GIT_DIR");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn tree(&self, files: &[(String, String)]) -> String {
        for entry in fs::read_dir(self.0.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::remove_file(path).unwrap();
            }
        }
        for (name, text) in files {
            fs::write(self.0.path().join(Path::new(name)), text).unwrap();
        }
        self.git(&["add", "--all"]);
        self.git(&["write-tree"]).trim().to_owned()
    }

    fn patch(&self, old: &str, new: &str) -> String {
        self.git(&["diff", "--patch", "--binary", "--full-index", "--find-renames", old, new])
    }
}

/// A text with one side's rows in place of what its hunks cover.
fn applied(old: &str, file: &FilePatch) -> String {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut text, mut at) = (String::new(), 0);
    for hunk in &file.hunks {
        // With a count of 0, the line before is named.
        let start = usize::try_from(hunk.old_start).unwrap() - usize::from(hunk.old_count > 0);
        text.extend(lines[at..start].iter().copied());
        at = start;
        for row in &hunk.rows {
            let ended = format!("{}{}", row.text, if row.is_unended { "" } else { "\n" });
            if row.change != Change::Added {
                assert_eq!(lines[at], ended, "an old row");
                assert_eq!(row.old, Some(at as u64 + 1));
                at += 1;
            }
            if row.change != Change::Deleted {
                text.push_str(&ended);
                assert_eq!(row.new, Some(text.split_inclusive('\n').count() as u64));
            }
            assert!(row.marks.iter().all(|mark| row.text.get(mark.clone()).is_some()));
        }
    }
    text.extend(lines[at..].iter().copied());
    text
}

fn texts() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "a",
        "b",
        "",
        "-- x",
        "++ y",
        "@@ -1 +1 @@",
        "diff --git a/x b/x",
        "\\ No newline",
        "größe = 1",
        "größe = 2",
        "\ttab\r",
        "GIT binary patch",
    ]);
    let text = (prop::collection::vec(line, 0..30), any::<bool>());
    text.prop_map(|(lines, is_ended)| lines.join("\n") + if is_ended { "\n" } else { "" })
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "b c",
        "b",
        "\"q\"",
        "tab\there",
        "é",
        "a b a",
        "x\\y",
        " lead",
        "trail ",
        "b/ b".trim_start_matches("b/"),
        "new\nline",
        "it's",
        "→",
    ])
    .prop_map(str::to_owned)
}

fn trees() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::btree_map(names(), texts(), 0..4)
        .prop_map(|files| files.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn gits_patches_are_read_so_that_they_apply(old in trees(), new in trees()) {
        let scene = Scene::new();
        let (before, after) = (scene.tree(&old), scene.tree(&new));
        let patch = scene.patch(&before, &after);
        let files = parse(&patch);
        let of = |files: &[(String, String)], name: &str| {
            files.iter().find(|it| it.0 == name).map(|it| it.1.clone())
        };
        let mut unmade: Vec<_> = new.iter().filter(|it| of(&old, &it.0).as_ref() != Some(&it.1)).collect();
        for file in &files {
            let was = of(&old, &file.old_path).unwrap_or_default();
            let is = of(&new, &file.new_path);
            match file.kind {
                Kind::Deleted => prop_assert_eq!(applied(&was, file), "", "{}", patch),
                Kind::Added => prop_assert_eq!(Some(applied("", file)), is, "{}", patch),
                _ => prop_assert_eq!(Some(applied(&was, file)), is, "{}", patch),
            }
            unmade.retain(|it| it.0 != file.new_path || file.kind == Kind::Deleted);
        }
        prop_assert!(unmade.is_empty(), "{unmade:?}: {patch}");
    }

    #[test]
    fn any_text_is_taken(text in "(\\PC|\n|diff --git a/|@@ -1,2 \\+1,2 @@\n|\\+|-| |\\\\ |\n){0,60}") {
        let files = parse(&text);
        let colours = Colours::default();
        for file in &files {
            let view = View { file, colours: &colours, rows: 0..usize::MAX, below: &|_, _| None };
            prop_assert!(!unified(&view).into_string().contains("<script"));
            side_by_side(&view);
        }
    }
}
