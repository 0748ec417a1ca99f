//! Pull requests on GitHub and GitLab, by their HTTP interfaces. A request that is open for the
//! same two branches of the repository, or that the same finish made, is found before one is made,
//! so the same call again makes no second one. A stranger's request from a fork is not taken for it.
//! Blocks: call it on a thread for that.

mod place;

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Agent, Body};

pub use place::{ForgeRepo, place};

use crate::journal::PullRequest;
use crate::text::cut;

const DEADLINE: Duration = Duration::from_secs(30);
/// Most bytes of an answer, and most characters of it in an error.
const ANSWER_MAX: u64 = 4 << 20;
const SAID_MAX: usize = 500;
/// Most bytes of the URL of a pull request.
const URL_MAX: usize = 2048;

/// Whose interface a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Github,
    Gitlab,
}

/// A host of repositories.
#[derive(Clone, PartialEq, Eq)]
pub struct Forge {
    pub kind: Kind,
    /// The URL that all paths of the interface begin with.
    pub api: String,
    pub token: String,
}

impl fmt::Debug for Forge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forge")
            .field("kind", &self.kind)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// `owner/name`, or with more groups.
    pub repository: String,
    pub head: String,
    pub base: String,
    pub title: String,
    pub text: String,
    /// Stands in the text of what the same finish makes.
    pub mark: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// It answered, but not with what was asked for.
    #[error("it answered {status}: {said}")]
    Refused { status: u16, said: String },
    #[error("it can't be reached: {0}")]
    Unreachable(#[from] ureq::Error),
    #[error("its answer has no {0}")]
    Odd(&'static str),
}

impl ForgeError {
    /// Whether the token is missing, wrong, or may not do this.
    pub fn is_of_token(&self) -> bool {
        matches!(self, Self::Refused { status: 401 | 403, .. })
    }
}

impl Forge {
    /// Opens a pull request, or finds the one that is open for these branches.
    pub fn propose(&self, wanted: &Proposal) -> Result<PullRequest, ForgeError> {
        let agent = agent();
        if let Some(found) = self.find(&agent, wanted)? {
            return Ok(found);
        }
        match self.create(&agent, wanted) {
            // Another program may have made it meanwhile.
            Err(refused @ ForgeError::Refused { status: 409 | 422, .. }) => {
                self.find(&agent, wanted)?.ok_or(refused)
            }
            made => made,
        }
    }

    fn find(&self, agent: &Agent, wanted: &Proposal) -> Result<Option<PullRequest>, ForgeError> {
        let Proposal { repository, head, base, .. } = wanted;
        let owner = repository.split('/').next().unwrap_or_default();
        let query = match self.kind {
            Kind::Github => [("head", format!("{owner}:{head}")), ("base", base.clone())],
            Kind::Gitlab => [("source_branch", head.clone()), ("target_branch", base.clone())],
        };
        let request = agent.get(self.url(repository)).query("state", "all").query_pairs(query);
        let request = request.header("Authorization", self.authorization());
        let found = answer(request.header("Accept", self.accept()).call()?)?;
        let mut all = found.as_array().ok_or(ForgeError::Odd("list"))?.iter();
        all.find(|it| self.is_wanted(it, wanted)).map(|it| self.read(it)).transpose()
    }

    /// Whether it is for exactly these branches of this repository, and either open or made by the
    /// same finish.
    fn is_wanted(&self, found: &Value, wanted: &Proposal) -> bool {
        let Proposal { repository, head, base, mark, .. } = wanted;
        let (is_ours, is_open, text) = match self.kind {
            Kind::Github => {
                let from = found["head"]["repo"]["full_name"].as_str().unwrap_or_default();
                let is_ours = from.eq_ignore_ascii_case(repository)
                    && found["head"]["ref"] == **head
                    && found["base"]["ref"] == **base;
                (is_ours, found["state"] == "open", &found["body"])
            }
            Kind::Gitlab => {
                let is_ours = found["source_project_id"].is_u64()
                    && found["source_project_id"] == found["target_project_id"]
                    && found["source_branch"] == **head
                    && found["target_branch"] == **base;
                (is_ours, found["state"] == "opened", &found["description"])
            }
        };
        is_ours && (is_open || text.as_str().is_some_and(|text| text.contains(mark)))
    }

    fn create(&self, agent: &Agent, wanted: &Proposal) -> Result<PullRequest, ForgeError> {
        let Proposal { repository, head, base, title, .. } = wanted;
        let text = format!("{}\n\n<!-- {} -->", wanted.text, wanted.mark);
        let body = match self.kind {
            Kind::Github => json!({"title": title, "head": head, "base": base, "body": text}),
            Kind::Gitlab => json!({"title": title, "source_branch": head, "target_branch": base,
                "description": text}),
        };
        let request = agent.post(self.url(repository));
        let request = request.header("Authorization", self.authorization());
        let request = request.header("Accept", self.accept());
        let made = request.content_type("application/json").send(body.to_string())?;
        self.read(&answer(made)?)
    }

    fn url(&self, repository: &str) -> String {
        let api = self.api.trim_end_matches('/');
        match self.kind {
            Kind::Github => format!("{api}/repos/{repository}/pulls"),
            // GitLab takes a path in place of an id if it is one segment.
            Kind::Gitlab => {
                format!("{api}/projects/{}/merge_requests", repository.replace('/', "%2F"))
            }
        }
    }

    fn authorization(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn accept(&self) -> &'static str {
        match self.kind {
            Kind::Github => "application/vnd.github+json",
            Kind::Gitlab => "application/json",
        }
    }

    fn read(&self, found: &Value) -> Result<PullRequest, ForgeError> {
        let (url, number) = match self.kind {
            Kind::Github => ("html_url", "number"),
            Kind::Gitlab => ("web_url", "iid"),
        };
        let is_sound = |it: &&str| {
            it.len() <= URL_MAX
                && (it.starts_with("https://") || it.starts_with("http://"))
                && !it.contains(|c: char| c.is_control() || c.is_whitespace())
        };
        Ok(PullRequest {
            url: found[url].as_str().filter(is_sound).ok_or(ForgeError::Odd(url))?.to_owned(),
            number: found[number].as_u64().ok_or(ForgeError::Odd(number))?,
        })
    }
}

fn agent() -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(DEADLINE))
        // Another host must not get the token.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("provost/", env!("CARGO_PKG_VERSION")));
    config.build().into()
}

/// The JSON of an answer of success.
fn answer(mut response: Response<Body>) -> Result<Value, ForgeError> {
    let status = response.status();
    let elsewhere = response.headers().get("location").and_then(|url| url.to_str().ok());
    let elsewhere = elsewhere.filter(|_| status.is_redirection()).map(str::to_owned);
    let said = response.body_mut().with_config().limit(ANSWER_MAX).read_to_string()?;
    if !status.is_success() {
        // Both give their reason as `message` or `error`.
        let json: Value = serde_json::from_str(&said).unwrap_or_default();
        let reason = [&json["message"], &json["error"]].into_iter().find(|it| !it.is_null());
        let detail = json["errors"].as_array().and_then(|all| all.first());
        let reason = [reason, detail].into_iter().flatten().map(Value::to_string);
        let reason = reason.collect::<Vec<_>>().join(" ");
        let said = if reason.is_empty() { status.to_string() } else { reason };
        let said = match elsewhere {
            Some(url) => format!("{said}; what was asked for is at {url} now"),
            None => said,
        };
        return Err(ForgeError::Refused { status: status.as_u16(), said: cut(said, SAID_MAX) });
    }
    serde_json::from_str(&said).map_err(|_| ForgeError::Odd("JSON"))
}

#[cfg(test)]
mod tests;
