//! Where an executor keeps its own state, and what of the person's an attempt's own copy of it
//! begins with. Plain data: the configuration fills it in, `attempt/own_state` acts on it.

use serde::Serialize;

/// One folder of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatePlace {
    /// The variable by which the program finds it; `None`: it finds it from another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// The person's own folder, where the variable is not set; `~/` begins the person's home.
    pub from: String,
    /// Its name in the attempt's state. Places may share one.
    pub folder: String,
    /// Files and folders to copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<String>,
    /// Those to be read where they are, which are too large for copies: a link leads there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Credentials>,
    /// The files of a session: paths with `*`, `{id}` for its id, `{id8}` for the beginning of the
    /// id, and `{cwd}` for the working folder's name as the program spells it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
}

impl StatePlace {
    /// Whether the program fills it anew.
    pub fn is_cache(&self) -> bool {
        let Self { copy, read, credentials, sessions, .. } = self;
        copy.is_empty() && read.is_empty() && credentials.is_empty() && sessions.is_empty()
    }
}

/// A file of credentials, which is JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Credentials {
    pub file: String,
    /// What a renewal changes: dotted paths. One that begins with `*.` is meant for each entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub renewed: Vec<String>,
    /// Of these, the one that a renewal makes larger: a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<String>,
}
