//! Conflicts of a merge as data, read from git-merge-tree(1), with git's own names for them. Pure.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

/// Most bytes of one file's hunks. Longer ones are not shown at all.
pub const HUNKS_MAX: usize = 4 * 1024;
/// Lines that are shown before and after a conflict.
const AROUND: usize = 3;

/// A path that git can't merge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// Bytes that are not UTF-8 are replaced.
    pub path: String,
    /// git's own words, such as `contents`, `modify/delete` or `rename/rename`.
    pub kind: String,
    /// The file at the merge base; `None` where that side has no such file.
    pub base: Option<Side>,
    /// The file at the target.
    pub ours: Option<Side>,
    /// The file in the attempt's work.
    pub theirs: Option<Side>,
    /// The lines in conflict with git's markers; `None` where the file is no text, or they are too long.
    pub hunks: Option<String>,
}

/// A version of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// git's mode, such as `100644`.
    pub mode: String,
    /// The id of the blob, or of a submodule's commit.
    pub object: String,
}

/// The result of `git merge-tree --write-tree -z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The merged tree. Files in conflict have git's markers in it.
    pub tree: String,
    /// Empty: the merge worked.
    pub conflicts: Vec<Conflict>,
}

/// Reads git's report; `None`: it is not as git's manual says.
pub fn parse(output: &[u8]) -> Option<Report> {
    let mut fields = output.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let tree = fields.next()?.into_owned();
    let mut conflicts: Vec<Conflict> = Vec::new();
    // First, up to an empty field, the unmerged versions: `mode object stage\tpath`.
    for entry in fields.by_ref().take_while(|field| !field.is_empty()) {
        let (side, path) = entry.split_once('\t')?;
        let [mode, object, stage] = side.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let side = Some(Side { mode: mode.to_owned(), object: object.to_owned() });
        let conflict = of_path(&mut conflicts, path);
        *match stage {
            "1" => &mut conflict.base,
            "2" => &mut conflict.ours,
            "3" => &mut conflict.theirs,
            _ => return None,
        } = side;
    }
    // Then the messages: the number of paths, the paths, the type, the text.
    while let Some(count) = fields.next().filter(|field| !field.is_empty()) {
        let paths: Vec<_> = fields.by_ref().take(count.parse().ok()?).collect();
        let (kind, _text) = (fields.next()?, fields.next()?);
        let Some(kind) = kind.strip_prefix("CONFLICT (").and_then(|it| it.strip_suffix(')')) else {
            continue;
        };
        for path in paths {
            let known = conflicts.iter_mut().find(|it| it.path == path && it.kind.is_empty());
            if let Some(conflict) = known {
                kind.clone_into(&mut conflict.kind);
            }
        }
    }
    for conflict in conflicts.iter_mut().filter(|it| it.kind.is_empty()) {
        "contents".clone_into(&mut conflict.kind);
    }
    Some(Report { tree, conflicts })
}

/// The conflict at a path, added if it is new.
fn of_path<'a>(conflicts: &'a mut Vec<Conflict>, path: &str) -> &'a mut Conflict {
    let at = conflicts.iter().position(|it| it.path == path).unwrap_or_else(|| {
        conflicts.push(Conflict { path: path.to_owned(), ..Conflict::default() });
        conflicts.len() - 1
    });
    &mut conflicts[at]
}

/// The conflicts in a merged file, with a few lines around each and the line number before each group.
/// `None`: it has none, or they are longer than [`HUNKS_MAX`].
pub fn hunks(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown = vec![false; lines.len()];
    let mut begun = None;
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("<<<<<<< ") {
            begun = Some(at);
        } else if line.starts_with(">>>>>>> ")
            && let Some(first) = begun.take()
        {
            let last = (at + AROUND).min(lines.len() - 1);
            shown[first.saturating_sub(AROUND)..=last].fill(true);
        }
    }
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| shown[*at]) {
        if at > 0 && !shown[at - 1] {
            // Writing to a string can't fail.
            let _ = writeln!(text, "@@ line {} @@", at + 1);
        }
        text.push_str(line);
        text.push('\n');
    }
    (!text.is_empty() && text.len() <= HUNKS_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_git_becomes_conflicts_by_path() {
        let report = b"aaaa\x00100644 1111 1\ta b\x00100644 2222 2\ta b\x00100644 3333 3\ta b\x00\
                       100644 4444 1\tgone\x00100644 5555 3\tgone\x00\x00\
                       1\x00a b\x00Auto-merging\x00Auto-merging a b\n\x00\
                       1\x00a b\x00CONFLICT (contents)\x00CONFLICT (content): in a b\n\x00\
                       1\x00gone\x00CONFLICT (modify/delete)\x00CONFLICT: gone\n\x00";
        let report = parse(report).unwrap();
        assert_eq!(report.tree, "aaaa");
        let kinds: Vec<_> = report.conflicts.iter().map(|it| (&*it.path, &*it.kind)).collect();
        assert_eq!(kinds, [("a b", "contents"), ("gone", "modify/delete")]);
        assert_eq!(report.conflicts[0].ours.as_ref().unwrap().object, "2222");
        assert_eq!(report.conflicts[1].ours, None);
        assert_eq!(parse(b"aaaa\x00").unwrap().conflicts, []);
        assert_eq!(parse(b"aaaa\x00what\x00"), None);
    }

    #[test]
    #[expect(clippy::format_collect, reason = "nine lines of a test")]
    fn hunks_are_the_conflicts_with_a_few_lines_around_each() {
        let before: String = (1..=9).map(|n| format!("line {n}\n")).collect();
        let conflict = "<<<<<<< one\nours\n=======\ntheirs\n>>>>>>> two\n";
        let text = format!("{before}{conflict}after\n");
        let shown = format!("@@ line 7 @@\nline 7\nline 8\nline 9\n{conflict}after\n");
        assert_eq!(hunks(&text), Some(shown));
        assert_eq!(hunks("plain\n"), None);
        assert_eq!(hunks(&"<<<<<<< one\nx\n=======\n>>>>>>> two\n".repeat(1000)), None);
    }
}
