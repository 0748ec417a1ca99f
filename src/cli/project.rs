//! `provost init` and `provost project`; and how other verbs choose their project.

use std::path::{Path, PathBuf};

use super::collected::worktrees;
use super::prelude::*;

#[derive(clap::Args, Debug)]
pub struct InitArgs {
    /// A folder in the git repository
    #[arg(default_value = ".")]
    path: PathBuf,
    /// The project's name [default: the repository's folder name]
    #[arg(long)]
    name: Option<String>,
    /// The branch that attempts start from [default: the branch that is checked out]. Of a
    /// repository that is registered already, it is changed
    #[arg(long, value_name = "BRANCH")]
    target_branch: Option<String>,
}

// No doc comment: clap would show it as the verb's own.
#[derive(clap::Args, Debug)]
pub struct ProjectArg {
    /// A project's name or id [default: the one of this repository, or the only one]
    #[arg(long)]
    project: Option<String>,
}

impl ProjectArg {
    /// The given name or id; `None`: [`choose`] finds the project.
    pub fn name(&self) -> Option<&str> {
        self.project.as_deref()
    }
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
    /// Remove a project from the board, with its tasks
    ///
    /// Its worktrees go to the trash; what is in them and on no branch is saved under
    /// refs/provost/snapshots/ATTEMPT first. Its repositories and branches stay, and its attempts
    /// stay readable. Refused while one of them runs. Where hosts share the board, each takes its
    /// worktrees away; those of a host that is lost stay on its disk.
    Rm {
        /// The project's name or id
        project: String,
        /// Actually do it [default: only show what would be done]
        #[arg(long)]
        yes: bool,
    },
}

/// `provost init`: registers the repository around a path as a project. If it is registered already,
/// only its target branch can change.
pub async fn init(context: &mut Context, args: InitArgs) -> Result<Exit, Failure> {
    let path = absolute(&args.path)?;
    let root = path.ancestors().find(|folder| folder.join(".git").exists());
    let path = root.unwrap_or(&path);
    for project in projects(context).await? {
        if let Some(repo) = project.repos.repos.iter().find(|repo| Path::new(&repo.path) == path) {
            return registered(context, project.id(), repo, args.target_branch.as_deref()).await;
        }
    }
    let base = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = args.name.or(base).unwrap_or_else(|| "project".to_owned());
    let repo = json!({"path": path, "target_branch": args.target_branch});
    let project = json!({"name": name, "repos": [repo]});
    let created = context.call::<CreateProjectOutput>(project).await?;
    let repo_id = json!(created.repo_ids.first());
    print_ids(context, created.project_id, &repo_id, &format!("registered {}", path.display()))
}

/// Changes the target branch of a registered repository if another one is given.
async fn registered(
    context: &mut Context,
    project: ProjectId,
    repo: &RepoSummary,
    target_branch: Option<&str>,
) -> Result<Exit, Failure> {
    let RepoSummary { repo_id, path, default_target_branch: before, .. } = repo;
    let note = match target_branch.filter(|branch| branch != before) {
        Some(branch) => {
            let change = json!({"repo_id": repo_id, "path": path, "target_branch": branch});
            let set = context.call::<TargetBranchSet>(change).await?;
            let after = harmless(&set.default_target_branch);
            format!("{path}: new attempts start from {after} (it was {})", harmless(before))
        }
        None => format!("{path} is already registered, with target branch {before}"),
    };
    print_ids(context, project, &json!(repo_id), &note)
}

fn print_ids(
    context: &mut Context,
    project: ProjectId,
    repo: &Value,
    note: &str,
) -> Result<Exit, Failure> {
    if !context.out.as_json(&json!({"project_id": project, "repo_id": repo}))? {
        context.out.line(note)?;
        context.out.line(&format!("project {project}"))?;
        context.out.line(&format!("repo    {}", repo.as_str().unwrap_or_default()))?;
    }
    Ok(Exit::Done)
}

pub async fn project(context: &mut Context, command: ProjectCommand) -> Result<Exit, Failure> {
    match command {
        ProjectCommand::Add { name, repos } => add(context, &name, &repos).await,
        ProjectCommand::List => list(context).await,
        ProjectCommand::Rm { project, yes } => remove(context, &project, yes).await,
    }
}

/// `provost project rm`: exit code 1 if the project stays because worktrees were kept.
async fn remove(context: &mut Context, project: &str, yes: bool) -> Result<Exit, Failure> {
    let project_id = choose(context, Some(project)).await?;
    let params = json!({"project_id": project_id, "yes": yes});
    let removed = context.call::<RemovedProject>(params).await?;
    context.show(&removed, |out, it| {
        if !it.collected.attempts.is_empty() || it.others.is_empty() {
            worktrees(out, &it.collected)?;
        }
        elsewhere(out, it)?;
        let (name, tasks) = (harmless(&it.name), count(it.tasks, "task"));
        out.line(&match (it.removed, yes) {
            (true, _) => format!("{name} was removed with {tasks}"),
            (false, true) => format!("{name} was not removed: worktrees of it were kept"),
            (false, false) => format!("with --yes, {name} is removed with {tasks}"),
        })?;
        out.line("its repositories, branches and logs stay")
    })?;
    Ok(if yes && !removed.removed { Exit::Refused } else { Exit::Done })
}

/// Prints what other hosts collected, and what is left on hosts that are lost.
fn elsewhere(out: &mut Output, removed: &RemovedProject) -> std::io::Result<()> {
    for CollectedOn { host, collected } in &removed.others {
        out.line(&format!("on host {}:", harmless(host)))?;
        worktrees(out, collected)?;
    }
    for LeftOn { host, attempts } in &removed.left {
        let (host, attempts) = (harmless(host), count(attempts.len(), "attempt"));
        out.line(&format!(
            "host {host} is lost: what it has of {attempts} stays on its disk; `provost gc \
             --snapshot` there takes it away if the host comes back"
        ))?;
    }
    Ok(())
}

fn count(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

async fn add(context: &mut Context, name: &str, repos: &[String]) -> Result<Exit, Failure> {
    let repos = repos.iter().map(|repo| repo_argument(repo)).collect::<Result<Vec<_>, _>>()?;
    let created =
        context.call::<CreateProjectOutput>(json!({"name": name, "repos": repos})).await?;
    context.show(&created, |out, created| out.line(&created.project_id.to_string()))
}

/// Reads `PATH[@BRANCH]`. If the whole text is an existing path, its `@` is part of the path.
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
    let projects = projects(context).await?;
    let json = projects.iter().map(|project| {
        let mut json = project.summary.json.clone();
        json["repos"] = project.repos.json["repos"].clone();
        json
    });
    let json = json!({"projects": json.collect::<Vec<_>>()});
    let row = |project: &Project| {
        let repo = |repo: &RepoSummary| format!("{}@{}", repo.path, repo.default_target_branch);
        let repos: Vec<String> = project.repos.repos.iter().map(repo).collect();
        vec![project.id().to_string(), project.summary.name.clone(), repos.join(", ")]
    };
    let none = "there is no project yet; `provost init` registers this repository as one";
    let columns = [Whole("PROJECT"), Cut("NAME"), Whole("REPOSITORIES")];
    context.list(&json, &columns, projects.iter().map(row), none)
}

/// A project with its repositories.
struct Project {
    summary: Answer<ProjectSummary>,
    repos: Answer<ListReposOutput>,
}

impl Project {
    fn id(&self) -> ProjectId {
        self.summary.project_id
    }

    /// The number of path components of its innermost repository around a folder; `None`: the folder is in
    /// none of its repositories.
    fn depth(&self, folder: &Path) -> Option<usize> {
        let paths = self.repos.repos.iter().map(|repo| Path::new(&repo.path));
        paths.filter(|path| folder.starts_with(path)).map(|path| path.components().count()).max()
    }
}

async fn projects(context: &mut Context) -> Result<Vec<Project>, Failure> {
    let mut projects = Vec::new();
    for summary in context.all::<ProjectSummary>(json!({})).await? {
        let repos = context.call(json!({"project_id": summary.project_id})).await?;
        projects.push(Project { summary, repos });
    }
    Ok(projects)
}

/// The named project; without a name that of the working directory, else the only one. A usage error if
/// there is none, or several and no name.
pub async fn choose(context: &mut Context, given: Option<&str>) -> Result<ProjectId, Failure> {
    let projects = projects(context).await?;
    match given {
        Some(given) => named(&projects, given),
        None => Ok(implied(&projects, &absolute(Path::new("."))?)?.id()),
    }
}

/// [`choose`] for verbs that add work: outside of a project's repositories, it names the only project on
/// standard error, because a person may have meant another one.
pub async fn choose_aloud(
    context: &mut Context,
    given: Option<&str>,
) -> Result<ProjectId, Failure> {
    if given.is_some() {
        return choose(context, given).await;
    }
    let (projects, here) = (projects(context).await?, absolute(Path::new("."))?);
    let project = implied(&projects, &here)?;
    if project.depth(&here).is_none() && !context.out.json {
        anstream::eprintln!("project {}, the only one", harmless(&project.summary.name));
    }
    Ok(project.id())
}

fn named(projects: &[Project], given: &str) -> Result<ProjectId, Failure> {
    let by_name = projects.iter().filter(|project| project.summary.name == given);
    by_name_or_id(by_name.map(Project::id), projects.iter().map(Project::id), given, "project")
}

fn implied<'p>(projects: &'p [Project], cwd: &Path) -> Result<&'p Project, Failure> {
    // The innermost repository around the working directory decides. Outside of all, every depth
    // is `None`, so every project is a candidate.
    let deepest = projects.iter().filter_map(|it| it.depth(cwd)).max();
    let candidates = projects.iter().filter(|it| it.depth(cwd) == deepest);
    match candidates.collect::<Vec<_>>().as_slice() {
        [project] => Ok(*project),
        [] => Err(Failure::Usage(
            "there is no project yet; register a git repository with `provost init`".to_owned(),
        )),
        several => {
            let name = |it: &&Project| format!("{} ({})", it.summary.name, it.id());
            Err(Failure::Usage(format!(
                "which project? Give one with --project, or register this repository with \
                 `provost init`: {}",
                several.iter().map(name).collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

/// An absolute path without links, because the daemon has another working directory. A path that does
/// not exist is made absolute only.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    match path.canonicalize() {
        Ok(path) => Ok(path),
        // The daemon then refuses it with a message about the repository.
        Err(_) => Ok(std::path::absolute(path)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A project whose id ends with two digits.
    fn project(id: u8, name: &str, paths: &[&str]) -> Project {
        let id = format!("0192f0c1-2345-7abc-8def-0123456789{id:02}");
        let time = "2026-01-01T00:00:00Z";
        let repo = |path| json!({"repo_id": id, "repo_name": "r", "path": path, "default_target_branch": "main"});
        let repos: Vec<Value> = paths.iter().map(repo).collect();
        let summary =
            json!({"project_id": id, "name": name, "created_at": time, "updated_at": time});
        Project {
            summary: Answer::read(summary).unwrap(),
            repos: Answer::read(json!({ "repos": repos })).unwrap(),
        }
    }

    /// The name of the project that is implied.
    fn choose_in(projects: &[Project], cwd: &str) -> Result<String, String> {
        let project = implied(projects, Path::new(cwd)).map_err(|failure| failure.to_string())?;
        Ok(project.summary.name.clone())
    }

    #[test]
    fn the_innermost_repository_around_the_working_directory_decides() {
        let projects =
            [project(1, "a", &["/a"]), project(2, "b", &["/a/b", "/c"]), project(3, "d", &[])];
        assert_eq!(choose_in(&projects, "/a/x").unwrap(), "a");
        assert_eq!(choose_in(&projects, "/a/b/x").unwrap(), "b");
        assert_eq!(choose_in(&projects, "/c").unwrap(), "b");
        assert!(choose_in(&projects, "/ab").unwrap_err().contains("--project"));
    }

    #[test]
    fn outside_of_repositories_the_only_project_is_chosen() {
        assert_eq!(choose_in(&[project(1, "a", &["/a"])], "/b").unwrap(), "a");
        assert!(choose_in(&[], "/b").unwrap_err().contains("provost init"));
    }

    #[test]
    fn two_projects_of_one_repository_must_be_distinguished() {
        let projects = [project(1, "a", &["/a"]), project(2, "b", &["/a"])];
        let refused = choose_in(&projects, "/a").unwrap_err();
        assert!(refused.contains("a (0192") && refused.contains("b (0192"), "{refused}");
    }

    #[test]
    fn a_project_goes_by_its_name_or_a_piece_of_its_id() {
        let projects = [project(11, "a", &[]), project(22, "b", &[])];
        assert_eq!(named(&projects, "b").unwrap(), projects[1].id());
        assert_eq!(named(&projects, "45678911").unwrap(), projects[0].id());
        assert_eq!(named(&projects, "0192F0C1").unwrap_err().exit(), Exit::Usage);
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
