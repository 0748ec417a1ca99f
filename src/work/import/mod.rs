//! Tasks from a file: what a JSON or Markdown document plans, or what is wrong with it and where. Pure.

mod json;
mod markdown;

use std::collections::HashMap;

use provost_actors::journal::Priority;
use provost_actors::nearest::nearest;
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Map, Value};

use super::dependencies;
use crate::api::args::{Description, Title};
use crate::api::brief::Brief;
use crate::api::commands::ImportFormat as Format;

/// The most tasks of one file.
const TASKS_MAX: usize = 20_000;

/// The most faults that a refusal lists.
const FAULTS_MAX: usize = 20;

/// A task that a file plans.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Where the task is in the file: its line or number, and its title.
    pub place: String,
    /// The name by which other tasks of the file depend on it.
    pub id: Option<String>,
    pub title: String,
    pub description: Option<String>,
    pub priority: Priority,
    pub depends_on: Vec<On>,
    pub brief: Option<Brief>,
}

/// What a planned task depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Another task of the file, by its index.
    Planned(usize),
    /// A task on the board, by its handle or id.
    Board(String),
}

/// A task as either format gives it: where it is, and its members by name.
struct Draft {
    place: String,
    members: Map<String, Value>,
}

/// Everything that is wrong with a file, each with its place.
type Faults = Vec<String>;

/// Reads the tasks of a file, in their order. A refusal reports all faults at once.
pub fn read(text: &str, format: Format) -> Result<Vec<Planned>, Refusal> {
    let drafts = match format {
        Format::Json => json::drafts(text),
        Format::Markdown => markdown::drafts(text),
    };
    drafts.and_then(plan).map_err(refuse)
}

fn refuse(faults: Faults) -> Refusal {
    let more = match faults.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more faults"),
    };
    let first = faults.first().map_or("", String::as_str).trim_end_matches('.');
    Refusal::new(Code::InvalidArgument, format!("nothing is imported: {first}{more}"))
        .hint("Fix what the message names in the file, then import it again.")
        .detail("faults", faults.into_iter().take(FAULTS_MAX).collect::<Vec<_>>())
}

/// Checks the tasks, and finds which of them depend on each other.
fn plan(drafts: Vec<Draft>) -> Result<Vec<Planned>, Faults> {
    match drafts.len() {
        0 => return Err(vec!["there is no task in it".to_owned()]),
        many if many > TASKS_MAX => {
            return Err(vec![format!("{many} tasks are more than {TASKS_MAX}")]);
        }
        _ => {}
    }
    let mut faults = Faults::new();
    let mut planned: Vec<Planned> = Vec::new();
    for Draft { place, members } in drafts {
        match task(&place, members) {
            Ok(task) => planned.push(task),
            Err(fault) => faults.push(format!("{place}: {}", fault.trim_end_matches('.'))),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for (number, Planned { place, id, .. }) in planned.iter().enumerate() {
        if let Some(id) = id
            && let Some(first) = numbers.insert(id.to_lowercase(), number)
        {
            faults.push(format!("{place}: {} is called {id} too", planned[first].place));
        }
    }
    for on in planned.iter_mut().flat_map(|task| &mut task.depends_on) {
        if let On::Board(name) = on
            && let Some(number) = numbers.get(&name.to_lowercase())
        {
            *on = On::Planned(*number);
        }
    }
    faults.extend(circle(&planned));
    if faults.is_empty() { Ok(planned) } else { Err(faults) }
}

/// The fault of a file whose tasks wait for each other. Tasks on the board can't be part of a cycle, because
/// they can't depend on tasks that do not exist yet.
fn circle(planned: &[Planned]) -> Option<String> {
    let within = |on: &On| match on {
        On::Planned(number) => Some(*number),
        On::Board(_) => None,
    };
    let to = |task: &Planned| task.depends_on.iter().filter_map(within).collect();
    let edges = planned.iter().enumerate().map(|(n, task)| (n, to(task))).collect();
    let path = dependencies::cycle(&edges, 0..planned.len())?;
    let name = |number: &usize| planned[*number].id.clone().unwrap_or_default();
    let names = path.iter().map(name).collect::<Vec<_>>().join(" -> ");
    Some(format!("{}: the dependencies form a cycle: {names}", planned[path[0]].place))
}

/// The members that are not part of the brief, with all accepted spellings.
const SPELLINGS: [(&str, &[&str]); 6] = [
    ("id", &["id", "taskId", "task_id"]),
    ("title", &["title"]),
    ("description", &["description"]),
    ("priority", &["priority"]),
    ("depends_on", &["depends_on", "dependsOn", "dependencies"]),
    ("brief", &["brief"]),
];

/// A task from its members. All dependencies count as those of the board until the whole file is read.
fn task(place: &str, members: Map<String, Value>) -> Result<Planned, String> {
    let mut known: HashMap<&str, Value> = HashMap::new();
    let mut rest = Map::new();
    for (name, value) in members.into_iter().filter(|(_, value)| !value.is_null()) {
        let is_it = |(_, spellings): &&(&str, &[&str])| spellings.contains(&name.as_str());
        let Some((member, _)) = SPELLINGS.iter().find(is_it) else {
            rest.insert(name, value);
            continue;
        };
        if known.insert(member, value).is_some() {
            return Err(format!("`{name}` is given twice, in two spellings"));
        }
    }
    let mut text = |member: &str| match known.remove(member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
        Some(_) => Err(format!("`{member}` must be a string")),
    };
    // The same limits as in create_task.
    let title = Title::try_from(text("title")?.unwrap_or_default())
        .map_err(|_| "`title` must be a string of 1 to 1000 characters".to_owned())?
        .into();
    let id = text("id")?.filter(|id| !id.is_empty());
    let description = text("description")?.filter(|description| !description.is_empty());
    let description = description.map(Description::try_from).transpose();
    let description =
        description.map_err(|error| format!("`description`: {error}"))?.map(Into::into);
    let priority = text("priority")?.map(|word| priority(&word)).transpose()?.unwrap_or_default();
    let depends_on = known.remove("depends_on").map(names).transpose()?.unwrap_or_default();
    let brief = brief(known.remove("brief"), rest)?;
    let brief = (!brief.is_empty()).then_some(brief);
    let place = place.to_owned();
    Ok(Planned { place, id, title, description, priority, depends_on, brief })
}

/// A brief from the members beside the title, and from the member `brief`, which counts more.
fn brief(own: Option<Value>, mut beside: Map<String, Value>) -> Result<Brief, String> {
    match own {
        Some(Value::Object(own)) => beside.extend(own),
        Some(_) => return Err("`brief` must be an object".to_owned()),
        None => {}
    }
    Brief::read(&Value::Object(beside)).map_err(|refusal| {
        let near = refusal.details.get("nearest").and_then(Value::as_str);
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("{}{near}", refusal.message.trim_end_matches('.')).replace("`brief.", "`")
    })
}

fn priority(word: &str) -> Result<Priority, String> {
    let lower = word.to_lowercase();
    serde_json::from_value(Value::String(lower.clone())).map_err(|_| {
        let near = nearest(&lower, ["low", "medium", "high", "critical"]);
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("`priority` must be low, medium, high or critical, not {word:?}{near}")
    })
}

/// The names of tasks that a task depends on.
fn names(given: Value) -> Result<Vec<On>, String> {
    let fault = || "`depends_on` must be an array of strings".to_owned();
    let Value::Array(items) = given else { return Err(fault()) };
    let names = items.into_iter().map(|item| match item {
        Value::String(name) => Ok(On::Board(name.trim().to_owned())),
        _ => Err(fault()),
    });
    names.collect()
}

#[cfg(test)]
mod tests;
