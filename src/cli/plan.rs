//! `provost plan`: the documents from which workers' questions are answered.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::prelude::*;
use super::project::{ProjectArg, choose};
use crate::work::plan::Format;

#[derive(clap::Subcommand, Debug)]
pub enum PlanCommand {
    /// Add documents as a version of a plan; the version added last answers questions
    Add(AddArgs),
    /// Remove a plan, or one version of it; answers already given from it stay
    Remove(RemoveArgs),
    /// List the plans of a project
    List(ProjectArg),
}

#[derive(clap::Args, Debug)]
pub struct AddArgs {
    /// Markdown, JSON or text files; from a folder, its .md, .json and .txt files
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The plan's name
    #[arg(long)]
    name: String,
    /// The version's name
    #[arg(long)]
    version: String,
    /// Replace this version if its content differs
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    project: ProjectArg,
}

#[derive(clap::Args, Debug)]
pub struct RemoveArgs {
    /// The plan's name
    name: String,
    /// Only this version [default: all of them]
    #[arg(long)]
    version: Option<String>,
    #[command(flatten)]
    project: ProjectArg,
}

pub async fn plan(context: &mut Context, command: PlanCommand) -> Result<Exit, Failure> {
    match command {
        PlanCommand::Add(args) => add(context, args).await,
        PlanCommand::Remove(args) => remove(context, args).await,
        PlanCommand::List(project) => list(context, project.name()).await,
    }
}

/// Adds files as a version of a plan. The daemon reads the files itself, by their absolute paths.
async fn add(context: &mut Context, args: AddArgs) -> Result<Exit, Failure> {
    let project = choose(context, args.project.name()).await?;
    let (mut files, mut taken) = (Vec::new(), HashSet::new());
    for path in &args.paths {
        for file in documents(path)? {
            // A file is added once, however often it is named.
            if taken.insert(file.canonicalize().unwrap_or_else(|_| file.clone())) {
                files.push(json!({"source": source(&file), "path": std::path::absolute(&file)?}));
            }
        }
    }
    if files.is_empty() {
        return Err(Failure::Usage("there are no .md, .json or .txt files there".to_owned()));
    }
    let plan = json!({"project_id": project, "name": args.name, "version": args.version,
        "replace": args.replace, "files": files});
    let added = context.call::<AddedPlan>(plan).await?;
    for document in added.documents.iter().filter(|document| document.sections == 0) {
        let source = harmless(&document.source);
        anstream::eprintln!("warning: {source} has no section that could answer a question");
    }
    context.show(&added, |out, added| {
        let did = match added.status {
            PlanAdded::Unchanged => "is already there, unchanged",
            PlanAdded::Replaced => "was replaced",
            PlanAdded::Added => "was added",
        };
        out.line(&format!("{} {} {did}", args.name, args.version))?;
        added.documents.iter().try_for_each(|document| {
            let noun = if document.sections == 1 { "section" } else { "sections" };
            out.line(&format!("  {}: {} {noun}", document.source, document.sections))
        })
    })
}

async fn remove(context: &mut Context, args: RemoveArgs) -> Result<Exit, Failure> {
    let project = choose(context, args.project.name()).await?;
    let plan = json!({"project_id": project, "name": args.name, "version": args.version});
    let removed = context.call::<RemovedPlan>(plan).await?;
    context.show(&removed, |out, RemovedPlan { name, versions }| {
        versions.iter().try_for_each(|version| out.line(&format!("{name} {version} was removed")))
    })
}

/// A file as it is given; of a folder, the documents in it and below it, by name, without hidden folders
/// and links.
fn documents(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries = std::fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    let mut found = Vec::new();
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type()?);
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let ending = format!(".{}", ending.to_lowercase());
        if kind.is_dir() && !is_hidden {
            found.extend(documents(&path)?);
        } else if kind.is_file() && Format::ENDINGS.iter().any(|(known, _)| *known == ending) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The document's name in answers: its path in its git repository, else the path as given.
fn source(path: &Path) -> String {
    let whole = path.canonicalize().ok();
    let within = whole.as_deref().and_then(|whole| {
        let root = whole.ancestors().skip(1).find(|folder| folder.join(".git").exists())?;
        whole.strip_prefix(root).ok()
    });
    within.unwrap_or(path).to_string_lossy().into_owned()
}

async fn list(context: &mut Context, project: Option<&str>) -> Result<Exit, Failure> {
    let project = choose(context, project).await?;
    let listed = context.call::<Plans>(json!({"project_id": project})).await?;
    context.show(&listed, |out, listed| {
        let row = |plan: &Plan| {
            vec![
                plan.name.clone(),
                plan.version.clone(),
                if plan.is_current { "yes" } else { "" }.to_owned(),
                plan.documents.to_string(),
                plan.sections.to_string(),
                plan.added_at.to_string(),
            ]
        };
        let columns = ["PLAN", "VERSION", "IN USE", "DOCUMENTS", "SECTIONS", "ADDED"];
        out.list(&columns, listed.plans.iter().map(row), "the project has no plans")
    })
}
