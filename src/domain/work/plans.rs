//! The methods behind `provost plan`: documents are read, split into sections, and stored.

use std::io;
use std::path::Path;

use provost_actors::refusal::{Code, Refusal};

use crate::api::commands::{
    AddPlanParams, AddedPlan, PlanDocument, PlanFile, Plans, PlansParams, RemovePlanParams,
    RemovedPlan,
};
use crate::domain::{Domain, blocking};
use crate::store::{NewDocument, NewPlan};
use crate::work::plan;

/// Largest document of a plan, and largest plan, in bytes.
const DOCUMENT_MAX: u64 = 8 << 20;
const PLAN_MAX: u64 = 32 << 20;

impl Domain {
    /// Reads the files and adds them as a version of a plan: all of them, or nothing.
    ///
    /// # Errors
    /// A name is not printable, a file is no regular file, too large or not readable as a document, or
    /// the version exists.
    pub(in crate::domain) async fn add_plan(
        &self,
        add: AddPlanParams,
    ) -> Result<AddedPlan, Refusal> {
        let AddPlanParams { project_id, name, version, replace, files } = add;
        for (path, value) in [("name", &name), ("version", &version)] {
            check(path, value)?;
        }
        let documents = blocking(move || read_all(&files)).await??;
        let plan = NewPlan { name, version, documents, replaces: replace };
        let status = self.store.add_plan(project_id, &plan).await?;
        let NewPlan { name, version, documents, .. } = plan;
        let document =
            |it: NewDocument| PlanDocument { sections: it.sections(), source: it.source };
        let documents = documents.into_iter().map(document).collect();
        Ok(AddedPlan { status, name, version, documents })
    }

    /// Removes one version of a plan, or without a version all of them. Answers that were given from it
    /// stay.
    pub(in crate::domain) async fn remove_plan(
        &self,
        remove: RemovePlanParams,
    ) -> Result<RemovedPlan, Refusal> {
        let RemovePlanParams { project_id, name, version } = remove;
        let versions = self.store.remove_plan(project_id, &name, version.as_deref()).await?;
        Ok(RemovedPlan { name, versions })
    }

    /// The plans of a project, without their contents.
    pub(in crate::domain) async fn list_plans(&self, list: PlansParams) -> Result<Plans, Refusal> {
        Ok(Plans { plans: self.store.plans(list.project_id).await? })
    }
}

/// Refuses a name or a version that is blank or has control characters: it would break a line of output,
/// and a person could not type it.
fn check(path: &str, value: &str) -> Result<(), Refusal> {
    let why = if value.trim().is_empty() {
        "is blank"
    } else if value.chars().any(char::is_control) {
        "has control characters"
    } else {
        return Ok(());
    };
    Err(Refusal::new(Code::InvalidArgument, format!("the plan's {path} {why}"))
        .hint(format!("Add the plan with another --{path}."))
        .detail("path", path))
}

/// Reads and parses all files of a plan before anything is written. Blocking.
fn read_all(files: &[PlanFile]) -> Result<Vec<NewDocument>, Refusal> {
    let mut left = PLAN_MAX;
    let mut documents: Vec<NewDocument> = Vec::new();
    for PlanFile { path, source } in files {
        if documents.iter().any(|other| other.source == *source) {
            return Err(refused(source, "another one of the plan is called the same"));
        }
        let bytes = read(path, source)?;
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            refused(source, &format!("the plan has more than {} MiB with it", PLAN_MAX >> 20))
        })?;
        let content = plan::decode(bytes).map_err(|error| refused(source, &error.to_string()))?;
        let document = NewDocument::parse(source.clone(), content);
        documents.push(document.map_err(|error| refused(source, &error.to_string()))?);
    }
    Ok(documents)
}

/// Reads a file of bounded size. `source` is the name that errors use.
fn read(path: &Path, source: &str) -> Result<Vec<u8>, Refusal> {
    let fault = |error: io::Error| refused(source, &format!("it can't be read: {error}"));
    // Checked before the file is opened: `open` of a named pipe waits for its writer.
    let file = std::fs::metadata(path).map_err(fault)?;
    if !file.is_file() {
        return Err(refused(source, "it is not a regular file"));
    }
    if file.len() > DOCUMENT_MAX {
        let size = file.len();
        let most = DOCUMENT_MAX >> 20;
        return Err(refused(source, &format!("it has {size} bytes, and {most} MiB is the limit")));
    }
    std::fs::read(path).map_err(fault)
}

fn refused(source: &str, why: &str) -> Refusal {
    Refusal::new(Code::InvalidArgument, format!("{source} can't be a plan's document: {why}"))
        .hint("Fix or leave out the document, then add the plan again: nothing of it was kept.")
        .detail("source", source)
}
