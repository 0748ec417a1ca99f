//! Says which id was meant by one that was cut short or is of another kind: the
//! commonest slips of an agent that holds many of them.

use provost_actors::refusal::{Code, Refusal};
use serde_json::Value;

use super::Domain;
use crate::mcp::{name_of, pointer_of, source};
use crate::store::{Kind, Match};

/// The shortest piece of an id that is looked up, as for people.
const SHORTEST: usize = 8;

/// An id that a call was refused for.
struct Slip {
    /// The field that holds it, as `details.path` spells it.
    path: String,
    given: String,
    wanted: Kind,
}

impl Domain {
    pub(super) async fn name_the_id(
        &self,
        tool: &'static str,
        arguments: &Value,
        refusal: Refusal,
    ) -> Refusal {
        let Some(slip) = Slip::of(&refusal, arguments) else { return refusal };
        let Slip { path, given, wanted } = &slip;
        let Some((found, meant)) = self.meant(&slip).await else {
            // What is wrong with an argument may be something else than its id.
            let list = list_of(*wanted).filter(|_| refusal.code != Code::InvalidArgument);
            let Some(list) = list else { return refusal };
            let hint = format!("Call {tool} again with {path} from {list}.");
            return refusal.hint(hint).detail("path", path.as_str());
        };
        let (field, kind) = (wanted.field(), found.kind.field());
        let again = match (&meant, list_of(*wanted)) {
            (Some(id), _) => format!("Call {tool} again with {path} = \"{id}\"."),
            (None, Some(list)) => format!("Call {tool} again with {path} from {list}."),
            (None, None) => refusal.hint.clone(),
        };
        let a = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let hint = match &meant {
            _ if found.kind == *wanted => again,
            Some(id) => format!("{again} {given} is {a} {kind}; its {field} is {id}."),
            None => format!("{again} {given} is {a} {kind}."),
        };
        let refusal = refusal.hint(hint).detail("path", path.as_str()).detail("id_is", kind);
        match meant {
            Some(id) => refusal.detail(field, id),
            None => refusal,
        }
    }

    /// What the id names, and the id of the wanted kind that goes with it.
    async fn meant(&self, slip: &Slip) -> Option<(Match, Option<String>)> {
        if slip.given.chars().filter(char::is_ascii_hexdigit).count() < SHORTEST {
            return None;
        }
        let mut found = self.store.resolve(&slip.given, &Kind::ALL).await.ok()?;
        if found.iter().any(|found| found.kind == slip.wanted) {
            found.retain(|found| found.kind == slip.wanted);
        }
        let [only] = found.try_into().ok()?;
        if only.kind != slip.wanted {
            let related = self.store.related(&only, slip.wanted).await.ok()?;
            return Some((only, related));
        }
        // A whole id of the wanted kind was found, and is not to be had.
        let is_piece = !only.id.eq_ignore_ascii_case(&slip.given);
        is_piece.then(|| (only.clone(), Some(only.id)))
    }
}

impl Slip {
    fn of(refusal: &Refusal, arguments: &Value) -> Option<Self> {
        if refusal.code == Code::InvalidArgument {
            let path = refusal.details.get("path")?.as_str()?;
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
fn kind_of(path: &str) -> Option<Kind> {
    match name_of(path) {
        "depends_on" => Some(Kind::Task),
        "attempt_ids" => Some(Kind::Attempt),
        name => Kind::ALL.into_iter().find(|kind| kind.field() == name),
    }
}

fn kind_not_found(code: Code) -> Option<Kind> {
    match code {
        Code::ProjectNotFound => Some(Kind::Project),
        Code::RepoNotFound => Some(Kind::Repo),
        Code::TaskNotFound => Some(Kind::Task),
        Code::AttemptNotFound => Some(Kind::Attempt),
        Code::SessionNotFound => Some(Kind::Session),
        _ => None,
    }
}

/// The tool that tells the ids of a kind.
fn list_of(kind: Kind) -> Option<&'static str> {
    source(kind.field())
}

/// Where in the arguments a text stands.
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
        assert_eq!(kind_of("repos[0].repo_id"), Some(Kind::Repo));
        assert_eq!(kind_of("depends_on[3]"), Some(Kind::Task));
        assert_eq!(kind_of("title"), None);
    }
}
