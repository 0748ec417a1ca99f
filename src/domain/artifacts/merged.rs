//! After a merge, an attempt has no changes against its target any more. This file then shows what the
//! last merge brought, until there is something new.

use std::path::Path;

use provost_actors::attempt::has_worktrees;
use provost_actors::ids::AttemptId;
use provost_actors::journal::{AttemptRepo, Snapshots as _};
use provost_actors::refusal::Refusal;
use provost_actors::workspace::compared::{Compared, Span};
use provost_actors::workspace::git::{self, GitError};
use provost_actors::workspace::parting::{self, Landing};
use provost_actors::workspace::snapshot::SnapshotError;

use super::Workspace;
use super::turns::Turns;
use crate::api::artifacts::MergedWork;
use crate::domain::Domain;

impl Domain {
    /// The workspace with the spans to show: what the last merge brought if everything was merged and
    /// `turns` asks for all of the work, else what `turns` names.
    pub(super) async fn changed(
        &self,
        tool: &str,
        attempt: AttemptId,
        turns: Turns,
    ) -> Result<Workspace, Refusal> {
        let mut workspace = self.looked_up(tool, attempt, turns).await?;
        let has_landed = workspace.histories.values().any(|it| !it.landings.is_empty());
        if has_landed {
            let last = self.store.snapshot_turns(attempt).await?.last().copied();
            let is_there = workspace.away.is_some()
                || has_worktrees(&self.world, attempt).await.unwrap_or(false);
            let _turn = self.artifacts.turn().await?;
            if turns.are_all(last) && !workspace.has_news(tool, is_there).await {
                workspace.show_merged(tool).await?;
            }
        }
        self.not_collected(workspace).await
    }
}

impl Workspace {
    /// True if anything is new since the last merge. What can't be read counts as new: then the plain
    /// comparison is shown, whose error tells why.
    async fn has_news(&self, tool: &str, is_there: bool) -> bool {
        for repo in &self.view.repos {
            let read = async |compared: Compared| compared.changes().await;
            let has_news = if is_there {
                let own = self.spans.get(&repo.name).filter(|_| self.away.is_some());
                let span = own.unwrap_or(&Span::SinceMergeBase);
                let changes = self.read_in(tool, repo, span, read).await;
                changes.map_or(true, |changes| !changes.is_empty())
            } else {
                self.left(repo).await.unwrap_or(true)
            };
            if has_news {
                return true;
            }
        }
        false
    }

    /// True if a collected attempt left work that was not merged: a snapshot kept at its collection, or
    /// commits on its branch after the last merged one.
    async fn left(&self, repo: &AttemptRepo) -> Result<bool, GitError> {
        let path = Path::new(&repo.path);
        let saved = format!("refs/provost/snapshots/{}", self.attempt);
        if git::ref_tip(path, &saved).await?.is_some() {
            return Ok(true);
        }
        let Some(tip) = git::branch_tip(path, &self.view.branch).await? else { return Ok(false) };
        let history = self.history(repo).cloned().unwrap_or_default();
        let since = parting::since(path, &repo.target_branch, &tip, &history).await?;
        Ok(since.as_ref() != Some(&tip))
    }

    /// Replaces the spans by what the last merge brought in each repository. Nothing changes if none was
    /// merged.
    async fn show_merged(&mut self, tool: &str) -> Result<(), Refusal> {
        let (mut spans, mut merged) = (self.spans.clone(), Vec::new());
        for repo in &self.view.repos {
            let (path, history) = (Path::new(&repo.path), self.history(repo));
            let history = history.cloned().unwrap_or_default();
            let last = parting::merged_last(path, &repo.target_branch, &history).await;
            let last =
                last.map_err(|error| self.refusal(tool, repo, &SnapshotError::from(error)))?;
            let span = match last {
                Some((Landing { commit, branch, result, .. }, since)) => {
                    merged.push(MergedWork {
                        repo_name: repo.name.clone(),
                        branch,
                        commit: commit.clone(),
                        merged_as: result,
                    });
                    Span::Between(since, commit)
                }
                // This repository has no merge and no changes: an empty span.
                None => Span::Between(repo.base_commit.clone(), repo.base_commit.clone()),
            };
            spans.insert(repo.name.clone(), span);
        }
        if !merged.is_empty() {
            // Merged commits are in the repository, also after the worktrees were collected.
            (self.spans, self.merged, self.is_made) = (spans, merged, true);
        }
        Ok(())
    }
}
