//! The method behind `provost gc --kept`: the references that keep unmerged work of attempts whose
//! worktrees or branches are gone, also those of removed projects.

use std::path::PathBuf;

use provost_actors::refusal::Refusal;
use provost_actors::workspace::git::GitError;
use provost_actors::workspace::kept_refs::{KeptRef, list, remove};

use super::Domain;
use super::collect::before;
use crate::api::commands::{GcKeptParams, KeptWork, KeptWorks};

impl Domain {
    /// Lists the kept references of all repositories of this home, oldest first; with `yes`, removes the
    /// old ones.
    pub(super) async fn gc_kept(&self, wish: GcKeptParams) -> Result<KeptWorks, Refusal> {
        let mut kept = Vec::new();
        for path in self.store.repository_paths().await? {
            let path = self.world.settings.worktrees.places.of(path.repo_id, &path.path);
            // A repository that is missing or can't be read has nothing that could be removed.
            for found in list(&path).await.unwrap_or_default() {
                kept.extend(self.kept_work(&wish, path.clone(), found).await?);
            }
        }
        kept.sort_by_key(|one| one.since);
        Ok(KeptWorks { dry_run: !wish.yes, kept })
    }

    /// What one reference keeps, and what happened to it. `None`: no attempt of this board has its id, or
    /// `wish` names another project.
    async fn kept_work(
        &self,
        wish: &GcKeptParams,
        repo: PathBuf,
        found: KeptRef,
    ) -> Result<Option<KeptWork>, Refusal> {
        let Some(of) = self.store.kept_of(found.attempt_id).await? else { return Ok(None) };
        if wish.project_id.is_some_and(|project| project != of.project_id) {
            return Ok(None);
        }
        let since = found.made_at.map_or(of.updated_at, |made_at| made_at.max(of.updated_at));
        let (verdict, reason) = if since > before(wish.older_than_secs) {
            ("kept", Some("it has not been kept for long enough".to_owned()))
        } else if wish.yes {
            let (path, found) = (repo.clone(), found.clone());
            let removing = async move { remove(&path, &found).await };
            match self.world.repositories.in_turn(&repo, removing).await {
                Ok(()) => ("removed", None),
                Err(error) => {
                    let error: GitError = error;
                    ("kept", Some(error.to_string()))
                }
            }
        } else {
            ("removable", None)
        };
        Ok(Some(KeptWork {
            attempt_id: found.attempt_id,
            task_title: of.task_title,
            project_name: of.project_name,
            repo: repo.to_string_lossy().into_owned(),
            reference: found.reference,
            commit: found.commit,
            since,
            verdict: verdict.to_owned(),
            reason,
        }))
    }
}
