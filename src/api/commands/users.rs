//! The methods behind `provost open` and `provost users`. Pure.

use crate::api::Access;
use crate::api::prelude::*;
use crate::api::users::UserLine;

#[derive(Debug, Deserialize)]
pub struct OpenParams {}

/// How a browser gets in.
#[derive(Debug, Serialize, Deserialize)]
pub struct Login {
    /// Where the HTTP face answers, such as `http://127.0.0.1:41237`.
    pub url: String,
    /// What logs one browser in, once.
    pub code: String,
    /// How long it waits for that.
    pub seconds: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct UsersListed {
    pub users: Vec<UserLine>,
}

#[derive(Debug, Deserialize)]
pub struct GiveTokenParams {
    pub name: String,
    /// Of a new user.
    pub access: Option<Access>,
}

#[derive(Debug, Deserialize)]
pub struct UserParams {
    pub name: String,
}

/// A token, which is shown this once.
#[derive(Debug, Serialize, Deserialize)]
pub struct UserToken {
    pub name: String,
    pub token: String,
}
