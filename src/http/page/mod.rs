//! The pages. A handler makes a few calls of the service; a pure function turns their answers into
//! markup.
//!
//! ```text
//!  page (a whole document: shell)         fragment (one part: Live)
//!    htmx asks for a part again ◂── `changed` ◂── provost.js ◂── /events: topic and id of a change
//!    a form ▸ POST /do/<tool> ▸ http::form ▸ `done` or a refusal, in the element #said
//! ```
//!
//! A refusal travels as an extension of an empty answer ([`refused`]); [`told`] writes it at the end,
//! as a page or as a fragment, because only the outermost layer knows who asked.

mod ansi;
mod attempt;
mod board;
mod colours;
mod compare;
mod entries;
mod form;
mod inbox;
mod line;
mod markdown;
mod need;
mod parts;
mod patch;
mod projects;
mod review;
mod settings;
mod shell;
mod svg;
mod task;
mod usage;

#[cfg(test)]
mod samples;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use maud::{DOCTYPE, Markup, html};
use provost_actors::refusal::Refusal;
use serde_json::Value;

use super::{HttpState, assets, problem};

/// The addresses of all pages and of the fragments that they refresh.
pub fn routes() -> Router<Arc<HttpState>> {
    Router::new()
        .route("/", get(inbox::page))
        .route("/inbox", get(inbox::fragment))
        .route("/inbox/files/{attempt}", get(inbox::files))
        .route("/waiting", get(inbox::waiting))
        .route("/board", get(board::page))
        .route("/board/columns", get(board::fragment))
        .route("/tasks/{task}", get(task::page))
        .route("/tasks/{task}/live", get(task::fragment))
        .route("/tasks/{task}/tools", get(task::tools))
        .route("/compare/{task}", get(compare::page))
        .route("/compare/{task}/live", get(compare::fragment))
        .route("/usage", get(usage::page))
        .route("/settings", get(settings::page))
        .route("/settings/executors", get(settings::executors))
        .route("/settings/projects", get(settings::of_projects))
        .route("/settings/doctor", get(settings::findings))
        .merge(attempt::routes())
        .merge(review::routes())
}

/// The error of a page's handler. It lets handlers use `?` on calls of the service.
pub struct Problem(Refusal);

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        refused(&self.0)
    }
}

/// Answers every address that has no route, also those of programs: 404 as a page.
pub async fn not_found() -> Response {
    let body = html! {
        h1 { "Nothing is here" }
        p { "There is no such page. " a href="/" { "Go to the inbox" } "." }
    };
    (StatusCode::NOT_FOUND, shell::page("Not found", None, None, &body)).into_response()
}

/// The extension by which an answer carries its refusal to [`told`].
#[derive(Clone)]
pub struct Refused(Arc<Refusal>);

/// An empty answer with the refusal's status, which [`told`] fills.
pub fn refused(refusal: &Refusal) -> Response {
    let extension = Extension(Refused(Arc::new(refusal.clone())));
    (problem::status(refusal.code), extension).into_response()
}

/// Writes the refusal that an answer carries, if any: as a fragment for a script, else as a page. The
/// answer keeps its status and headers, such as `WWW-Authenticate`.
pub fn render_refusal(mut response: Response, is_script: bool) -> Response {
    let Some(Refused(refusal)) = response.extensions_mut().remove() else { return response };
    let (parts, _) = response.into_parts();
    let rendered = if is_script { alert(&refusal) } else { whole(&refusal) };
    let (mut head, body) = rendered.into_parts();
    head.status = parts.status;
    head.headers.extend(parts.headers);
    Response::from_parts(head, body)
}

/// A refusal as a whole page.
fn whole(refusal: &Refusal) -> Response {
    let body = html! {
        h1 { "That did not work" }
        (alert_of(refusal))
        p { a href="/" { "Go to the inbox" } }
    };
    (problem::status(refusal.code), shell::page("Refused", None, None, &body)).into_response()
}

/// A refusal as a fragment of a page.
fn alert(refusal: &Refusal) -> Response {
    (problem::status(refusal.code), alert_of(refusal)).into_response()
}

fn alert_of(refusal: &Refusal) -> Markup {
    let hint = refusal.envelope()["hint"].as_str().unwrap_or_default().to_owned();
    html! { p role="alert" { (refusal.envelope()["message"].as_str().unwrap_or_default()) " " (hint) } }
}

/// The fragment with the outcome of an action. A finish that ends with conflicts or failed checks is no
/// refusal: its answer has the state, and the inbox has the next step.
pub fn done(title: &str, answer: &Value) -> Response {
    let otherwise = match answer["state"].as_str() {
        Some("conflicts") => Some("it does not merge; nothing has changed"),
        Some("checks_failed") => Some("the checks did not pass; nothing was merged"),
        _ => None,
    };
    let is_open = answer["state"] == "open";
    html! {
        @match otherwise {
            Some(what) => p role="alert" { (title) ": " (what) },
            None if is_open => p role="status" { (title) ": under way" },
            None => p role="status" { (title) ": done" },
        }
    }
    .into_response()
}

/// A page that forwards to a path of this site. The caller has checked the path (`login::local`).
pub fn lead_to(path: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Provost" }
                link rel="icon" type="image/svg+xml" href=(assets::path("provost.svg"));
                meta http-equiv="refresh" content={"0;url=" (path)};
            }
            body { p { a href=(path) { "Go on" } } }
        }
    }
}

/// The page after a logout. It has the navigation, but every link on it needs a new login.
pub fn logged_out() -> Markup {
    shell::page(
        "Logged out",
        None,
        None,
        &html! {
            h1 { "You are logged out" }
            p { "Run " code { "provost open" } " for another link." }
        },
    )
}
