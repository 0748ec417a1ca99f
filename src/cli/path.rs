//! `provost path`: the path of an attempt's worktree.

use std::collections::BTreeMap;
use std::path::Path;

use super::prelude::*;

#[derive(clap::Args, Debug)]
pub struct PathArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    pub attempt: String,
    /// With several repositories, the name of one [default: the folder that holds all of them]
    #[arg(value_name = "REPOSITORY")]
    pub repository: Option<String>,
}

/// `provost path`: the path alone, byte for byte unless standard output is a terminal, so that
/// `cd "$(provost path ID)"` works.
pub async fn path(context: &mut Context, args: &PathArgs) -> Result<Exit, Failure> {
    let (attempt, path) = find(context, args).await?;
    if context.out.as_json(&json!({"attempt_id": attempt, "path": path}))? {
    } else if context.out.terminal {
        context.out.line(&path)?;
    } else {
        context.out.raw(&format!("{path}\n"))?;
    }
    Ok(Exit::Done)
}

/// The attempt, and the path of its worktree, which exists. `elsewhere` if the attempt is on another
/// host or has no host yet, and `file_not_found` if the worktree was collected.
pub async fn find(context: &mut Context, args: &PathArgs) -> Result<(AttemptId, String), Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let status = context.call::<AttemptStatus>(json!({"attempt_id": attempt})).await?;
    let Some(known) = &status.worktree else {
        return Err(Failure::Fault("the daemon does not know the worktree's path".to_owned()));
    };
    if matches!(known, Worktree::Each(paths) if paths.is_empty()) {
        let there = match &status.host {
            Some(host) => format!("the worktree of attempt {} is on host {host}", attempt.short()),
            None => format!("attempt {} has no worktree: it waits for a host", attempt.short()),
        };
        let refusal = Refusal::new(Code::Elsewhere, there).hint("Run the command on its host.");
        return Err(Failure::Refused(Box::new(refusal)));
    }
    let path = worktree(known, args.repository.as_deref())?;
    if Path::new(&path).exists() {
        return Ok((attempt, path));
    }
    let gone = format!("the worktree of attempt {} is gone: {path}", attempt.short());
    let hint = "`provost send ATTEMPT PROMPT` recreates it; its branch is still there.";
    Err(Failure::Refused(Box::new(Refusal::new(Code::FileNotFound, gone).hint(hint))))
}

/// The path of one repository's worktree; without a name, the only worktree, or the folder that has all
/// of them. A usage error for a repository that the attempt does not have.
pub fn worktree(worktree: &Worktree, repository: Option<&str>) -> Result<String, Failure> {
    let folder = |path: &str| Path::new(path).parent().map(|it| it.to_string_lossy().into_owned());
    let (whole, each) = match worktree {
        Worktree::One(path) => {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            (Some(path.clone()), BTreeMap::from([(name.into_owned(), path.clone())]))
        }
        Worktree::Each(paths) => (paths.values().next().and_then(|it| folder(it)), paths.clone()),
    };
    let found = repository.map_or(whole, |name| each.get(name).cloned());
    found.ok_or_else(|| {
        let name = harmless(repository.unwrap_or_default());
        let names = each.into_keys().collect::<Vec<_>>().join(", ");
        let names = harmless(&names);
        Failure::Usage(format!("the attempt has no repository {name}; it has: {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_is_found_by_its_repository() {
        let one = Worktree::One("/w/a-b/app".to_owned());
        assert_eq!(worktree(&one, None).unwrap(), "/w/a-b/app");
        assert_eq!(worktree(&one, Some("app")).unwrap(), "/w/a-b/app");
        assert!(worktree(&one, Some("web")).unwrap_err().to_string().ends_with("it has: app"));
        let paths = ["app", "web"].map(|name| (name.to_owned(), format!("/w/a-b/{name}")));
        let two = Worktree::Each(BTreeMap::from(paths));
        assert_eq!(worktree(&two, None).unwrap(), "/w/a-b");
        assert_eq!(worktree(&two, Some("web")).unwrap(), "/w/a-b/web");
        assert!(worktree(&two, Some("api")).is_err());
    }
}
