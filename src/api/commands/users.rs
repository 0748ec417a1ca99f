//! The methods behind `provost open` and `provost user`. Pure.

use crate::api::Access;
use crate::api::prelude::*;
use crate::api::users::UserLine;

/// What `provost/open` takes: nothing.
#[derive(Debug, Deserialize)]
pub struct OpenParams {}

/// What `provost/open` returns: how a browser logs in.
#[derive(Debug, Serialize, Deserialize)]
pub struct Login {
    /// The URL of the HTTP interface, such as `http://127.0.0.1:41237`.
    pub url: String,
    /// The code that logs one browser in, once.
    pub code: String,
    /// For how many seconds the code is valid.
    pub seconds: u64,
}

/// What `provost/users` returns.
#[derive(Debug, Serialize, Deserialize)]
pub struct UsersListed {
    pub users: Vec<UserLine>,
}

/// What `provost/give_token` takes.
#[derive(Debug, Deserialize)]
pub struct GiveTokenParams {
    pub name: String,
    /// The access of a new user; `None`: the user exists and gets another token.
    pub access: Option<Access>,
}

/// What `provost/revoke_user` takes.
#[derive(Debug, Deserialize)]
pub struct UserParams {
    pub name: String,
}

/// What `provost/give_token` returns: a token, which is shown only this once.
#[derive(Debug, Serialize, Deserialize)]
pub struct UserToken {
    pub name: String,
    pub token: String,
}
