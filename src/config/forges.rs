//! Reads `[forges."HOST"]`: where pull requests are made, and with which token. Pure.

use std::collections::BTreeMap;

use provost_actors::forge::{Forge, Kind};

use super::Result;
use super::reader::Item;

/// A forge, as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgeConfig {
    /// Without its token if `token_env` names the variable that has it: the token is read when the daemon
    /// starts.
    pub forge: Forge,
    /// The variable of the daemon's environment that has the token.
    pub token_env: Option<String>,
    /// The place in `config.toml` where its table begins.
    pub origin: String,
}

impl ForgeConfig {
    /// The forge with its token. The token stays empty if the variable is not set.
    pub fn resolved(&self, environment: &BTreeMap<String, String>) -> Forge {
        let mut forge = self.forge.clone();
        if let Some(token) = self.token_env.as_ref().and_then(|name| environment.get(name)) {
            forge.token.clone_from(token);
        }
        forge
    }
}

/// Reads one table. The kind is needed for hosts other than github.com and gitlab.com; the API's URL has
/// a default for each kind. Exactly one of `token` and `token_env` is required.
pub(super) fn read((host, item): (&str, Item<'_>)) -> Result<(String, ForgeConfig)> {
    let table = item.table()?;
    table.only(&["kind", "api", "token", "token_env"])?;
    let kinds = [("github", Kind::Github), ("gitlab", Kind::Gitlab)];
    let host = host.to_ascii_lowercase();
    let kind = match table.get("kind") {
        Some(kind) => kind.one_of(&kinds)?,
        None if host == "github.com" => Kind::Github,
        None if host == "gitlab.com" => Kind::Gitlab,
        None => return Err(item.invalid("a table with kind = \"github\" or \"gitlab\"")),
    };
    let text = |key: &str| table.get(key).map(|item| item.text()).transpose();
    let api = match table.get("api") {
        Some(item) => {
            let url = item.text()?;
            if !url.starts_with("https://") && !url.starts_with("http://") {
                return Err(item.invalid("a URL that begins with https:// or http://"));
            }
            url
        }
        None => match kind {
            Kind::Github if host == "github.com" => "https://api.github.com".to_owned(),
            Kind::Github => format!("https://{host}/api/v3"),
            Kind::Gitlab => format!("https://{host}/api/v4"),
        },
    };
    let (token, token_env) = (text("token")?, text("token_env")?);
    if token.is_some() == token_env.is_some() {
        return Err(item.invalid("a table with either token or token_env"));
    }
    let forge = Forge { kind, api, token: token.unwrap_or_default() };
    Ok((host, ForgeConfig { forge, token_env, origin: item.origin() }))
}
