//! `provost init` and `provost project`: the repositories that tasks are
//! worked on in.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::context::{Context, check_piece, not_found, only, text};
use super::exit::{Exit, Failure};
use super::output::harmless;
use super::table::{cut, whole};

#[derive(clap::Args, Debug)]
pub struct InitArgs {
    /// A folder in the git repository
    #[arg(default_value = ".")]
    path: PathBuf,
    /// The project's name [default: the repository's folder name]
    #[arg(long)]
    name: Option<String>,
    /// The branch that attempts start from [default: the branch that is checked out]
    #[arg(long, value_name = "BRANCH")]
    target_branch: Option<String>,
}

#[derive(clap::Subcommand, Debug)]
pub enum ProjectCommand {
    /// Register a project with one or more repositories
    Add {
        name: String,
        /// A git repository and the branch that attempts start from
        #[arg(long = "repo", value_name = "PATH[@BRANCH]", required = true)]
        repos: Vec<String>,
    },
    /// List the projects and their repositories
    List,
}

/// Registers the repository at a path, unless it is there already.
pub async fn init(context: &mut Context, args: InitArgs) -> Result<Exit, Failure> {
    let path = repository_root(&absolute(&args.path)?);
    for project in projects(context).await? {
        if let Some(repo) = project.repos.iter().find(|repo| Path::new(text(repo, "path")) == path)
        {
            let branch = text(repo, "default_target_branch");
            let note =
                format!("{} is already registered, with target branch {branch}", path.display());
            return print_ids(context, &project, repo, &note);
        }
    }
    let base = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = args.name.or(base).unwrap_or_else(|| "project".to_owned());
    let mut repo = json!({"path": path});
    if let Some(branch) = args.target_branch {
        repo["target_branch"] = json!(branch);
    }
    let created = context.tool("create_project", json!({"name": name, "repos": [repo]})).await?;
    let project = with_repos(context, json!({"project_id": created["project_id"], "name": name}));
    let project = project.await?;
    let repo = project.repos.first().cloned().unwrap_or_default();
    print_ids(context, &project, &repo, &format!("registered {}", path.display()))
}

fn print_ids(
    context: &mut Context,
    project: &Project,
    repo: &Value,
    note: &str,
) -> Result<Exit, Failure> {
    if context.out.is_json() {
        let ids = json!({"project_id": project.id, "repo_id": repo["repo_id"]});
        context.out.json(&ids)?;
    } else {
        context.out.line(&harmless(note))?;
        context.out.line(&format!("project {}", project.id))?;
        context.out.line(&format!("repo    {}", text(repo, "repo_id")))?;
    }
    Ok(Exit::Done)
}

pub async fn project(context: &mut Context, command: ProjectCommand) -> Result<Exit, Failure> {
    match command {
        ProjectCommand::Add { name, repos } => add(context, &name, &repos).await,
        ProjectCommand::List => list(context).await,
    }
}

async fn add(context: &mut Context, name: &str, repos: &[String]) -> Result<Exit, Failure> {
    let repos: Vec<Value> =
        repos.iter().map(|repo| repo_argument(repo)).collect::<Result<_, _>>()?;
    let created = context.tool("create_project", json!({"name": name, "repos": repos})).await?;
    if context.out.is_json() {
        context.out.json(&created)?;
    } else {
        context.out.line(text(&created, "project_id"))?;
    }
    Ok(Exit::Done)
}

/// `PATH[@BRANCH]`; a path that exists as it stands may itself hold an `@`.
fn repo_argument(given: &str) -> Result<Value, Failure> {
    let (path, branch) = match given.rsplit_once('@') {
        Some((path, branch)) if !path.is_empty() && !branch.is_empty() => {
            if Path::new(given).exists() { (given, None) } else { (path, Some(branch)) }
        }
        _ => (given, None),
    };
    let mut repo = json!({"path": absolute(Path::new(path))?});
    if let Some(branch) = branch {
        repo["target_branch"] = json!(branch);
    }
    Ok(repo)
}

async fn list(context: &mut Context) -> Result<Exit, Failure> {
    if context.out.is_json() {
        let mut projects = context.all("list_projects", "projects").await?;
        for project in &mut projects {
            project["repos"] = json!(with_repos(context, project.clone()).await?.repos);
        }
        context.out.json(&json!({"projects": projects}))?;
        return Ok(Exit::Done);
    }
    let mut rows = Vec::new();
    for project in projects(context).await? {
        let repos = project
            .repos
            .iter()
            .map(|repo| format!("{}@{}", text(repo, "path"), text(repo, "default_target_branch")));
        let repos = repos.collect::<Vec<_>>().join(", ");
        rows.push(vec![project.id, project.name, repos]);
    }
    let none = "there is no project yet; `provost init` registers this repository as one";
    let columns = [whole("PROJECT"), cut("NAME"), whole("REPOSITORIES")];
    context.out.list(&columns, &rows, none)?;
    Ok(Exit::Done)
}

/// A project with its repositories as `list_repos` gives them.
pub struct Project {
    pub id: String,
    pub name: String,
    repos: Vec<Value>,
}

impl Project {
    /// How deep in the file tree its innermost repository around a folder lies.
    fn depth(&self, folder: &Path) -> Option<usize> {
        let paths = self.repos.iter().map(|repo| Path::new(text(repo, "path")));
        paths.filter(|path| folder.starts_with(path)).map(|path| path.components().count()).max()
    }
}

async fn projects(context: &mut Context) -> Result<Vec<Project>, Failure> {
    let mut projects = Vec::new();
    for project in context.all("list_projects", "projects").await? {
        projects.push(with_repos(context, project).await?);
    }
    Ok(projects)
}

async fn with_repos(context: &mut Context, project: Value) -> Result<Project, Failure> {
    let id = text(&project, "project_id").to_owned();
    let mut listed = context.read("list_repos", &json!({"project_id": id})).await?;
    let repos = match listed["repos"].take() {
        Value::Array(repos) => repos,
        _ => Vec::new(),
    };
    Ok(Project { id, name: text(&project, "name").to_owned(), repos })
}

/// The project that was named, or the one that is meant where nothing is said:
/// the project of the repository around the working directory, else the only
/// one.
pub async fn choose(context: &mut Context, given: Option<&str>) -> Result<String, Failure> {
    let projects = projects(context).await?;
    match given {
        Some(given) => named(&projects, given),
        None => implied(&projects, &absolute(Path::new("."))?),
    }
}

/// The same for what starts work; says on standard error which project that is where
/// neither the command line nor the working directory tells.
pub async fn choose_aloud(context: &mut Context, given: Option<&str>) -> Result<String, Failure> {
    if given.is_some() {
        return choose(context, given).await;
    }
    let projects = projects(context).await?;
    let here = absolute(Path::new("."))?;
    let chosen = implied(&projects, &here)?;
    let its = projects.iter().find(|project| project.id == chosen);
    if let Some(project) = its.filter(|project| project.depth(&here).is_none())
        && !context.out.is_json()
    {
        anstream::eprintln!("project {}, the only one", harmless(&project.name));
    }
    Ok(chosen)
}

fn named(projects: &[Project], given: &str) -> Result<String, Failure> {
    let ids = |of: &dyn Fn(&Project) -> bool| -> Vec<&str> {
        projects.iter().filter(|project| of(project)).map(|project| project.id.as_str()).collect()
    };
    let by_name = ids(&|project| project.name == given);
    if !by_name.is_empty() {
        return only(&by_name, given, "project").map(str::to_owned);
    }
    let Ok(piece) = check_piece(given) else {
        let name = harmless(given);
        return Err(not_found("project", format!("there is no project {name}")));
    };
    let by_id = ids(&|project| project.id.starts_with(&piece) || project.id.ends_with(&piece));
    only(&by_id, &piece, "project").map(str::to_owned)
}

fn implied(projects: &[Project], cwd: &Path) -> Result<String, Failure> {
    // The innermost repository around the working directory decides.
    let depth = |project: &Project| project.depth(cwd);
    let deepest = projects.iter().filter_map(depth).max();
    let around: Vec<&Project> =
        projects.iter().filter(|project| deepest.is_some() && depth(project) == deepest).collect();
    match (around.as_slice(), projects) {
        ([project], _) => Ok(project.id.clone()),
        ([], [project]) => Ok(project.id.clone()),
        ([], []) => Err(Failure::Usage(
            "there is no project yet; register a git repository with `provost init`".to_owned(),
        )),
        ([], several) => Err(several_projects(several.iter())),
        (several, _) => Err(several_projects(several.iter().copied())),
    }
}

fn several_projects<'p>(projects: impl Iterator<Item = &'p Project>) -> Failure {
    let names: Vec<String> =
        projects.map(|project| format!("{} ({})", project.name, project.id)).collect();
    Failure::Usage(format!(
        "which project? Give one with --project, or register this repository with \
         `provost init`: {}",
        names.join(", ")
    ))
}

/// The path as the daemon, whose working directory is another, can use it.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    match path.canonicalize() {
        Ok(path) => Ok(path),
        // The daemon says that it is no repository.
        Err(_) => Ok(std::path::absolute(path)?),
    }
}

/// The nearest folder around a path that holds a `.git`; else the path.
fn repository_root(path: &Path) -> PathBuf {
    path.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(id: &str, name: &str, paths: &[&str]) -> Project {
        let repos = paths.iter().map(|path| json!({"path": path})).collect();
        Project { id: id.to_owned(), name: name.to_owned(), repos }
    }

    fn choose_in(projects: &[Project], cwd: &str) -> Result<String, String> {
        implied(projects, Path::new(cwd)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn the_innermost_repository_around_the_working_directory_decides() {
        let projects = [
            project("1", "a", &["/a"]),
            project("2", "b", &["/a/b", "/c"]),
            project("3", "d", &[]),
        ];
        assert_eq!(choose_in(&projects, "/a/x").unwrap(), "1");
        assert_eq!(choose_in(&projects, "/a/b/x").unwrap(), "2");
        assert_eq!(choose_in(&projects, "/c").unwrap(), "2");
        assert!(choose_in(&projects, "/ab").unwrap_err().contains("--project"));
    }

    #[test]
    fn outside_of_repositories_the_only_project_is_meant() {
        assert_eq!(choose_in(&[project("1", "a", &["/a"])], "/b").unwrap(), "1");
        assert!(choose_in(&[], "/b").unwrap_err().contains("provost init"));
    }

    #[test]
    fn two_projects_of_one_repository_have_to_be_told_apart() {
        let projects = [project("1", "a", &["/a"]), project("2", "b", &["/a"])];
        assert!(choose_in(&projects, "/a").unwrap_err().contains("a (1), b (2)"));
    }

    #[test]
    fn a_project_goes_by_its_name_or_a_piece_of_its_id() {
        let projects = [
            project("0192f0c1-2345-7abc-8def-0123456789ab", "a", &[]),
            project("0192f0c1-2345-7abc-8def-0123456789cd", "b", &[]),
        ];
        assert!(named(&projects, "b").unwrap().ends_with("cd"));
        assert!(named(&projects, "456789AB").unwrap().ends_with("ab"));
        assert_eq!(named(&projects, "0192f0c1").unwrap_err().exit(), Exit::Usage);
        assert_eq!(named(&projects, "c").unwrap_err().exit(), Exit::NotFound);
    }

    #[test]
    fn a_branch_is_split_off_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("a@b");
        std::fs::create_dir(&odd).unwrap();
        let odd = odd.to_str().unwrap();
        assert_eq!(repo_argument(odd).unwrap(), json!({"path": odd}));
        let with_branch = format!("{odd}@main");
        assert_eq!(
            repo_argument(&with_branch).unwrap(),
            json!({"path": odd, "target_branch": "main"})
        );
    }
}
