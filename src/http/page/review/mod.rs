//! The review of an attempt's changes: files by turn, comments on their lines, and the decision about
//! the work. Files come in batches, so that a review of any size appears at once.
//!
//! ```text
//!  whole        the page, with the first batch ── files_part: the next batch, when it scrolls into view
//!                                             ├─ file_part:  one file again, after a comment on it
//!                                             ├─ rows_part:  more rows of a file
//!                                             └─ bar_part:   the bar again, when the attempt changes
//!  text, blob   a file's text, or a picture of one side
//! ```

mod files;
mod page;
mod threads;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{Markup, html};
use provost_actors::event::Timestamp;
use provost_actors::ids::AttemptId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::attempt::{input, status};
use super::form::Forms;
use super::shell::{self, NavItem};
use super::{Problem, colours, line, patch};
use crate::api::artifacts::{
    ChangedFile, Encoding, GetAttemptChangesOutput, GetAttemptPatchOutput,
};
use crate::api::comments::AttemptComments;
use crate::api::timeline::FileSide;
use crate::api::{Code, Refusable, Refusal};
use crate::http::{HttpState, RequestContext, assets};
use files::{File, Layout, Missing, ROWS, Shown};
use page::{Bar, Review};
use threads::{Reader, Span, Threads};

/// Most files of one batch, and most bytes of their patches together.
const BATCH: usize = 25;
const BATCH_BYTES: usize = 384 * 1024;

/// Most bytes of the patch of one file. The smaller numbers are tried in turn where the
/// configuration allows less than the one before.
const FILE_BYTES: [usize; 3] = [2 * 1024 * 1024, 256 * 1024, 16 * 1024];

/// Lines of a file on one page.
const TEXT_LINES: usize = 1000;

/// Nothing in a picture runs or loads, also if it is opened as a page: an SVG can have scripts.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The addresses of the review; each has the compared turns in its query.
pub fn routes() -> Router<Arc<HttpState>> {
    Router::new()
        .route("/attempts/{id}/review", get(whole))
        .route("/attempts/{id}/review/files", get(files_part))
        .route("/attempts/{id}/review/file", get(file_part))
        .route("/attempts/{id}/review/rows", get(rows_part))
        .route("/attempts/{id}/review/bar", get(bar_part))
        .route("/attempts/{id}/review/text", get(text))
        .route("/attempts/{id}/review/blob", get(blob))
}

/// The query of all addresses but `text` and `blob`; each uses the fields that it needs.
#[derive(Clone, Debug, Default, Deserialize)]
struct ReviewQuery {
    #[serde(default)]
    from_turn: u32,
    to_turn: Option<u32>,
    #[serde(default)]
    layout: Layout,
    /// The number of a batch's first file, from 0.
    #[serde(default)]
    first: usize,
    /// For one file: its path, its number on the page, and the first row to show.
    path: Option<String>,
    #[serde(default)]
    number: usize,
    #[serde(default)]
    from_row: usize,
    /// For the bar: the last turn that its page compares.
    turn: Option<u32>,
}

impl ReviewQuery {
    fn span(&self) -> Span {
        Span { from: self.from_turn, to: self.to_turn }
    }
}

/// A request for a part of one attempt's review: the caller, the attempt, and the moment to which
/// times are relative.
struct Visit {
    desk: RequestContext,
    id: AttemptId,
    forms: Forms,
    now: Timestamp,
}

impl Visit {
    fn new(desk: RequestContext, id: AttemptId) -> Self {
        let forms = Forms::new(&desk.caller, format!("/attempts/{id}/review"));
        Self { desk, id, forms, now: Timestamp::now() }
    }

    fn shown(&self, span: Span, layout: Layout) -> Shown<'_> {
        let reader = Reader { attempt: self.id, forms: &self.forms, now: self.now };
        Shown { reader, span, layout }
    }

    async fn comments(&self) -> Refusable<AttemptComments> {
        self.desk.service.comments_of(self.id).await
    }

    /// The changed files. `force`: they are listed also where a guard would block a long list.
    async fn changes(&self, span: Span) -> Refusable<GetAttemptChangesOutput> {
        let mut asked = spanned(self.id, span);
        asked["force"] = json!(true);
        self.desk.service.get_attempt_changes(&self.desk.caller, input(asked)?).await
    }

    /// The patch of some files, up to `most` bytes.
    async fn patch(
        &self,
        span: Span,
        paths: &[&str],
        most: usize,
    ) -> Refusable<GetAttemptPatchOutput> {
        let mut asked = spanned(self.id, span);
        asked["paths"] = json!(paths);
        asked["max_bytes"] = json!(most);
        self.desk.service.get_attempt_patch(&self.desk.caller, input(asked)?).await
    }

    /// The listed files with their patches. A file whose patch did not fit is `Later` in a batch, and
    /// `TooLong` if it was asked for alone.
    async fn files<'f>(
        &self,
        span: Span,
        listed: &'f [ChangedFile],
        threads: &'f Threads<'f>,
    ) -> Refusable<Vec<File<'f>>> {
        if listed.is_empty() {
            return Ok(Vec::new());
        }
        let paths: Vec<&str> = listed.iter().map(|file| file.path.as_str()).collect();
        let sizes =
            if listed.len() == 1 { FILE_BYTES } else { [BATCH_BYTES, 64 * 1024, 16 * 1024] };
        let mut output = GetAttemptPatchOutput::default();
        for most in sizes {
            output = self.patch(span, &paths, most).await?;
            // An answer that is blocked and omits no file means that `most` is more than the
            // configuration allows: the next size may be allowed.
            if !output.blocked || !output.omitted.is_empty() {
                break;
            }
        }
        let mut patches = colours::of_patches(patch::parse(&output.patch)).await;
        let missing = if listed.len() == 1 { Missing::TooLong } else { Missing::Later };
        let file = |changed: &'f ChangedFile| {
            let is_of =
                |it: &mut (patch::FilePatch, colours::Colours)| files::is_of(&it.0, &changed.path);
            let of_file: Vec<_> = patches.extract_if(.., is_of).collect();
            let missing = of_file.is_empty().then_some(missing);
            File { changed, patches: of_file, missing, comments: threads.of(&changed.path) }
        };
        Ok(listed.iter().map(file).collect())
    }
}

/// The arguments that name an attempt and the compared turns.
fn spanned(id: AttemptId, span: Span) -> Value {
    let mut asked = json!({ "attempt_id": id, "from_turn": span.from });
    if let Some(to) = span.to {
        asked["to_turn"] = json!(to);
    }
    asked
}

/// The files of a batch.
fn batch(changes: &GetAttemptChangesOutput, first: usize) -> &[ChangedFile] {
    let rest = changes.files.get(first..).unwrap_or_default();
    &rest[..rest.len().min(BATCH)]
}

async fn whole(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<ReviewQuery>,
    uri: axum::http::Uri,
) -> Result<Markup, Problem> {
    let visit = Visit::new(desk, id);
    let status = status(&visit.desk, id).await?;
    let mut span = query.span();
    // Without a choice, the page compares up to the last turn and not to the worktree: what a
    // turn left does not change while a person reads.
    if !uri.query().is_some_and(|query| query.contains("from_turn")) {
        span.to = status.latest_snapshot_turn;
    }
    let timeline = visit.desk.service.attempt_timeline(id, None).await?;
    let changes = visit.changes(span).await?;
    let comments = visit.comments().await?;
    let threads = Threads::new(&comments, span);
    let review = Review {
        files: visit.files(span, batch(&changes, query.first), &threads).await?,
        status: &status,
        timeline: &timeline,
        changes: &changes,
        comments: &comments,
        threads: &threads,
        shown: visit.shown(span, query.layout),
        first: query.first,
    };
    let title = format!("Review: {}", timeline.task_title);
    Ok(shell::page(&title, Some(NavItem::Inbox), visit.desk.as_of, &page::page(&review)))
}

async fn files_part(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<ReviewQuery>,
) -> Result<Markup, Problem> {
    let (visit, span) = (Visit::new(desk, id), query.span());
    let (changes, comments) = (visit.changes(span).await?, visit.comments().await?);
    let threads = Threads::new(&comments, span);
    let files = visit.files(span, batch(&changes, query.first), &threads).await?;
    let shown = visit.shown(span, query.layout);
    Ok(page::batch(&shown, &files, query.first, changes.files.len()))
}

async fn file_part(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<ReviewQuery>,
) -> Result<Markup, Problem> {
    one(desk, id, &query, |shown, file| shown.file(file, query.number)).await
}

async fn rows_part(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<ReviewQuery>,
) -> Result<Markup, Problem> {
    let rows = query.from_row..query.from_row.saturating_add(ROWS);
    one(desk, id, &query, |shown, file| shown.body(file, query.number, rows.clone())).await
}

/// A part of one file: `file_not_found` if the file is not among the changed ones (any more).
async fn one(
    desk: RequestContext,
    id: AttemptId,
    query: &ReviewQuery,
    part: impl Fn(&Shown<'_>, &File<'_>) -> Markup,
) -> Result<Markup, Problem> {
    let (visit, span) = (Visit::new(desk, id), query.span());
    let path = query.path.as_deref().unwrap_or_default();
    let changes = visit.changes(span).await?;
    let Some(changed) = changes.files.iter().find(|file| file.path == path) else {
        return Err(not_found(path).into());
    };
    let comments = visit.comments().await?;
    let threads = Threads::new(&comments, span);
    let files = visit.files(span, std::slice::from_ref(changed), &threads).await?;
    let shown = visit.shown(span, query.layout);
    Ok(html! { @for file in &files { (part(&shown, file)) } })
}

fn not_found(path: &str) -> Refusal {
    Refusal::new(Code::FileNotFound, format!("no changed file {path} is compared here"))
}

async fn bar_part(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<ReviewQuery>,
) -> Result<Markup, Problem> {
    let visit = Visit::new(desk, id);
    let status = status(&visit.desk, id).await?;
    let timeline = visit.desk.service.attempt_timeline(id, None).await?;
    let comments = visit.comments().await?;
    Ok(page::bar(&Bar {
        attempt: id,
        task: status.task_id,
        task_status: timeline.task_status,
        forms: &visit.forms,
        comments: &comments,
        finish: timeline.finishes.first(),
        shown_turn: query.turn,
        latest_turn: status.latest_snapshot_turn,
        now: visit.now,
    }))
}

#[derive(Deserialize)]
struct TextQuery {
    path: String,
    #[serde(default)]
    start_line: Option<u64>,
}

/// A file as it is in the worktree now, [`TEXT_LINES`] at a time: for files that are too long for a
/// diff.
async fn text(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<TextQuery>,
) -> Result<Markup, Problem> {
    let start = query.start_line.unwrap_or(1).max(1);
    let asked = json!({
        "attempt_id": id, "path": query.path, "start_line": start, "line_count": TEXT_LINES,
    });
    let piece = desk.service.get_attempt_file(&desk.caller, input(asked)?).await?;
    let is_text = piece.encoding == Encoding::Utf8 && !piece.blocked;
    let lines = colours::of_lines(query.path.clone(), piece.content.clone()).await;
    let next = piece.next_offset.and(piece.end_line).map(|end| end + 1);
    let path = format!("/attempts/{id}/review/text?path={}", super::parts::encoded(&query.path));
    let body = html! {
        link rel="stylesheet" href=(assets::path("colours.css"));
        link rel="stylesheet" href=(assets::path("attempt.css"));
        div.head { h1 { (line::plain(&query.path)) } div.end { a.button href={ "/attempts/" (id) "/review" } { "Back to the review" } } }
        @if is_text {
            div.diff-box { table.diff {
                @for (number, text) in piece.content.lines().enumerate() {
                    tr { td.no { (start + number as u64) } td.text { (line::show(text, lines.get(number).map_or(&[], Vec::as_slice), &[])) } }
                }
            } }
        } @else { p.empty { "It is not text, or too long to be read here." } }
        @if let Some(next) = next { a.more href={ (path) "&start_line=" (next) } { "Next lines" } }
    };
    Ok(shell::page(&query.path, None, desk.as_of, &body))
}

#[derive(Deserialize)]
struct BlobQuery {
    path: String,
    side: FileSide,
    #[serde(default)]
    from_turn: u32,
    to_turn: Option<u32>,
}

/// A picture before or after the change. Files of other kinds are not served: a browser could treat one
/// as a page of this site, with the login.
async fn blob(
    desk: RequestContext,
    Path(id): Path<AttemptId>,
    Query(query): Query<BlobQuery>,
) -> Result<Response, Problem> {
    let Some(kind) = files::picture_type(&query.path) else {
        return Err(not_found(&query.path).into());
    };
    let mut asked = spanned(id, Span { from: query.from_turn, to: query.to_turn });
    asked["path"] = json!(query.path);
    asked["side"] = json!(query.side);
    match desk.service.attempt_blob(input(asked)?).await? {
        None => Ok(StatusCode::NOT_FOUND.into_response()),
        Some(bytes) => {
            let headers = [
                (header::CONTENT_TYPE, kind),
                (header::CONTENT_SECURITY_POLICY, PICTURE_POLICY),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::CACHE_CONTROL, "private, no-cache"),
            ];
            Ok((headers, bytes).into_response())
        }
    }
}

#[cfg(test)]
mod tests;
