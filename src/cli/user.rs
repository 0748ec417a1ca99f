//! `provost user`: who may use the page and the API.

use super::prelude::*;
use crate::api::users::UserLine;
use crate::role::Access;

#[derive(clap::Subcommand, Debug)]
pub enum UserCommand {
    /// Add a user, and print the token, which is shown only now
    Add {
        /// The user's name, as the audit log shows it
        name: String,
        /// What the user may do
        #[arg(long, value_enum, default_value_t = Access::Write)]
        access: Access,
    },
    /// List the users
    List,
    /// Give a user another token; the old one and the user's browsers are logged out
    Renew {
        /// The user's name; `owner` is the user of this home
        name: String,
    },
    /// End a user's token, and log the user's browsers out
    Revoke {
        /// The user's name
        name: String,
    },
}

pub async fn user(context: &mut Context, command: UserCommand) -> Result<Exit, Failure> {
    match command {
        UserCommand::List => {
            let listed = context.call::<UsersListed>(json!({})).await?;
            show(context, &listed)
        }
        UserCommand::Add { name, access } => {
            token(context, json!({"name": name, "access": access})).await
        }
        UserCommand::Renew { name } => token(context, json!({"name": name})).await,
        UserCommand::Revoke { name } => {
            let revoked = context.call::<RevokedUser>(json!({"name": name})).await?;
            context.show(&revoked, |out, RevokedUser(listed)| table(out, &listed.users))
        }
    }
}

/// Adds a user or renews a token. The token alone goes to standard output, so that a script can read it.
async fn token(context: &mut Context, params: Value) -> Result<Exit, Failure> {
    let given = context.call::<UserToken>(params).await?;
    if !context.out.as_json(&given.json)? {
        context.out.raw(&format!("{}\n", given.token))?;
        anstream::eprintln!("This is the token of {}; Provost does not show it again.", given.name);
    }
    Ok(Exit::Done)
}

fn show(context: &mut Context, listed: &Answer<UsersListed>) -> Result<Exit, Failure> {
    context.show(listed, |out, UsersListed { users }| table(out, users))
}

fn table(out: &mut Output, users: &[UserLine]) -> std::io::Result<()> {
    let columns = [Whole("NAME"), Whole("ACCESS"), Whole("SINCE"), Whole("REVOKED")];
    let rows = users.iter().map(|user| {
        let revoked = user.revoked_at.map_or_else(|| "-".to_owned(), |at| at.to_string());
        vec![user.name.clone(), user.access.to_string(), user.created_at.to_string(), revoked]
    });
    out.list(&columns, rows, "there are no users yet")
}
