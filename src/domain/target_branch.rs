//! The branch that a repository's attempts start from. A person changes it, for example after the
//! repository's own default branch was renamed.

use provost_actors::gateway::check_repository;

use super::Domain;
use crate::api::Refusal;
use crate::api::commands::{SetTargetBranchParams, TargetBranchSet};

impl Domain {
    /// Sets the default target branch of a repository. Attempts that exist keep theirs.
    ///
    /// # Errors
    /// The repository has no such branch, or can't be read.
    pub(super) async fn set_target_branch(
        &self,
        params: SetTargetBranchParams,
    ) -> Result<TargetBranchSet, Refusal> {
        let SetTargetBranchParams { repo_id, path, target_branch } = params;
        // The argument that an error names: the command that changes the branch registers repositories by
        // it.
        let repo = check_repository(&path, Some(&target_branch), "repos[0].path").await?;
        let default_target_branch = repo.default_target_branch;
        self.store.set_target_branch(repo_id, &default_target_branch).await?;
        Ok(TargetBranchSet { repo_id, default_target_branch })
    }
}
