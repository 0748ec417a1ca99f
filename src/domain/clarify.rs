//! Improves the refusal of a call with a wrong id: says which thing was meant by an id that is cut short,
//! is a name, or is of another kind. These are the most frequent mistakes of an agent that holds many
//! ids. A call that may remove something never gets a hint with another thing than the one that it named.

use async_trait::async_trait;
use std::collections::BTreeSet;

use provost_actors::text::{NAME_SHOWN_MAX, cut};
use serde_json::{Value, json};

use super::Domain;
use crate::api::commands::{IdKind, Match};
use crate::api::field_path::{BRANCH_FIELD, name_of, pointer_of, source};
use crate::api::{Callee, Clarify, Code, Refusal};

/// The shortest piece of an id that is looked up, in hexadecimal digits; the command line has the same
/// limit.
const SHORTEST: usize = 8;

/// Most repositories that a hint lists with their ids.
const REPOS_MAX: usize = 5;

/// An argument that names nothing of the kind that its field asks for.
struct Mismatch {
    path: String,
    given: String,
    wanted: IdKind,
}

#[async_trait]
impl Clarify for Domain {
    async fn clarify(
        &self,
        callee: &Callee<'_>,
        arguments: &Value,
        mut refusal: Refusal,
    ) -> Refusal {
        let tool = callee.name;
        if let Some(Value::String(field)) = refusal.details.shift_remove(BRANCH_FIELD) {
            let hint = self.with_repositories(tool, arguments, &field).await;
            return hint.map_or(refusal.clone(), |hint| refusal.hint(hint));
        }
        let Some(slip) = Mismatch::of(&refusal, arguments) else { return refusal };
        let Mismatch { path, given, wanted } = &slip;
        let Some(found) = self.meant(&slip).await else {
            // `invalid_argument` may mean something else than a wrong id, so no list is offered for it.
            let list = source(wanted.field()).filter(|_| refusal.code != Code::InvalidArgument);
            let Some(list) = list else { return refusal };
            let hint = format!("Call {tool} again with {path} from {list}.");
            return refusal.hint(hint).detail("path", path.as_str());
        };
        let (field, kind) = (wanted.field(), found.kind.field());
        let refusal = refusal.detail("path", path.as_str()).detail("id_is", kind);
        let a = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let is = format!("{} is {a} {kind}", cut(given.clone(), NAME_SHOWN_MAX));
        let id = found.id.as_str();
        if found.kind == *wanted {
            let hint = format!("Call {tool} again with {path} = \"{id}\".");
            return refusal.hint(hint).detail(field, id);
        }
        if path == field && callee.fields.get(kind).is_some() {
            let hint = format!("Call {tool} again with {kind} = \"{id}\" instead of {path}. {is}.");
            return refusal.hint(hint).detail(kind, id);
        }
        let related = self.store.related(&found, *wanted).await.ok().flatten();
        match related {
            Some(related) if !callee.is_destructive => {
                let hint = format!(
                    "Call {tool} again with {path} = \"{related}\". {is}; its {field} is {related}."
                );
                refusal.hint(hint).detail(field, related)
            }
            _ => {
                let (looks, by, id) = self.look_at(&found, *wanted).await;
                let mut refusal = refusal;
                if tool == "delete_task" && found.kind == IdKind::Attempt {
                    refusal.message.push_str(
                        " It is an attempt's id, and attempts are not deleted: `provost gc` removes \
                         the worktrees that are no longer needed.",
                    );
                }
                let hint = match (by, source(wanted.field())) {
                    (Some(by), _) => format!("Call {looks} with {by} = \"{id}\" instead. {is}."),
                    (None, Some(list)) => {
                        format!("Call {tool} again with {path} from {list}. {is}.")
                    }
                    (None, None) => format!("{} {is}.", refusal.hint),
                };
                refusal.hint(hint)
            }
        }
    }
}

impl Domain {
    /// The tool that shows the thing, or lists what it has of the wanted kind, with the field and the id
    /// to call it by. Without a field, the id is only named.
    async fn look_at(
        &self,
        found: &Match,
        wanted: IdKind,
    ) -> (&'static str, Option<&'static str>, String) {
        let id = found.id.clone();
        match (found.kind, wanted) {
            (IdKind::Project, IdKind::Repo) => ("list_repos", Some("project_id"), id),
            (IdKind::Project, _) => ("list_tasks", Some("project_id"), id),
            (IdKind::Task, IdKind::Attempt | IdKind::Session) => {
                ("list_task_attempts", Some("task_id"), id)
            }
            (IdKind::Task, _) => ("get_task", Some("task_id"), id),
            (IdKind::Attempt, _) => ("get_attempt_status", Some("attempt_id"), id),
            (IdKind::Repo | IdKind::Session | IdKind::ExecutionProcess, _) => {
                let (tool, of) = match found.kind {
                    IdKind::Repo => ("list_tasks", IdKind::Project),
                    _ => ("get_attempt_status", IdKind::Attempt),
                };
                let related = self.store.related(found, of).await.ok().flatten();
                (tool, related.as_ref().map(|_| of.field()), related.unwrap_or(id))
            }
        }
    }

    /// The hint for a branch that should apply to all repositories of a task's project: `repos` with
    /// their ids.
    async fn with_repositories(
        &self,
        tool: &str,
        arguments: &Value,
        field: &str,
    ) -> Option<String> {
        let task = arguments.get("task_id")?.as_str()?;
        let branch = arguments.pointer(&pointer_of(field))?;
        let project = if let Ok(task) = task.parse() {
            self.store.task(task).await.ok()?.project_id
        } else {
            let tasks = self.store.tasks_of_handle(task).await.ok()?;
            let [(_, project, _)] = tasks.try_into().ok()?;
            project
        };
        let repos = self.store.repos(project).await.ok()?;
        if repos.len() > REPOS_MAX || arguments.get("repos").is_some() {
            return None;
        }
        let repos: Vec<Value> = repos
            .iter()
            .map(|repo| json!({"repo_id": repo.repo_id, "target_branch": branch}))
            .collect();
        let repos = Value::Array(repos);
        Some(format!("Call {tool} again with repos = {repos} instead of {field}."))
    }

    /// The only thing that the text names, by its name, its id or a piece of an id. `None`: nothing, or
    /// several.
    async fn meant(&self, slip: &Mismatch) -> Option<Match> {
        let mut found = self.store.named(slip.given.trim()).await.ok()?;
        for piece in pieces(&slip.given) {
            if !found.is_empty() {
                break;
            }
            found = self.store.resolve(piece, &IdKind::ALL).await.ok()?;
        }
        if found.iter().any(|found| found.kind == slip.wanted) {
            found.retain(|found| found.kind == slip.wanted);
        }
        let [only] = found.try_into().ok()?;
        // The given id is whole and of the wanted kind, so it was refused for another reason.
        let is_had = only.kind == slip.wanted && only.id.eq_ignore_ascii_case(&slip.given);
        (!is_had).then_some(only)
    }
}

/// The parts of a text that may be an id or a piece of one: runs of hexadecimal digits and hyphens, and
/// the single groups of those. Empty if the text has several whole ids.
fn pieces(text: &str) -> Vec<&str> {
    let digits = |piece: &str| piece.bytes().filter(u8::is_ascii_hexdigit).count();
    let runs = text.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
    let runs: Vec<&str> = runs.map(|run| run.trim_matches('-')).collect();
    let groups = runs.iter().flat_map(|run| run.split('-'));
    let mut pieces = runs.clone();
    pieces.extend(groups);
    pieces.retain(|piece| digits(piece) >= SHORTEST);
    pieces.dedup();
    // Several whole ids name no single thing.
    let wholes: BTreeSet<uuid::Uuid> =
        pieces.iter().filter_map(|piece| piece.parse().ok()).collect();
    if wholes.len() > 1 { Vec::new() } else { pieces }
}

impl Mismatch {
    /// The wrong id that a refusal is about. `None`: the refusal is about something else, or about a list
    /// that may name several things.
    fn of(refusal: &Refusal, arguments: &Value) -> Option<Self> {
        if refusal.code == Code::InvalidArgument {
            let path = refusal.details.get("path")?.as_str()?;
            // A text in place of a list may name several things.
            if matches!(path, "attempt_ids" | "depends_on") {
                return None;
            }
            let wanted = kind_of(path)?;
            let given = arguments.pointer(&pointer_of(path))?.as_str()?;
            return Some(Self { path: path.to_owned(), given: given.to_owned(), wanted });
        }
        let wanted = kind_not_found(refusal.code)?;
        let given = refusal.details.get(wanted.field())?.as_str()?.to_owned();
        let path = path_of(arguments, &given).unwrap_or_else(|| wanted.field().to_owned());
        Some(Self { path, given, wanted })
    }
}

/// The kind of id that a field takes.
fn kind_of(path: &str) -> Option<IdKind> {
    match name_of(path) {
        "depends_on" => Some(IdKind::Task),
        "attempt_ids" => Some(IdKind::Attempt),
        name => IdKind::ALL.into_iter().find(|kind| kind.field() == name),
    }
}

/// The kind of thing that was not found.
fn kind_not_found(code: Code) -> Option<IdKind> {
    match code {
        Code::ProjectNotFound => Some(IdKind::Project),
        Code::RepoNotFound => Some(IdKind::Repo),
        Code::TaskNotFound => Some(IdKind::Task),
        Code::AttemptNotFound => Some(IdKind::Attempt),
        Code::SessionNotFound => Some(IdKind::Session),
        _ => None,
    }
}

/// Where in the arguments this text is, as `repos[0].repo_id`.
fn path_of(arguments: &Value, text: &str) -> Option<String> {
    let join = |step: String, rest: String| {
        let dot = if rest.is_empty() || rest.starts_with('[') { "" } else { "." };
        format!("{step}{dot}{rest}")
    };
    match arguments {
        Value::String(other) => other.eq_ignore_ascii_case(text).then(String::new),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(n, item)| Some(join(format!("[{n}]"), path_of(item, text)?))),
        Value::Object(members) => members
            .iter()
            .find_map(|(name, member)| Some(join(name.clone(), path_of(member, text)?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_path_of_an_id_is_found_at_any_depth() {
        let arguments = json!({"a": "x", "ids": ["y", "Z"], "repos": [{"repo_id": "w"}]});
        assert_eq!(path_of(&arguments, "X").as_deref(), Some("a"));
        assert_eq!(path_of(&arguments, "z").as_deref(), Some("ids[1]"));
        assert_eq!(path_of(&arguments, "w").as_deref(), Some("repos[0].repo_id"));
        assert_eq!(path_of(&arguments, "v"), None);
        assert_eq!(kind_of("repos[0].repo_id"), Some(IdKind::Repo));
        assert_eq!(kind_of("depends_on[3]"), Some(IdKind::Task));
        assert_eq!(kind_of("title"), None);
    }

    #[test]
    fn ids_and_their_pieces_are_found_in_what_stands_around_them() {
        const ID: &str = "0192f0c1-2345-7abc-8def-0123456789ab";
        for text in [
            ID.to_owned(),
            format!("<{ID}>"),
            format!("provost://attempts/{ID}"),
            format!("attempt_id: {ID}"),
        ] {
            assert_eq!(pieces(&text)[0], ID, "{text}");
        }
        assert_eq!(pieces("…456789ab")[0], "456789ab");
        assert_eq!(pieces("attempt-456789ab")[0], "456789ab");
        assert_eq!(pieces("the first"), Vec::<&str>::new());
        let other = ID.replace("789ab", "789ac");
        assert_eq!(pieces(&format!("{ID},{other}")), Vec::<&str>::new());
    }
}
