//! `provost cluster role`: the role of a host at the database, made and changed as the owner of the board.

use std::path::{Path, PathBuf};

use crate::cli::prelude::*;
use crate::config::{self, Config};
use crate::daemon::{self, HostKind};

#[derive(clap::Args, Debug)]
pub struct RoleArgs {
    /// The host's name, as below [host] in its config.toml
    host: String,
    /// What the host is for
    #[arg(long, value_enum, default_value_t = Kind::Worker)]
    role: Kind,
    /// The role's password is in this file. Without it, a new role gets one that is shown once
    #[arg(long, value_name = "FILE", conflicts_with = "no_password")]
    password_file: Option<PathBuf>,
    /// A new role gets no password: the server lets it in by other means, such as a certificate
    #[arg(long)]
    no_password: bool,
    /// Take all rights from the host's role, and drop it
    #[arg(long, conflicts_with_all = ["role", "password_file", "no_password"])]
    drop: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It serves clients, and has all of the board but its schema
    Gateway,
    /// It runs attempts, and has what these need
    Worker,
}

impl From<Kind> for HostKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Gateway => Self::Gateway,
            Kind::Worker => Self::Worker,
        }
    }
}

pub async fn role(context: &mut Context, args: RoleArgs) -> Result<Exit, Failure> {
    let config = Config::load(&context.home()?.config_file(), &[])?;
    let engine = &config.settings.engine;
    if args.drop {
        drop_role(context, engine, &args.host).await
    } else {
        make(context, engine, args).await
    }
}

async fn drop_role(
    context: &mut Context,
    engine: &config::Engine,
    host: &str,
) -> Result<Exit, Failure> {
    let (role, kept) = daemon::drop_role(engine, host).await?;
    let said = json!({"role": role, "host": host, "is_dropped": kept.is_none(), "why_not": kept});
    if !context.out.as_json(&said)? {
        context.out.line(&match kept {
            None => format!("Role {role} of host {host} is dropped."),
            Some(why) => format!(
                "Role {role} of host {host} has no rights on this board any more. It is still there: \
                 {why}"
            ),
        })?;
    }
    Ok(Exit::Done)
}

async fn make(
    context: &mut Context,
    engine: &config::Engine,
    args: RoleArgs,
) -> Result<Exit, Failure> {
    let RoleArgs { host, role: kind, password_file, no_password, .. } = args;
    let given = password_file.as_deref().map(read).transpose()?;
    let (kind, needs_one) = (HostKind::from(kind), given.is_none() && !no_password);
    let (made, shown) = daemon::make_role(engine, &host, kind, given.as_deref(), needs_one).await?;
    let url = with_user(&engine.url, &made.role);
    let said = json!({
        "role": made.role, "host": host, "kind": kind, "is_new": made.is_new, "url": url,
        "password": shown, "sees_standbys": made.sees_standbys,
    });
    if context.out.as_json(&said)? {
        return Ok(Exit::Done);
    }
    let what = if made.is_new { "made" } else { "up to date" };
    let (role, word) = (&made.role, word(&kind));
    let mut lines = vec![
        format!("Role {role} of host {host}, a {word}, is {what}. In config.toml of that host:"),
        format!("\n[engine]\nurl = \"{url}\""),
    ];
    if !no_password {
        lines
            .push("password_file = \"FILE\"    # a file with the role's password alone".to_owned());
    }
    let is_stated = engine.durability != "synchronous";
    if is_stated {
        lines.push(format!("durability = \"{}\"", engine.durability));
    }
    lines.push(format!("\n[host]\nname = \"{host}\"\nrole = \"{word}\""));
    if !is_stated && !made.sees_standbys {
        lines.push(format!(
            "\nA superuser has to let it see whether the server has a standby:\n\
             GRANT pg_read_all_stats TO \"{role}\";"
        ));
    }
    if let Some(password) = shown {
        lines.push(format!("\nIts password, which is not shown again: {password}"));
    }
    context.out.line(&lines.join("\n"))?;
    Ok(Exit::Done)
}

fn read(file: &Path) -> Result<String, Failure> {
    let said = std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    let password = said.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::Usage(format!("{} holds no password", file.display())));
    }
    Ok(password.to_owned())
}

/// The URL for another user, without a password.
fn with_user(url: &str, user: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    format!("{scheme}://{user}@{place}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_that_of_the_role_and_has_no_password() {
        let of = |url| with_user(url, "provost_a");
        assert_eq!(
            of("postgres://ann:p%40ss@db:5432/b?sslmode=verify-full"),
            "postgres://provost_a@db:5432/b?sslmode=verify-full"
        );
        assert_eq!(of("postgres://db/b"), "postgres://provost_a@db/b");
        assert_eq!(of("postgres://ann@/b?host=/tmp/@x"), "postgres://provost_a@/b?host=/tmp/@x");
    }
}
