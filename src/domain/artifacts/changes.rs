//! `get_attempt_changes`: the list of what an attempt changed, with counts. Above the `[guards]` limits,
//! only the counts are returned unless the caller sets `force`.

use std::path::Path;

use async_trait::async_trait;
use provost_actors::workspace::changes::Change;
use provost_actors::workspace::compared::Compared;
use provost_actors::workspace::quote;

use super::changed_file;
use super::turns::Turns;
use crate::api::artifacts::{
    BlockedReason, ChangedFile, ChangesSummary, ChangesTool, GetAttemptChangesInput,
    GetAttemptChangesOutput,
};
use crate::api::placed::Needs;
use crate::api::{Caller, Refusable};
use crate::config::Guards;
use crate::domain::Domain;

#[async_trait]
impl ChangesTool for Domain {
    async fn get_attempt_changes(
        &self,
        caller: &Caller,
        input: GetAttemptChangesInput,
    ) -> Refusable<GetAttemptChangesOutput> {
        let id = input.attempt_id;
        if let Some(there) = self.forward_read(TOOL, Needs::Files, Some(caller), id, &input).await?
        {
            return Ok(there);
        }
        let turns = Turns::new(input.from_turn, input.to_turn);
        let workspace = self.changed(TOOL, input.attempt_id, turns).await?;
        let mut summary = ChangesSummary::default();
        let mut files = Vec::new();
        let (mut unread, mut lacking) = (Vec::new(), Vec::new());
        if workspace.is_made {
            let _turn = self.artifacts.turn().await?;
            for repo in &workspace.view.repos {
                let read = async |compared: Compared| {
                    let left_out = compared.left_out(Path::new(&repo.path)).await?;
                    Ok((compared.changes().await?, left_out))
                };
                let (changes, left_out) = workspace.read(TOOL, repo, read).await?;
                lacking.extend(left_out.map(|it| format!("No commit can hold all of it: {it}.")));
                count(&mut summary, &changes);
                let room = FILES_MAX.saturating_sub(files.len());
                let by_setup = workspace.provision.changed_by_setup(&repo.name);
                let listed = changes.iter().take(room);
                files.extend(listed.map(|change| changed_file(&repo.name, change, by_setup)));
                let large = changes.iter().filter(|change| !change.is_read);
                unread.extend(large.map(|change| quote::show(&repo.name, &change.path)));
            }
        }
        let answer = answer(&self.artifacts.guards, input.force, summary, files, &unread);
        lacking.extend(answer.hint);
        let hint = (!lacking.is_empty()).then(|| lacking.join(" "));
        let hint = workspace.with_away_notice(hint);
        Ok(GetAttemptChangesOutput { merged: workspace.merged, hint, ..answer })
    }
}

const TOOL: &str = "get_attempt_changes";

/// Most files in an answer, also with `force`: the answer must fit into one message.
const FILES_MAX: usize = 5000;

fn count(summary: &mut ChangesSummary, changes: &[Change]) {
    summary.file_count += changes.len() as u64;
    for change in changes {
        summary.added += change.added;
        summary.deleted += change.deleted;
        summary.total_bytes += change.bytes;
    }
}

/// The answer: above the limits it has only counts and the way to get the list; else the files, at most
/// [`FILES_MAX`] of them.
fn answer(
    guards: &Guards,
    force: bool,
    summary: ChangesSummary,
    files: Vec<ChangedFile>,
    unread: &[String],
) -> GetAttemptChangesOutput {
    let is_over = summary.file_count > guards.changes_max_files
        || summary.added + summary.deleted > guards.changes_max_lines
        || summary.total_bytes > guards.changes_max_bytes;
    let blocked = is_over && !force;
    let truncated = !blocked && (files.len() as u64) < summary.file_count;
    let mut hints = Vec::new();
    if blocked {
        hints.push(format!("Call {TOOL} again with force = true. It lists the files."));
    } else {
        hints.extend(truncated.then(|| {
            format!(
                "files has the first {FILES_MAX}; get_attempt_patch takes other paths, too, and \
                 tail_attempt_logs shows what the agent did."
            )
        }));
        hints.extend(uncounted(unread));
    }
    GetAttemptChangesOutput {
        summary,
        blocked,
        blocked_reason: blocked.then_some(BlockedReason::ThresholdExceeded),
        truncated,
        merged: Vec::new(),
        hint: (!hints.is_empty()).then(|| hints.join(" ")),
        files: if blocked { Vec::new() } else { files },
    }
}

/// The hint for files whose lines git did not count.
fn uncounted(unread: &[String]) -> Option<String> {
    let first = unread.first()?;
    let rest = match unread.len() {
        1 => String::new(),
        count => format!(" and of {} more", count - 1),
    };
    Some(format!(
        "The lines of {}{rest} are not counted: it is too large, or no file. get_attempt_file \
         reads a part of it.",
        serde_json::json!(first)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUARDS: Guards = Guards {
        changes_max_files: 2,
        changes_max_lines: 10,
        changes_max_bytes: 100,
        file_max_bytes: 1,
        patch_max_bytes: 1,
        patch_max_paths: 1,
    };

    #[test]
    fn each_guard_blocks_by_itself_and_only_beyond_its_limit() {
        let summary = |file_count, added, deleted, total_bytes| ChangesSummary {
            file_count,
            added,
            deleted,
            total_bytes,
        };
        let is_blocked = |summary| answer(&GUARDS, false, summary, Vec::new(), &[]).blocked;
        assert!(!is_blocked(summary(2, 4, 6, 100)));
        for over in [summary(3, 0, 0, 0), summary(1, 5, 6, 0), summary(1, 0, 0, 101)] {
            assert!(is_blocked(over));
            assert!(!answer(&GUARDS, true, over, Vec::new(), &[]).blocked);
        }
    }
}
