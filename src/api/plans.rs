//! The plans that questions are answered from, as the command line adds, lists and removes them. Pure.

use std::path::PathBuf;

use crate::api::prelude::*;

/// A plan to be added: the files of a person, by absolute paths.
#[derive(Debug, Deserialize)]
pub struct AddPlanParams {
    pub project_id: ProjectId,
    pub name: String,
    pub version: String,
    #[serde(default)]
    pub replace: bool,
    pub files: Vec<PlanFile>,
}

#[derive(Debug, Deserialize)]
pub struct PlanFile {
    pub path: PathBuf,
    /// What it is called in answers.
    pub source: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct AddedPlan {
    pub status: PlanAdded,
    pub name: String,
    pub version: String,
    pub documents: Vec<PlanDocument>,
}

/// What became of a plan that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanAdded {
    Added,
    /// It was there already, the same in every byte.
    Unchanged,
    Replaced,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct PlanDocument {
    pub source: String,
    pub sections: usize,
}

#[derive(Debug, Deserialize)]
pub struct RemovePlanParams {
    pub project_id: ProjectId,
    pub name: String,
    /// All of them if none is named.
    pub version: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct RemovedPlan {
    pub name: String,
    pub versions: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct PlansParams {
    pub project_id: ProjectId,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Plans {
    pub plans: Vec<Plan>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    pub version: String,
    pub documents: i64,
    pub sections: i64,
    /// Whether questions are answered from it: it is the version added last.
    pub is_current: bool,
    pub added_at: Timestamp,
}
