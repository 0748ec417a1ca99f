//! `provost review`: comments on the lines that an attempt changed, sent as one prompt.

use provost_actors::ids::CommentId;

use super::prelude::*;

/// The longest piece of a comment in the table, in characters.
const TEXT: usize = 200;

#[derive(clap::Subcommand, Debug)]
pub enum ReviewCommand {
    /// Comment on changed lines; the comment stays a draft until it is submitted
    Add(AddArgs),
    /// Replace the text of a draft
    Edit {
        #[command(flatten)]
        one: OneArgs,
        /// The new text
        text: String,
    },
    /// Remove a draft
    Rm(OneArgs),
    /// List the comments, and what has become of them and of their lines
    List {
        /// The attempt's id, or 8 or more characters of its start or end
        attempt: String,
        /// Include resolved ones
        #[arg(long)]
        all: bool,
    },
    /// Send all drafts to the agent as one prompt, which waits while a turn runs
    Submit {
        /// The attempt's id, or 8 or more characters of its start or end
        attempt: String,
        /// What precedes the comments
        #[arg(short, long)]
        message: Option<String>,
    },
    /// Mark a comment that was sent as resolved
    Resolve(OneArgs),
}

#[derive(clap::Args, Debug)]
pub struct AddArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// The lines, with the path as `provost diff --stat` lists it
    #[arg(value_name = "PATH:LINE[-LINE]", value_parser = place)]
    place: LineRange,
    /// The comment
    text: String,
    /// The version that has the lines: before the changes, or after
    #[arg(long, value_enum, default_value = "new")]
    side: SideArg,
    /// The turn at whose end the file was so [default: the last one]
    #[arg(long, value_name = "TURN")]
    turn: Option<u32>,
}

#[derive(clap::Args, Debug)]
pub struct OneArgs {
    /// The attempt's id, or 8 or more characters of its start or end
    attempt: String,
    /// The comment's id, or 8 or more characters of its start or end
    comment: String,
}

/// A version of a changed file.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum SideArg {
    Old,
    New,
}

/// Lines of a file as they are typed: `PATH:LINE` or `PATH:LINE-LINE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRange {
    path: String,
    line: u64,
    last_line: Option<u64>,
}

/// Reads a range of lines. The last colon ends the path, which may have others.
fn place(text: &str) -> Result<LineRange, String> {
    let unreadable = || "it is PATH:LINE or PATH:LINE-LINE".to_owned();
    let (path, lines) = text.rsplit_once(':').ok_or_else(unreadable)?;
    let (first, last) = match lines.split_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (lines, None),
    };
    let number = |digits: &str| digits.parse::<u64>().map_err(|_| unreadable());
    let (line, last_line) = (number(first)?, last.map(number).transpose()?);
    Ok(LineRange { path: path.to_owned(), line, last_line })
}

pub async fn review(context: &mut Context, command: ReviewCommand) -> Result<Exit, Failure> {
    match command {
        ReviewCommand::Add(args) => add(context, args).await,
        ReviewCommand::Edit { one, text } => {
            change(context, &one, json!({"action": "edit", "text": text}), "changed").await
        }
        ReviewCommand::Rm(one) => {
            change(context, &one, json!({"action": "remove"}), "removed").await
        }
        ReviewCommand::List { attempt, all } => list(context, &attempt, all).await,
        ReviewCommand::Submit { attempt, message } => submit(context, &attempt, message).await,
        ReviewCommand::Resolve(one) => {
            change(context, &one, json!({"action": "resolve"}), "resolved").await
        }
    }
}

async fn add(context: &mut Context, args: AddArgs) -> Result<Exit, Failure> {
    let LineRange { path, line, last_line } = args.place;
    let side = match args.side {
        SideArg::Old => "old",
        SideArg::New => "new",
    };
    let comment = json!({"attempt_id": context.attempt(&args.attempt).await?, "action": "add",
        "path": path, "line": line, "last_line": last_line, "side": side, "turn": args.turn,
        "text": args.text});
    let added = context.call::<CommentOnChangesOutput>(comment).await?;
    context.show(&added, |out, added| {
        let line = |it: &Comment| format!("{} drafted at {}", it.comment_id.short(), at(it));
        added.comments.iter().try_for_each(|comment| out.line(&line(comment)))
    })
}

/// Edits, removes or resolves one comment, and says so with the word `done`.
async fn change(
    context: &mut Context,
    one: &OneArgs,
    mut call: Value,
    done: &str,
) -> Result<Exit, Failure> {
    let attempt = context.attempt(&one.attempt).await?;
    let piece = check_piece(&one.comment)?;
    let comment = if let Some(id) = whole::<CommentId>(&piece) {
        id
    } else {
        let all = context.call::<AttemptComments>(json!({"attempt_id": attempt})).await?;
        only(all.comments.iter().map(|it| it.comment_id), &piece, "comment")?
    };
    (call["attempt_id"], call["comment_id"]) = (json!(attempt), json!(comment));
    let changed = context.call::<CommentOnChangesOutput>(call).await?;
    context.show(&changed, |out, _| out.line(&format!("{} {done}", comment.short())))
}

async fn submit(
    context: &mut Context,
    attempt: &str,
    message: Option<String>,
) -> Result<Exit, Failure> {
    let attempt = context.attempt(attempt).await?;
    let submit = json!({"attempt_id": attempt, "action": "submit", "text": message});
    let sent = context.call::<CommentOnChangesOutput>(submit).await?;
    context.show(&sent, |out, sent| out.line(&sent_line(attempt, sent)))
}

fn sent_line(attempt: AttemptId, sent: &CommentOnChangesOutput) -> String {
    let review = sent.review.as_ref();
    let count = review.map_or(0, |review| review.comment_count);
    let plural = if count == 1 { "" } else { "s" };
    let has_begun = review.is_some_and(|review| review.execution_process_id.is_some());
    let when = if has_begun { "a turn has begun" } else { "they wait for the running turn" };
    format!("{} {count} comment{plural} sent: {when}", attempt.short())
}

async fn list(context: &mut Context, attempt: &str, all: bool) -> Result<Exit, Failure> {
    let attempt = context.attempt(attempt).await?;
    let found = context.call::<AttemptComments>(json!({"attempt_id": attempt})).await?;
    context.show(&found, |out, found| {
        let is_shown = |it: &&Comment| all || it.state != CommentState::Resolved;
        let rows = found.comments.iter().filter(is_shown).map(row);
        let columns = [Whole("ID"), Whole("STATE"), Cut("LINES"), Cut("COMMENT")];
        let none = if all { "there are no comments" } else { "no comment is open" };
        out.list(&columns, rows, none)
    })
}

fn row(comment: &Comment) -> Vec<String> {
    let outdated = if comment.outdated { ", outdated" } else { "" };
    vec![
        comment.comment_id.short(),
        format!("{}{outdated}", word(&comment.state)),
        at(comment),
        headline(&one_line(&comment.text), TEXT),
    ]
}

/// Where a comment's lines are now; if they have changed, where they were.
fn at(comment: &Comment) -> String {
    let (path, first, last) = match &comment.now {
        Some(now) => (&now.path, now.first_line, now.last_line),
        None => (&comment.path, comment.first_line, comment.last_line),
    };
    let last = if last > first { format!("-{last}") } else { String::new() };
    let old = if comment.side == Side::Old { " (before)" } else { "" };
    format!("{path}:{first}{last}{old}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2345-7abc-8def-0123456789ab";

    fn comment(more: &Value) -> Comment {
        let mut comment = json!({"comment_id": ID, "path": "app/a.rs", "side": "new",
            "first_line": 3, "last_line": 5, "turn": 1, "blob_id": "", "quoted": "x",
            "text": "Name it.\nBetter.", "state": "delivered", "outdated": false, "now": null,
            "author": "person", "review_id": ID, "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:00Z"});
        comment.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(comment).unwrap()
    }

    #[test]
    fn lines_are_typed_after_the_path() {
        let typed = |text| place(text).map(|it| (it.path, it.line, it.last_line));
        assert_eq!(typed("app/a:b.rs:7"), Ok(("app/a:b.rs".to_owned(), 7, None)));
        assert_eq!(typed("app/a:7-9"), Ok(("app/a".to_owned(), 7, Some(9))));
        for wrong in ["app/a", "app/a:", "app/a:x", "app/a:7-", "app/a:-7"] {
            assert!(typed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_comment_is_shown_where_its_lines_are_now() {
        let now = json!({"path": "app/b.rs", "first_line": 9, "last_line": 11});
        let moved = comment(&json!({"outdated": true, "now": now}));
        let text = "Name it. ⏎ Better.";
        assert_eq!(row(&moved), ["456789ab", "delivered, outdated", "app/b.rs:9-11", text]);
        let old = comment(&json!({"side": "old", "last_line": 3, "state": "draft"}));
        assert_eq!(row(&old)[1..3], ["draft", "app/a.rs:3 (before)"]);
        let review = json!({"review_id": ID, "comment_count": 2, "session_id": ID,
            "submitted_at": "2026-01-01T00:00:00Z", "queue_id": ID, "execution_process_id": null});
        let sent = json!({"comments": [], "has_more": false, "review": review});
        let sent = serde_json::from_value(sent).unwrap();
        let line = sent_line(ID.parse().unwrap(), &sent);
        assert_eq!(line, "456789ab 2 comments sent: they wait for the running turn");
    }
}
