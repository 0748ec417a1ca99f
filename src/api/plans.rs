//! The plans from which questions are answered: how the command line adds, lists and removes them. Pure.

use std::path::PathBuf;

use crate::api::prelude::*;

/// What `provost/add_plan` takes: a version of a plan, as files with absolute paths.
#[derive(Debug, Deserialize)]
pub struct AddPlanParams {
    pub project_id: ProjectId,
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub replace: bool,
    pub files: Vec<PlanFile>,
}

/// A file of a plan.
#[derive(Debug, Deserialize)]
pub struct PlanFile {
    pub path: PathBuf,
    /// The document's name in answers.
    pub source: String,
}

/// What `provost/add_plan` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct AddedPlan {
    pub status: PlanAdded,
    pub name: String,
    pub version: String,
    pub documents: Vec<PlanDocument>,
}

/// What happened to a plan that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanAdded {
    Added,
    /// The same version with the same bytes was there already.
    Unchanged,
    Replaced,
}

/// A document that was added, and how many sections it has.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlanDocument {
    pub source: String,
    pub sections: usize,
}

/// What `provost/remove_plan` takes.
#[derive(Debug, Deserialize)]
pub struct RemovePlanParams {
    pub project_id: ProjectId,
    pub name: String,
    /// `None`: all versions.
    pub version: Option<String>,
}

/// What `provost/remove_plan` returns: the versions that were removed.
#[derive(Debug, Serialize, Deserialize)]
pub struct RemovedPlan {
    pub name: String,
    pub versions: Vec<String>,
}

/// What `provost/plans` takes.
#[derive(Debug, Deserialize)]
pub struct PlansParams {
    pub project_id: ProjectId,
}

/// What `provost/plans` returns: all versions of all plans of a project, newest first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plans {
    pub plans: Vec<Plan>,
}

/// A version of a plan, and how many documents and sections it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    pub version: String,
    pub documents: i64,
    pub sections: i64,
    /// Questions are answered from it, because it is the last added version.
    pub is_current: bool,
    pub added_at: Timestamp,
}
