//! `provost diff`: what an attempt changed, as a patch, or as a table of files if the patch is too long.

use anstyle::{AnsiColor, Style};
use provost_actors::workspace::quote;

use super::hints;
use super::prelude::*;

/// The most paths of one call of `get_attempt_patch`; with more files, only the table is printed.
const PATHS_MAX: usize = 100;

/// Bytes of patch to ask for: the daemon's own limit, unless the configuration changes it.
const PATCH_BYTES: u64 = 2_097_152;

#[derive(clap::Args, Debug)]
pub struct DiffArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// Only these files, as --stat lists them; paths that git quotes may be quoted
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// Print the table of changed files, even if the patch is short
    #[arg(long, conflicts_with = "paths")]
    stat: bool,
}

/// `provost diff`. With `--json`: the patch if paths are given, else the list of changes.
pub async fn diff(context: &mut Context, args: &DiffArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    if !args.paths.is_empty() {
        let patch = patch(context, attempt, &args.paths).await?;
        return show_patch(&mut context.out, &patch);
    }
    let changes = json!({"attempt_id": attempt, "force": true});
    let changes = context.call::<GetAttemptChangesOutput>(changes).await?;
    if context.out.as_json(&changes)? {
        return Ok(Exit::Done);
    }
    if !args.stat && (1..=PATHS_MAX).contains(&changes.files.len()) {
        let paths: Vec<String> = changes.files.iter().map(|file| file.path.clone()).collect();
        let patch = patch(context, attempt, &paths).await?;
        if !patch.blocked && !patch.truncated {
            show_merged(&changes.merged);
            return show_patch(&mut context.out, &patch);
        }
    }
    let rows = changes.files.iter().map(|file| {
        let (added, deleted) = (file.added.to_string(), file.deleted.to_string());
        vec![word(&file.status), added, deleted, shown(&file.path)]
    });
    if !changes.files.is_empty() {
        context.out.table(&["STATUS", "ADDED", "DELETED", "FILE"], rows)?;
    }
    context.out.line(&total(&changes.summary))?;
    show_merged(&changes.merged);
    show_hint(changes.hint.as_deref());
    Ok(Exit::Done)
}

/// The patch of some files.
async fn patch(
    context: &mut Context,
    attempt: AttemptId,
    paths: &[String],
) -> Result<Answer<GetAttemptPatchOutput>, Failure> {
    let mut arguments = json!({"attempt_id": attempt, "paths": paths, "max_bytes": PATCH_BYTES});
    let patch = context.call::<GetAttemptPatchOutput>(arguments.clone()).await?;
    if patch.blocked_reason != Some(BlockedReason::SizeExceeded) {
        return Ok(patch);
    }
    // The configuration has a lower limit, which applies where no limit is named.
    arguments["max_bytes"] = Value::Null;
    context.call(arguments).await
}

/// Prints a patch: coloured and harmless for a terminal, else byte for byte, so that `git apply` can
/// read it. Exit code 1 if the daemon did not give it.
fn show_patch(out: &mut Output, patch: &Answer<GetAttemptPatchOutput>) -> Result<Exit, Failure> {
    if out.as_json(patch)? {
    } else if out.terminal {
        for line in patch.patch.lines() {
            let painted = out.paint(style(line), &harmless(line));
            out.painted(&painted)?;
        }
    } else {
        out.raw(&patch.patch)?;
    }
    show_hint(patch.hint.as_deref());
    Ok(if patch.blocked { Exit::Refused } else { Exit::Done })
}

/// Says on standard error what an answer leaves out.
fn show_hint(hint: Option<&str>) {
    let hint = hints::for_person(hint.unwrap_or_default(), "diff");
    if !hint.is_empty() {
        anstream::eprintln!("hint: {}", harmless(&hint));
    }
}

/// Says on standard error that the changes shown were merged already: standard output is only the
/// patch, for programs.
fn show_merged(merged: &[MergedWork]) {
    for MergedWork { repo_name, branch, merged_as, .. } in merged {
        let message = format!(
            "{repo_name}: nothing is new since the merge into {branch} ({}): these are the changes \
             that it brought",
            merged_as.get(..12).unwrap_or(merged_as)
        );
        anstream::eprintln!("merged: {}", harmless(&message));
    }
}

/// A path as it can be given back as PATH: quoted as git does if it has control characters.
fn shown(path: &str) -> String {
    let is_plain = harmless(path) == path && !path.contains('\t');
    if is_plain { path.to_owned() } else { quote::quoted(path.as_bytes()) }
}

fn total(summary: &ChangesSummary) -> String {
    let ChangesSummary { file_count, added, deleted, total_bytes } = summary;
    let plural = if *file_count == 1 { "" } else { "s" };
    format!(
        "{file_count} file{plural} changed, {added} lines added, {deleted} deleted, {total_bytes} \
         bytes"
    )
}

fn style(line: &str) -> Style {
    let is_head =
        ["diff --git ", "index ", "--- ", "+++ "].iter().any(|head| line.starts_with(head));
    match line.as_bytes().first() {
        _ if is_head => Style::new().bold(),
        Some(b'+') => AnsiColor::Green.on_default(),
        Some(b'-') => AnsiColor::Red.on_default(),
        Some(b'@') => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_a_line() {
        let summary = ChangesSummary { file_count: 1, added: 2, deleted: 3, total_bytes: 4 };
        assert_eq!(total(&summary), "1 file changed, 2 lines added, 3 deleted, 4 bytes");
    }

    #[test]
    fn a_path_is_quoted_where_a_line_can_not_bear_it() {
        assert_eq!(shown("app/ä b"), "app/ä b");
        assert_eq!(shown("app/a\tb"), r#""app/a\011b""#);
        assert_eq!(shown("app/\u{1b}[31m\n"), r#""app/\033[31m\012""#);
    }

    #[test]
    fn each_kind_of_line_has_its_colour() {
        let same = |one, other| style(one) == style(other);
        assert!(same("+++ b/x", "diff --git a/x b/x") && !same("+++ b/x", "+x"));
        assert!(!same("+x", "-x") && !same("-x", " x") && !same("@@ -1 +1 @@", " x"));
    }
}
