//! Where an executor keeps its own state, and which part of the person's state an attempt's copy begins with.
//! Plain data: the configuration fills it in, and `attempt/own_state` acts on it.

use serde::Serialize;

/// One folder of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatePlace {
    /// The variable by which the program finds the folder. `None`: it derives the folder from another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// The person's own folder if the variable is not set. `~/` stands for the person's home.
    pub from: String,
    /// The folder's name in the attempt's state. Several places may share one name.
    pub folder: String,
    /// Files and folders to copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copy: Vec<String>,
    /// Files and folders that are too large to copy: the attempt's state has a link to the person's.
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
    /// Whether the program can fill the folder again by itself, so that it may be removed.
    pub fn is_cache(&self) -> bool {
        let Self { copy, read, credentials, sessions, .. } = self;
        copy.is_empty() && read.is_empty() && credentials.is_empty() && sessions.is_empty()
    }
}

/// A file of credentials, which is JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Credentials {
    pub file: String,
    /// The fields that a renewal changes, as dotted paths. A path that begins with `*.` means that field of
    /// each entry.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub renewed: Vec<String>,
    /// The one of these fields that a renewal makes larger: a time. It tells which of two copies is newer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<String>,
}
