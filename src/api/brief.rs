//! A task's brief: the worker API's `superDetailedPrompt` and what belongs to it. It is read from any
//! spelling, stored in one, and written as text for an agent. Pure.

use heck::ToLowerCamelCase;
use provost_actors::nearest::nearest;
use serde::{Deserializer, Serializer};

use crate::api::prelude::*;

/// The largest brief, in bytes of compact JSON: 256 KiB.
const BYTES_MAX: usize = 262_144;

/// A task's brief, as it is stored.
#[apply(camel_output)]
#[derive(Default)]
#[serde(default)]
pub struct Brief {
    /// What the worker is to know.
    pub super_detailed_prompt: Option<Prompt>,
    /// The part of the plan that the task comes from.
    pub plan_reference: Option<PlanReference>,
    /// Related tasks, as the brief names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_tasks: Vec<String>,
    /// Estimated duration of the task in hours.
    pub estimated_hours: Option<Number>,
}

/// What the worker is to know.
#[apply(camel_output)]
#[derive(Default)]
#[serde(default)]
pub struct Prompt {
    /// The result wanted.
    pub description: Option<String>,
    /// Why, and what depends on it.
    pub context: Option<String>,
    /// What the result must satisfy.
    pub requirements: Vec<String>,
    /// Design decisions to follow; fromPlan says where they are.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub design_references: Map<String, Value>,
    /// The relevant files; absent if not requested.
    pub files: Option<Files>,
    /// Criteria checked when it is done, numbered from 0.
    pub acceptance_criteria: Vec<String>,
    /// In hours.
    pub estimated_hours: Option<Number>,
    /// easy, medium, hard or expert.
    pub complexity_level: Option<String>,
    /// Skills needed.
    pub skills_required: Vec<String>,
}

/// Paths of the relevant files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Files {
    /// Read these first.
    pub read_from: Vec<String>,
    /// Create or change these.
    pub write_to: Vec<String>,
    /// These use the result.
    pub referenced_in: Vec<String>,
}

/// The part of a plan that a task comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanReference {
    /// The plan's name.
    pub plan_id: String,
    /// Its version.
    pub version: String,
    /// The sections that the task is about.
    pub affected_sections: Vec<String>,
}

/// What the value of a member must be.
enum Shape {
    /// A value of one kind: the kind's name in refusals, and the test for it.
    Is(&'static str, fn(&Value) -> bool),
    /// An object with these members.
    Members(&'static [Member]),
}

type Member = (&'static str, Shape);

const TEXT: Shape = Shape::Is("a string", Value::is_string);
const TEXTS: Shape = Shape::Is("an array of strings", |value| {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
});
/// The upper bound is about fifty years of work.
const HOURS: Shape = Shape::Is("a number of hours, 0 to 100000", |value| {
    value.as_f64().is_some_and(|hours| (0.0..=100_000.0).contains(&hours))
});
const COMPLEXITY: Shape = Shape::Is("one of easy, medium, hard, expert", |value| {
    ["easy", "medium", "hard", "expert"].iter().any(|level| value == level)
});
const FILES: Shape =
    Shape::Members(&[("readFrom", TEXTS), ("writeTo", TEXTS), ("referencedIn", TEXTS)]);
const PLAN: Shape =
    Shape::Members(&[("planId", TEXT), ("version", TEXT), ("affectedSections", TEXTS)]);

const PROMPT: &str = "superDetailedPrompt";

const PROMPT_MEMBERS: &[Member] = &[
    ("description", TEXT),
    ("context", TEXT),
    ("requirements", TEXTS),
    ("designReferences", Shape::Is("an object", Value::is_object)),
    ("files", FILES),
    ("acceptanceCriteria", TEXTS),
    ("estimatedHours", HOURS),
    ("complexityLevel", COMPLEXITY),
    ("skillsRequired", TEXTS),
];

const MEMBERS: &[Member] = &[
    (PROMPT, Shape::Members(PROMPT_MEMBERS)),
    ("planReference", PLAN),
    ("relatedTasks", TEXTS),
    ("estimatedHours", HOURS),
];

impl Brief {
    /// Reads a brief whose members are spelled in camelCase or snake_case. Members of `superDetailedPrompt`
    /// may also be outside of it. Refuses unknown members, wrong types, a member that is given twice, and a
    /// brief that is too large.
    pub fn read(given: &Value) -> Result<Self, Refusal> {
        let Value::Object(given) = given else { return Err(not("brief", "an object")) };
        let (mut top, mut flat) = (Map::new(), Map::new());
        for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
            let of_prompt = find(PROMPT_MEMBERS, name);
            match find(MEMBERS, name) {
                None if of_prompt.is_some() => flat.insert(name.clone(), value.clone()),
                _ => top.insert(name.clone(), value.clone()),
            };
        }
        let mut brief = members(&Value::Object(top), MEMBERS, "brief")?;
        let flat = members(&Value::Object(flat), PROMPT_MEMBERS, "brief")?;
        let prompt = brief.entry(PROMPT).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(prompt) = prompt {
            if let Some(twice) = flat.keys().find(|name| prompt.contains_key(*name)) {
                return Err(twice_given(&format!("brief.{twice}")));
            }
            prompt.extend(flat);
        }
        if prompt.as_object().is_some_and(Map::is_empty) {
            brief.shift_remove(PROMPT);
        }
        let brief = Value::Object(brief);
        if brief.to_string().len() > BYTES_MAX {
            return Err(not("brief", &format!("at most {BYTES_MAX} bytes of JSON")));
        }
        serde_json::from_value(brief).map_err(|error| Refusal::internal(error.to_string()))
    }

    /// Reads a stored brief; `None`: it can't be read.
    pub fn kept(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether the brief says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The stored form: JSON in camelCase, without what is absent.
    pub fn to_json(&self) -> String {
        // Strings, numbers and maps of JSON always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The estimated duration in hours: of the brief, or else of its prompt.
    pub fn hours(&self) -> Option<Number> {
        let prompt = self.super_detailed_prompt.as_ref();
        self.estimated_hours.clone().or_else(|| prompt?.estimated_hours.clone())
    }
}

/// A brief as a call gives it. It is read at once, so that two spellings of one brief are
/// one call; [`GivenBrief::check`] returns its fault.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenBrief(Result<Brief, Refusal>);

impl GivenBrief {
    /// The brief, or why it can't be read.
    pub fn check(self) -> Result<Brief, Refusal> {
        self.0
    }
}

impl<'de> Deserialize<'de> for GivenBrief {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Map::deserialize(deserializer)?;
        Ok(Self(Brief::read(&Value::Object(given))))
    }
}

impl Serialize for GivenBrief {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().ok().serialize(serializer)
    }
}

schema!([] GivenBrief, |_| schemars::json_schema!({ "type": "object" }));

/// The member that a name means, in any spelling.
fn find<'a>(known: &'a [Member], name: &str) -> Option<&'a Member> {
    let camel = name.to_lower_camel_case();
    known.iter().find(|(member, _)| *member == camel)
}

/// The members of an object by their names in camelCase. Refuses unknown, wrong and repeated ones.
fn members(value: &Value, known: &[Member], path: &str) -> Result<Map<String, Value>, Refusal> {
    let Value::Object(given) = value else { return Err(not(path, "an object")) };
    let mut read = Map::new();
    for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let path = format!("{path}.{name}");
        let (member, shape) = find(known, name).ok_or_else(|| unknown(&path, name, known))?;
        let value = match shape {
            Shape::Members(known) => Value::Object(members(value, known, &path)?),
            Shape::Is(_, fits) if fits(value) => value.clone(),
            Shape::Is(expected, _) => return Err(not(&path, expected)),
        };
        if read.insert((*member).to_owned(), value).is_some() {
            return Err(twice_given(&path));
        }
    }
    Ok(read)
}

fn not(path: &str, expected: &str) -> Refusal {
    Refusal::new(Code::InvalidArgument, format!("`{path}` must be {expected}."))
        .hint(format!("Call the tool again with {path}, {expected}."))
        .detail("path", path)
}

fn twice_given(path: &str) -> Refusal {
    Refusal::new(Code::InvalidArgument, format!("`{path}` is given twice, in two spellings."))
        .hint(format!("Call the tool again without {path}. It is there in another spelling."))
        .detail("path", path)
}

fn unknown(path: &str, name: &str, known: &[Member]) -> Refusal {
    let refusal = Refusal::new(Code::UnknownField, format!("`{path}` is not a field of a brief."))
        .detail("path", path);
    let all = PROMPT_MEMBERS.iter().filter(|_| path == format!("brief.{name}"));
    let names = known.iter().chain(all).map(|(member, _)| *member);
    match nearest(name, names.clone()) {
        Some(near) => {
            let parent = path.strip_suffix(name).unwrap_or_default();
            refusal
                .hint(format!("Call the tool again with {parent}{near} instead of {path}."))
                .detail("nearest", near)
        }
        None => refusal
            .hint(format!("Call the tool again without {path}."))
            .detail("fields", names.collect::<Vec<_>>()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Spec 5's example, as it is answered.
    fn example() -> Value {
        json!({
            "superDetailedPrompt": {
                "description": "Create CSS variables",
                "context": "All components depend on this",
                "requirements": ["Define 12 colors", "WCAG AA"],
                "designReferences": {
                    "fromPlan": "design-system.json colors section",
                    "colorPalette": {"primary": {"light": "#E3F2FD"}},
                },
                "files": {
                    "readFrom": ["design-system.json"],
                    "writeTo": ["colors.css", "_variables.scss"],
                    "referencedIn": ["App.vue"],
                },
                "acceptanceCriteria": ["All 12 colors defined", "Dark mode works"],
                "estimatedHours": 2.5,
                "complexityLevel": "medium",
                "skillsRequired": ["CSS", "Color theory"],
            },
            "planReference": {
                "planId": "my-app", "version": "1.0.0", "affectedSections": ["Color & Theme"],
            },
            "relatedTasks": ["TASK-002"],
            "estimatedHours": 2.5,
        })
    }

    fn refused(given: &Value) -> (Code, String, String) {
        let refusal = Brief::read(given).unwrap_err();
        (refusal.code, refusal.details["path"].as_str().unwrap().to_owned(), refusal.hint)
    }

    #[test]
    fn the_specs_example_is_kept_as_it_is() {
        let brief = Brief::read(&example()).unwrap();
        assert_eq!(serde_json::to_value(&brief).unwrap(), example());
        assert_eq!(Brief::kept(&brief.to_json()), Some(brief));
    }

    #[test]
    fn flat_and_snake_case_members_come_to_the_same() {
        let given = json!({
            "acceptance_criteria": ["a"],
            "files": {"write_to": ["x"], "readFrom": null},
            "estimated_hours": 3,
            "plan_reference": {"plan_id": "p", "version": "1"},
            "context": null,
        });
        let kept = json!({
            "superDetailedPrompt": {
                "requirements": [], "files": {"readFrom": [], "writeTo": ["x"], "referencedIn": []},
                "acceptanceCriteria": ["a"], "skillsRequired": [],
            },
            "planReference": {"planId": "p", "version": "1", "affectedSections": []},
            "estimatedHours": 3,
        });
        let brief = Brief::read(&given).unwrap();
        assert_eq!(serde_json::to_value(&brief).unwrap(), kept);
        assert_eq!(Brief::read(&kept).unwrap(), brief);
        assert!(Brief::read(&json!({})).unwrap().is_empty());
    }

    #[test]
    fn a_misspelt_member_is_reported_with_its_place_and_the_nearest_name() {
        let (code, path, hint) = refused(&json!({"acceptanceCriterias": ["x"]}));
        assert_eq!((code, path.as_str()), (Code::UnknownField, "brief.acceptanceCriterias"));
        assert!(hint.contains("brief.acceptanceCriteria instead of"), "{hint}");
        let nested = json!({"superDetailedPrompt": {"files": {"readFrm": []}}});
        let (_, path, hint) = refused(&nested);
        assert_eq!(path, "brief.superDetailedPrompt.files.readFrm");
        assert!(hint.contains("brief.superDetailedPrompt.files.readFrom instead"), "{hint}");
        assert_eq!(refused(&json!({"wombat": 1})).0, Code::UnknownField);
    }

    #[test]
    fn a_member_of_another_shape_or_given_twice_is_refused() {
        for (given, at) in [
            (json!({"requirements": "one"}), "brief.requirements"),
            (json!({"requirements": [1]}), "brief.requirements"),
            (json!({"estimatedHours": -1}), "brief.estimatedHours"),
            (json!({"complexityLevel": "huge"}), "brief.complexityLevel"),
            (json!({"planReference": "p"}), "brief.planReference"),
            (json!({"files": {"writeTo": {}}}), "brief.files.writeTo"),
            (json!({"context": "a", "superDetailedPrompt": {"context": "b"}}), "brief.context"),
            (json!({"relatedTasks": [], "related_tasks": []}), "brief.related_tasks"),
            (json!([]), "brief"),
            (json!({"context": "x".repeat(BYTES_MAX)}), "brief"),
        ] {
            let (code, path, _) = refused(&given);
            assert_eq!((code, path.as_str()), (Code::InvalidArgument, at), "{given}");
        }
    }

    #[test]
    fn an_agent_reads_it_as_markdown() {
        let text = Brief::read(&example()).unwrap().text();
        let expected = "\
## In detail
Create CSS variables

## Context
All components depend on this

## Requirements
- Define 12 colors
- WCAG AA

## Design
- fromPlan: design-system.json colors section
- colorPalette: {\"primary\":{\"light\":\"#E3F2FD\"}}

## Files
Read: design-system.json
Write: colors.css, _variables.scss
Used in: App.vue

## Acceptance criteria
- 0: All 12 colors defined
- 1: Dark mode works

## Plan
my-app 1.0.0: Color & Theme

## Related tasks
TASK-002

## Effort
2.5 hours; medium; asks for CSS, Color theory";
        assert_eq!(text, expected);
        assert_eq!(Brief::default().text(), "");
    }
}
