//! Pull requests on GitHub and GitLab, by their HTTP APIs.
//!
//! Opening one is idempotent: before a request is made, [`Forge::propose`] looks for one that is open for
//! the same two branches of the same repository, or that the same finish made. A request from a fork
//! never counts, even where its branches have the same names: anybody could have opened it. Everything
//! here blocks, so call it on a blocking thread.

mod place;

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Response;
use ureq::{Agent, Body};

pub use place::{ForgeRepo, place};

use crate::journal::PullRequest;
use crate::text::cut;

/// For one request, from the connection to the end of the answer.
const DEADLINE: Duration = Duration::from_secs(30);
/// Most bytes of an answer that are read.
const ANSWER_MAX: u64 = 4 << 20;
/// Most characters of a forge's own message in an error.
const SAID_MAX: usize = 500;
/// Most bytes of the URL of a pull request; a longer one is refused as no URL.
const URL_MAX: usize = 2048;

/// Which API a forge speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Github,
    Gitlab,
}

/// A forge, and the token with which Provost acts there. `Debug` leaves the token out.
#[derive(Clone, PartialEq, Eq)]
pub struct Forge {
    pub kind: Kind,
    /// The URL that all paths of the API begin with, such as `https://api.github.com`; a slash at its end
    /// is ignored.
    pub api: String,
    /// Sent as a bearer token; it needs the right to open pull requests.
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

/// A pull request to open.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// `owner/name`; on GitLab perhaps with more groups before the name.
    pub repository: String,
    /// The branch with the work. It is pushed already, to this same repository.
    pub head: String,
    /// The branch that the work is to be merged into.
    pub base: String,
    pub title: String,
    /// The description, without the mark.
    pub text: String,
    /// Added to the description in an HTML comment. It names the finish: a pull request with it was made
    /// by an earlier call of the same finish, and is found even when it is closed by now.
    pub mark: String,
}

/// Why there is no pull request: part of a sentence.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// The forge answered with a status other than 2xx. `said` is its message, or the status where it has
    /// none.
    #[error("it answered {status}: {said}")]
    Refused { status: u16, said: String },
    /// No answer: the network, TLS, or the deadline.
    #[error("it can't be reached: {0}")]
    Unreachable(#[source] ureq::Error),
    #[error("its answer has more than {max} bytes", max = ANSWER_MAX)]
    TooLong,
    /// The forge answered with success, but the answer lacks this.
    #[error("its answer has no {0}")]
    Odd(&'static str),
}

impl From<ureq::Error> for ForgeError {
    fn from(error: ureq::Error) -> Self {
        match error {
            ureq::Error::BodyExceedsLimit(_) => Self::TooLong,
            error => Self::Unreachable(error),
        }
    }
}

impl ForgeError {
    /// Whether the token is missing, wrong, or lacks the right (401 or 403).
    pub fn is_of_token(&self) -> bool {
        matches!(self, Self::Refused { status: 401 | 403, .. })
    }
}

impl Forge {
    /// Opens a pull request, or returns the one that exists already: for the same branches and open, or
    /// made by an earlier call of the same finish.
    ///
    /// # Errors
    /// The forge can't be reached, refuses, or answers with something else than its API says.
    pub fn propose(&self, wanted: &Proposal) -> Result<PullRequest, ForgeError> {
        let agent = agent();
        if let Some(found) = self.find(&agent, wanted)? {
            return Ok(found);
        }
        match self.create(&agent, wanted) {
            // GitHub (422) and GitLab (409) refuse a second request for the same branches: another
            // program may have opened it since the look above.
            Err(refused @ ForgeError::Refused { status: 409 | 422, .. }) => {
                self.find(&agent, wanted)?.ok_or(refused)
            }
            made => made,
        }
    }

    /// Looks for an existing request among those of both branches, open or not: at most one page, newest
    /// first.
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

    /// Whether a listed request is for exactly these branches of this repository itself, and is either
    /// open or made by the same finish.
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

    /// Opens a request, with the mark at the end of its description.
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

    /// The URL of the list of requests, to which new ones are posted too.
    fn url(&self, repository: &str) -> String {
        let api = self.api.trim_end_matches('/');
        match self.kind {
            Kind::Github => format!("{api}/repos/{repository}/pulls"),
            // GitLab takes the path of a project in place of its id if the slashes are escaped.
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

    /// The URL and the number in an answer. The URL is shown and linked, so anything that is not plainly
    /// a web address is refused.
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

/// A client that follows no redirect.
fn agent() -> Agent {
    let config = Agent::config_builder()
        .timeout_global(Some(DEADLINE))
        // A redirect may lead to another host, which must not get the token.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("provost/", env!("CARGO_PKG_VERSION")));
    config.build().into()
}

/// The JSON of a 2xx answer.
///
/// # Errors
/// [`ForgeError::Refused`] for any other status, with the forge's reason and, for a redirect, its target.
fn answer(mut response: Response<Body>) -> Result<Value, ForgeError> {
    let status = response.status();
    let elsewhere = response.headers().get("location").and_then(|url| url.to_str().ok());
    let elsewhere = elsewhere.filter(|_| status.is_redirection()).map(str::to_owned);
    let body = response.body_mut().with_config().limit(ANSWER_MAX).lossy_utf8(true);
    let said = match body.read_to_string() {
        // The status alone says enough.
        Err(ureq::Error::BodyExceedsLimit(_)) if !status.is_success() => String::new(),
        read => read?,
    };
    if !status.is_success() {
        // GitHub and GitLab give their reason as `message` or `error`, GitHub the details in `errors`.
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
