//! The branch that a repository's attempts start from: a person changes it, such as after the
//! repository's own default branch was renamed.

use provost_actors::gateway::check_repository;

use super::Domain;
use crate::api::Refusal;
use crate::api::commands::{SetTargetBranchParams, TargetBranchSet};

impl Domain {
    pub(super) async fn set_target_branch(
        &self,
        params: SetTargetBranchParams,
    ) -> Result<TargetBranchSet, Refusal> {
        let SetTargetBranchParams { repo_id, path, target_branch } = params;
        // With the field of the call by which the same verb registers a repository.
        let repo = check_repository(&path, Some(&target_branch), "repos[0].path").await?;
        let default_target_branch = repo.default_target_branch;
        self.store.set_target_branch(repo_id, &default_target_branch).await?;
        Ok(TargetBranchSet { repo_id, default_target_branch })
    }
}
