//! `provost path`: where the work of an attempt lies.

use std::path::Path;

use provost_actors::refusal::{Code, Refusal};
use serde_json::{Value, json};

use super::context::{Context, text};
use super::exit::{Exit, Failure};
use super::output::{harmless, short};

#[derive(clap::Args, Debug)]
pub struct PathArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// Where the project has several repositories, the name of one [default: the folder that
    /// holds all of them]
    #[arg(value_name = "REPOSITORY")]
    repository: Option<String>,
}

pub async fn path(context: &mut Context, args: &PathArgs) -> Result<Exit, Failure> {
    let attempt = context.attempt(&args.attempt).await?;
    let status = context.read("get_attempt_status", &json!({"attempt_id": attempt})).await?;
    let path = worktree(&status, args.repository.as_deref())?;
    if !Path::new(&path).exists() {
        let gone = format!("the worktree of attempt {} is gone: {path}", short(&attempt));
        let hint = "`provost send ATTEMPT PROMPT` recreates it; its branch is still there.";
        return Err(Failure::Refused(Box::new(Refusal::new(Code::FileNotFound, gone).hint(hint))));
    }
    if context.out.is_json() {
        context.out.json(&json!({"attempt_id": attempt, "path": path}))?;
    } else if context.out.is_terminal() {
        context.out.line(&harmless(&path))?;
    } else {
        context.out.line(&path)?;
    }
    Ok(Exit::Done)
}

/// The worktree of an attempt, or of one of its repositories.
pub fn worktree(status: &Value, repository: Option<&str>) -> Result<String, Failure> {
    let unknown = |names: &[&str]| {
        let name = harmless(repository.unwrap_or_default());
        Failure::Usage(format!(
            "the attempt has no repository {name}; it has: {}",
            harmless(&names.join(", "))
        ))
    };
    match &status["worktree"] {
        Value::String(path) => match repository {
            Some(name) if Path::new(path).file_name().is_none_or(|it| it != name) => {
                let own = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
                Err(unknown(&[own.as_ref()]))
            }
            _ => Ok(path.clone()),
        },
        Value::Object(paths) => {
            let names: Vec<&str> = paths.keys().map(String::as_str).collect();
            let of_one = |name: &str| paths.get(name).and_then(Value::as_str);
            let found = match repository {
                Some(name) => of_one(name).map(Path::new),
                None => names
                    .first()
                    .and_then(|name| of_one(name))
                    .and_then(|it| Path::new(it).parent()),
            };
            let found = found.map(|path| path.to_string_lossy().into_owned());
            found.ok_or_else(|| unknown(&names))
        }
        _ => Err(Failure::Fault(format!(
            "the daemon does not say where the worktree of {} is",
            short(text(status, "attempt_id"))
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worktree_is_found_by_its_repository() {
        let one = json!({"worktree": "/w/a-b/app"});
        assert_eq!(worktree(&one, None).unwrap(), "/w/a-b/app");
        assert_eq!(worktree(&one, Some("app")).unwrap(), "/w/a-b/app");
        assert!(worktree(&one, Some("web")).unwrap_err().to_string().ends_with("it has: app"));
        let two = json!({"worktree": {"app": "/w/a-b/app", "web": "/w/a-b/web"}});
        assert_eq!(worktree(&two, None).unwrap(), "/w/a-b");
        assert_eq!(worktree(&two, Some("web")).unwrap(), "/w/a-b/web");
        assert!(worktree(&two, Some("api")).is_err());
    }
}
