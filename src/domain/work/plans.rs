//! The bare methods behind `provost plan`: documents read, taken apart, and kept.

use std::io;
use std::path::{Path, PathBuf};

use provost_actors::ids::ProjectId;
use provost_actors::refusal::{Code, Refusal};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::domain::{Domain, blocking};
use crate::store::{NewDocument, NewPlan};
use crate::work::plan::{self, Format};

/// Most bytes of a document, and of all documents of a plan.
const DOCUMENT_MAX: u64 = 8 << 20;
const PLAN_MAX: u64 = 32 << 20;

/// A plan to be added: the files of a person, by absolute paths.
#[derive(Deserialize)]
pub(in crate::domain) struct AddPlan {
    project_id: ProjectId,
    name: String,
    version: String,
    #[serde(default)]
    replace: bool,
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    path: PathBuf,
    /// What it is called in answers.
    source: String,
}

#[derive(Deserialize)]
pub(in crate::domain) struct RemovePlan {
    project_id: ProjectId,
    name: String,
    /// All of them if none is named.
    version: Option<String>,
}

#[derive(Deserialize)]
pub(in crate::domain) struct ListPlans {
    project_id: ProjectId,
}

impl Domain {
    pub(in crate::domain) async fn add_plan(&self, add: AddPlan) -> Result<Value, Refusal> {
        let AddPlan { project_id, name, version, replace, files } = add;
        for (path, value) in [("name", &name), ("version", &version)] {
            check(path, value)?;
        }
        let documents = blocking(move || read_all(&files)).await??;
        let sources = documents
            .iter()
            .map(|document| json!({"source": document.source, "sections": document.sections()}));
        let sources: Vec<Value> = sources.collect();
        let plan = NewPlan { name, version, documents, replaces: replace };
        let added = self.store.add_plan(project_id, &plan).await?;
        Ok(json!({
            "status": added, "name": plan.name, "version": plan.version, "documents": sources,
        }))
    }

    pub(in crate::domain) async fn remove_plan(
        &self,
        remove: RemovePlan,
    ) -> Result<Value, Refusal> {
        let RemovePlan { project_id, name, version } = remove;
        let removed = self.store.remove_plan(project_id, &name, version.as_deref()).await?;
        Ok(json!({"name": name, "versions": removed}))
    }

    pub(in crate::domain) async fn list_plans(&self, list: ListPlans) -> Result<Value, Refusal> {
        Ok(json!({"plans": self.store.plans(list.project_id).await?}))
    }
}

/// Refuses a name or a version that does not fit into a line, or can't be typed again.
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

fn read_all(files: &[File]) -> Result<Vec<NewDocument>, Refusal> {
    let mut left = PLAN_MAX;
    let mut documents: Vec<NewDocument> = Vec::new();
    for File { path, source } in files {
        if documents.iter().any(|other| other.source == *source) {
            return Err(refused(source, "another one of the plan is called the same"));
        }
        let bytes = read(path, source)?;
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            refused(source, &format!("the plan has more than {} MiB with it", PLAN_MAX >> 20))
        })?;
        let content = plan::decode(bytes).map_err(|error| refused(source, &error.to_string()))?;
        let sections = plan::sections(Format::of(source), &content)
            .map_err(|error| refused(source, &error.to_string()))?;
        let document = NewDocument::new(source.clone(), content, sections);
        documents.push(document.map_err(|error| Refusal::internal(error.to_string()))?);
    }
    Ok(documents)
}

fn read(path: &Path, source: &str) -> Result<Vec<u8>, Refusal> {
    let fault = |error: io::Error| refused(source, &format!("it can't be read: {error}"));
    // Before it is opened: a pipe would hold the opener.
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
