//! A session's mode, model and other options: the agent offers them when it opens the
//! session, and these requests set them.

use std::collections::VecDeque;
use std::fmt;

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigOptionValue, SessionConfigSelectOptions, SessionModeState,
    SetSessionConfigOptionRequest, SetSessionModeRequest,
};

use super::request;
use crate::executors::prelude::*;

/// The first id of the requests that set something.
const FIRST_ID: u32 = 10;

/// An option to set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    name: String,
    value: String,
    /// The values that the agent offers.
    known: Vec<String>,
    pub message: Message,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, known, .. } = self;
        write!(f, "{name} = {value:?}")?;
        if known.is_empty() { Ok(()) } else { write!(f, " (it has {})", known.join(", ")) }
    }
}

/// What an agent offers, in its answer that opens a session.
struct Offer {
    modes: Option<SessionModeState>,
    config_options: Vec<SessionConfigOption>,
    /// Ids of models, of agents from before there were options.
    models: Option<Vec<String>>,
}

/// How to set these in a session that was opened with this answer. `Err` says
/// what the agent does not have.
pub fn of(
    session: &str,
    settings: &[(String, String)],
    answer: &Value,
) -> Result<VecDeque<Setting>, String> {
    let offer = Offer::read(answer);
    let one = |(id, (name, value)): (u32, &(String, String))| {
        offer.set(session, id, name, value).ok_or_else(|| {
            let known: Vec<&str> =
                offer.config_options.iter().map(|option| &*option.id.0).collect();
            match known.as_slice() {
                [] => format!("it does not have the option {name:?}"),
                known => format!("it does not have the option {name:?}, only {}", known.join(", ")),
            }
        })
    };
    (FIRST_ID..).zip(settings).map(one).collect()
}

/// Sets the mode that the session already has.
pub fn same_mode(session: &str, answer: &Value) -> Option<Setting> {
    let offer = Offer::read(answer);
    let mode = offer.modes.as_ref()?.current_mode_id.to_string();
    offer.set(session, FIRST_ID, "mode", &mode)
}

impl Offer {
    fn read(answer: &Value) -> Self {
        let options = items(answer, "configOptions");
        let models = &answer["models"];
        let ids = items(models, "availableModels")
            .filter_map(|model| Some(model["modelId"].as_str()?.to_owned()));
        Self {
            modes: Deserialize::deserialize(&answer["modes"]).unwrap_or_default(),
            config_options: options.filter_map(|one| Deserialize::deserialize(one).ok()).collect(),
            models: models.is_object().then(|| ids.collect()),
        }
    }

    fn set(&self, session: &str, id: u32, name: &str, value: &str) -> Option<Setting> {
        let setting =
            |known: Vec<(String, String)>, method: &str, params: &dyn Fn(&str) -> Value| {
                let value = id_of(value, &known);
                let message = request(&format!("set:{name}"), id, method, &params(value));
                let known = known.iter().map(|(id, _)| id.clone()).collect();
                Setting { name: name.to_owned(), value: value.to_owned(), known, message }
            };
        if let ("mode", Some(modes)) = (name, &self.modes) {
            let known = modes.available_modes.iter();
            let known = known.map(|mode| (mode.id.to_string(), mode.name.clone())).collect();
            return Some(setting(known, AGENT_METHOD_NAMES.session_set_mode, &|mode| {
                json!(SetSessionModeRequest::new(session.to_owned(), mode.to_owned()))
            }));
        }
        if let Some(option) = self.option(name) {
            let method = AGENT_METHOD_NAMES.session_set_config_option;
            return Some(setting(values(option), method, &|value| {
                let value = match (&option.kind, value.parse()) {
                    (SessionConfigKind::Boolean(_), Ok(value)) => {
                        SessionConfigOptionValue::Boolean { value }
                    }
                    _ => SessionConfigOptionValue::ValueId { value: value.to_owned().into() },
                };
                let option = option.id.clone();
                json!(SetSessionConfigOptionRequest::new(session.to_owned(), option, value))
            }));
        }
        let ("model", Some(models)) = (name, &self.models) else { return None };
        let known = models.iter().map(|model| (model.clone(), model.clone())).collect();
        Some(setting(
            known,
            "session/set_model",
            &|model| json!({ "sessionId": session, "modelId": model }),
        ))
    }

    /// The option with this id, or else one of this category.
    fn option(&self, name: &str) -> Option<&SessionConfigOption> {
        let category = match name {
            "mode" => Some(SessionConfigOptionCategory::Mode),
            "model" => Some(SessionConfigOptionCategory::Model),
            _ => None,
        };
        let mut options = self.config_options.iter();
        options
            .clone()
            .find(|option| &*option.id.0 == name)
            .or_else(|| options.find(|option| category.is_some() && option.category == category))
    }
}

/// The ids and names of an option's values.
fn values(option: &SessionConfigOption) -> Vec<(String, String)> {
    let SessionConfigKind::Select(select) = &option.kind else { return Vec::new() };
    let all: Vec<_> = match &select.options {
        SessionConfigSelectOptions::Ungrouped(options) => options.iter().collect(),
        SessionConfigSelectOptions::Grouped(groups) => {
            groups.iter().flat_map(|group| &group.options).collect()
        }
        _ => Vec::new(),
    };
    all.into_iter().map(|value| (value.value.to_string(), value.name.clone())).collect()
}

/// The id for a value of the configuration, which may be the id, the end of an id that is
/// a URI, or a name. The agent may accept an id that it does not offer.
fn id_of<'a>(value: &'a str, known: &'a [(String, String)]) -> &'a str {
    let is_end =
        |id: &str| id.rsplit_once('#').is_some_and(|(_, end)| end.eq_ignore_ascii_case(value));
    let found = known
        .iter()
        .find(|(id, _)| id == value)
        .or_else(|| known.iter().find(|(id, _)| is_end(id)))
        .or_else(|| known.iter().find(|(_, name)| name.eq_ignore_ascii_case(value)));
    found.map_or(value, |(id, _)| id)
}
