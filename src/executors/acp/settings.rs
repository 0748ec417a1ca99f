//! A session's mode, model and other options: the agent offers them in its answer that opens the session,
//! and each is set by a request.

use std::collections::VecDeque;
use std::fmt;

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, SessionConfigKind, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigOptionValue, SessionConfigSelectOptions, SessionModeState,
    SetSessionConfigOptionRequest, SetSessionModeRequest,
};

use super::request;
use crate::executors::prelude::*;

/// The JSON-RPC id of the first request that sets something; the others follow.
const FIRST_ID: u32 = 10;

/// A setting, with the request that makes it. As text it is `name = "value" (it has a, b)`, for the message
/// when the agent refuses it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    name: String,
    value: String,
    /// The ids of the values that the agent offers; empty: unknown.
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

/// What an agent offers in its answer that opens a session.
struct Offer {
    modes: Option<SessionModeState>,
    config_options: Vec<SessionConfigOption>,
    /// Ids of models, from agents that are older than the protocol's options.
    models: Option<Vec<String>>,
}

/// The requests that make the configured settings in a session, which was opened with this answer. `Err`:
/// the agent does not have one of these options.
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

/// A request that sets the mode which the session already has: it changes nothing, and its answer marks
/// the end of a replay. `None`: the agent has no modes.
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

    /// The request for one setting: as a mode, an option or a model. `None`: the agent does not have it.
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

    /// The option with this id; for the mode and the model, else the option of that category.
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

/// The ids and names of an option's values; empty if it is not a choice.
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

/// The id for a configured value, which may be an id, the end of an id that is a URI, or a name. A value
/// that is none of them is sent as it is, because an agent may accept an id that it does not offer.
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
