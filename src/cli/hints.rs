//! Translates the hints of the daemon, which name tools and fields, into verbs and flags for a person.
//! A sentence without a translation is left out. Pure.
//!
//! Hints have a few fixed forms, such as "Call TOOL with FIELD = VALUE", which `provost_actors::refusal`
//! lists. The verb of a tool is in the table of tools.

use serde_json::Value;

use crate::tools::table;

/// The verb (empty: any), a tool's field, and the argument for it on the command line. A verb's own row
/// takes precedence over that of any verb.
const FLAGS: &[(&str, &str, &str)] = &[
    ("init", "name", "--name NAME"),
    ("init", "repos.path", "PATH"),
    ("init", "repos.target_branch", "--target-branch BRANCH"),
    ("project add", "name", "NAME"),
    ("project add", "repos.path", "--repo PATH"),
    ("project add", "repos.target_branch", "--repo PATH@BRANCH"),
    ("task start", "prompt", "--prompt TEXT"),
    ("task start", "ignore_dependencies", "--ignore-dependencies"),
    ("retry", "ignore_dependencies", "--ignore-dependencies"),
    ("deny", "reason", "--reason TEXT"),
    ("answer", "answer", "ANSWER"),
    ("answer", "question_id", "ID"),
    ("logs", "limit", "--limit N"),
    ("review add", "path", "PATH:LINE"),
    ("review add", "line", "PATH:LINE"),
    ("review add", "last_line", "PATH:LINE-LINE"),
    ("", "side", "--side SIDE"),
    ("", "turn", "--turn TURN"),
    ("", "comment_id", "COMMENT"),
    ("plan add", "name", "--name NAME"),
    ("plan add", "version", "--version VERSION"),
    ("plan remove", "name", "NAME"),
    ("plan remove", "version", "--version VERSION"),
    ("", "approval_id", "APPROVAL"),
    ("apply", "into", "OTHER"),
    ("", "attempt_id", "ATTEMPT"),
    ("", "branch", "--branch NAME"),
    ("", "depends_on", "--depends-on TASK"),
    ("", "description", "--description TEXT"),
    ("", "executor", "--executor NAME"),
    ("", "force_with_lease", "--force-with-lease"),
    ("", "into", "--into BRANCH"),
    ("", "message", "--message TEXT"),
    ("", "path", "PATH"),
    ("", "paths", "PATH"),
    ("", "priority", "--priority LEVEL"),
    ("", "project_id", "--project NAME"),
    ("", "remote", "--remote NAME"),
    ("", "strategy", "--strategy HOW"),
    ("", "prompt", "PROMPT"),
    ("", "task_id", "TASK"),
    ("", "title", "TITLE"),
    ("", "variant", "--variant NAME"),
];

/// Hints that lead to another action of the same tool, by their beginning, and the verbs for them.
const ACTIONS: &[(&str, &str)] = &[
    ("action = \"queue\"", "provost queue ATTEMPT PROMPT"),
    ("action = \"list\"", "provost review list ATTEMPT"),
    ("action, which is add", "provost review add ATTEMPT PATH:LINE TEXT"),
];

/// The hint in words for a person who typed this verb. Empty if its first sentence can't be translated
/// and no second one takes its place: the other sentences only explain the first.
pub fn for_person(hint: &str, verb: &str) -> String {
    let mut sentences = sentences(hint).into_iter();
    // The second sentence may name a command in place of the first one: "Or run `COMMAND`."
    let first = sentences.next().and_then(|first| translated(first, verb));
    let Some(first) = first.or_else(|| {
        let command = sentences.next()?.strip_prefix("Or run ")?;
        translated(&format!("Run {command}"), verb)
    }) else {
        return String::new();
    };
    let more = sentences.filter_map(|sentence| translated(sentence, verb));
    std::iter::once(first).chain(more).collect::<Vec<_>>().join(" ")
}

/// A message that begins with a tool's field in backticks gets the argument of the command line instead.
pub fn message_for_person(message: &str, verb: &str) -> String {
    let parts = message.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    let flag = parts.and_then(|(field, rest)| Some((flag(field, verb)?, rest)));
    match flag {
        Some((flag, rest)) => {
            let name = flag.split(' ').next().unwrap_or(flag);
            format!("{name}{rest}")
        }
        None => message.to_owned(),
    }
}

/// Splits a hint after each full stop that a space follows, except within quotes or backticks.
fn sentences(hint: &str) -> Vec<&str> {
    let (mut parts, mut start, mut quote) = (Vec::new(), 0, None);
    let mut before = ' ';
    for (at, c) in hint.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open && before != '\\' => quote = None,
            (None, '"' | '`') => quote = Some(c),
            (None, ' ') if before == '.' => {
                parts.push(hint[start..at].trim());
                start = at;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(hint[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// A sentence in words for a person; `None`: it would still name a tool or field.
fn translated(sentence: &str, verb: &str) -> Option<String> {
    let body = sentence.strip_suffix('.').unwrap_or(sentence);
    let spoken = match body.strip_prefix("Call ") {
        Some(call) => called(call, verb)?,
        None => aside(body),
    };
    is_plain(&spoken).then(|| format!("{spoken}."))
}

/// Translates the text after `Call`, in the forms that [`provost_actors::refusal`] lists.
fn called(call: &str, verb: &str) -> Option<String> {
    let (tool, rest) = match call.strip_prefix("the tool ") {
        Some(rest) => ("", rest),
        None => call.split_once(' ')?,
    };
    if let Some(with) = rest.strip_prefix("again with ") {
        return again_with(with, verb);
    }
    if let Some(field) = rest.strip_prefix("again without ") {
        let flag = flag(field, verb)?;
        return Some(format!("Run it again without {}", flag.split(' ').next()?));
    }
    if let Some(when) = rest.strip_prefix("again when ") {
        return Some(format!("Run it again when {when}"));
    }
    if rest.starts_with("until ") {
        return Some("Run `provost wait ATTEMPT`, then run this again".to_owned());
    }
    let (rest, then) = match rest.split_once(", then ") {
        Some((rest, _)) => (rest, ", then run this again"),
        None => (rest, ""),
    };
    if let Some(verb) = follow_up(tool, rest) {
        return Some(format!("Run `provost {verb} ATTEMPT PROMPT`{then}"));
    }
    let typed = typed(tool)?;
    if rest == "instead" {
        return Some(format!("Run `{typed}` instead"));
    }
    let (field, value) = rest.strip_prefix("with ")?.split_once(" = ")?;
    let place = flag(field, "")?;
    Some(format!("Run `{}`{then}", typed.replace(place, &shown(value)?)))
}

/// The verb for a follow-up: `send` or `queue`.
fn follow_up(tool: &str, rest: &str) -> Option<&'static str> {
    let given = rest.strip_prefix("with action = ").filter(|_| tool == "follow_up")?;
    let action = given.split(" and ").next()?;
    ["send", "queue"].into_iter().find(|verb| action == format!("\"{verb}\""))
}

/// Translates the text after `again with`: `executor = "a" and variant = "b"`,
/// `executor from list_executors`, `path, which …`.
fn again_with(with: &str, verb: &str) -> Option<String> {
    let instead = ACTIONS.iter().find(|(action, _)| with.starts_with(action));
    if let Some((_, typed)) = instead {
        return Some(format!("Run `{typed}` instead"));
    }
    let field = with.split([' ', ',']).next()?;
    let flag = flag(field, verb)?;
    let rest = &with[field.len()..];
    if let Some(value) = rest.strip_prefix(" = ") {
        return Some(format!("Run it again with {}", given(flag, value, verb)?));
    }
    if let Some(list) = rest.strip_prefix(" from ") {
        let typed = typed(list.split(',').next()?)?;
        let another = if flag.starts_with('-') { "" } else { "another " };
        return Some(format!("Run it again with {another}{flag}; `{typed}` lists them"));
    }
    let is_said = rest.is_empty() || rest.starts_with(", ");
    is_said.then(|| format!("Run it again with {flag}{rest}"))
}

/// A flag with its value, and further ones after `and`. A switch that must be false has no flag.
fn given(flag: &str, value: &str, verb: &str) -> Option<String> {
    let (value, more) = match value.split_once(" and ") {
        Some((value, more)) => (value, Some(more)),
        None => (value, None),
    };
    let value = value.split(" instead of ").next()?;
    let mut said = match (flag.split_once(' '), value) {
        (Some((flag, place)), branch) if place.contains('@') => {
            format!("{flag} PATH@{}", shown(branch)?)
        }
        (_, "false") => return None,
        (None, "true") => flag.to_owned(),
        (Some((flag, _)), value) => format!("{flag} {}", shown(value)?),
        (None, value) => shown(value)?,
    };
    if let Some((field, value)) = more.and_then(|more| more.split_once(" = ")) {
        said = format!("{said} {}", given(self::flag(field, verb)?, value, verb)?);
    }
    Some(said)
}

/// A JSON value as it is typed; an array as words with spaces. `None`: it can't be typed.
fn shown(value: &str) -> Option<String> {
    match serde_json::from_str(value).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            texts.map(|texts| texts.join(" "))
        }
        _ => None,
    }
}

/// The argument for a field, of this verb or of any. Indices are ignored: `repos[0].path` is
/// `repos.path`.
fn flag(field: &str, verb: &str) -> Option<&'static str> {
    let without_places = field.split(['[', ']']).step_by(2).collect::<String>();
    let of = |verb: &str| {
        let mut flags = FLAGS.iter().filter(|(of, name, _)| *of == verb && *name == without_places);
        flags.next().map(|(_, _, flag)| *flag)
    };
    of(verb).or_else(|| of(""))
}

/// The command for a tool; `None`: no verb does the same.
fn typed(tool: &str) -> Option<&'static str> {
    table::find(tool).map(|tool| tool.verb).filter(|verb| !verb.is_empty())
}

/// A sentence that does not begin with `Call`. Calls within it are replaced by commands.
fn aside(sentence: &str) -> String {
    let mut said = sentence.to_owned();
    for before in ["then call ", "or call ", "Or call "] {
        if let Some(at) = said.find(before).map(|at| at + before.len()) {
            let rest = said.split_off(at);
            said.truncate(at - "call ".len());
            let name = rest.split(' ').next().unwrap_or_default();
            let tool = if rest.starts_with("the tool") { "the tool" } else { name };
            let rest = &rest[tool.len()..];
            let call = match (typed(tool), rest.strip_prefix(" again")) {
                (_, Some(rest)) => format!("run this again{rest}"),
                (Some(typed), None) => format!("run `{typed}`{rest}"),
                (None, None) => format!("call {tool}{rest}"),
            };
            said.push_str(&call);
        }
    }
    for tool in table::all().iter().filter(|tool| !tool.verb.is_empty()) {
        said = said.replace(&format!("{} shows", tool.name), &format!("`{}` shows", tool.verb));
    }
    said
}

/// Whether a sentence names no tool, field or detail outside of quotes. Names are recognized by their
/// underscore.
fn is_plain(sentence: &str) -> bool {
    let unquoted: Vec<&str> = sentence.split(['`', '"']).step_by(2).collect();
    let is_name = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_identifier = word.contains('_')
            && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
        is_identifier || word.starts_with("details.")
    };
    !unquoted.iter().any(|text| text.contains("Call ") || text.contains("the tool"))
        && !unquoted.iter().flat_map(|text| text.split(' ')).any(is_name)
}

#[cfg(test)]
mod tests {
    use provost_actors::refusal::Code;

    use super::*;

    #[test]
    fn a_hint_names_what_was_typed() {
        for (verb, hint, expected) in [
            (
                "run",
                "Call start_task_attempt again with executor from list_executors, one with available = true.",
                "Run it again with --executor NAME; `provost executors` lists them.",
            ),
            (
                "run",
                "Call start_task_attempt again with executor = \"claude\" and variant = \"plan\".",
                "Run it again with --executor claude --variant plan.",
            ),
            (
                "merge",
                "Call follow_up with action = \"send\" and prompt = \"Go on.\", then finish_attempt again. It makes the worktrees.",
                "Run `provost send ATTEMPT PROMPT`, then run this again. It makes the worktrees.",
            ),
            (
                "init",
                "Call create_project again with repos[0].path, the absolute path of a git repository.",
                "Run it again with PATH, the absolute path of a git repository.",
            ),
            (
                "project add",
                "Call create_project again with repos[1].target_branch = \"main\".",
                "Run it again with --repo PATH@main.",
            ),
            (
                "diff",
                "Call get_attempt_patch again with paths = [\"app/a b\", \"app/c\"].",
                "Run it again with app/a b app/c.",
            ),
            (
                "send",
                "Call get_attempt_status until state is not running, then follow_up again. Or call stop_attempt first.",
                "Run `provost wait ATTEMPT`, then run this again. Or run `provost stop ATTEMPT` first.",
            ),
            (
                "task rm",
                "Call stop_attempt with attempt_id = \"0192\", then delete_task again.",
                "Run `provost stop 0192`, then run this again.",
            ),
            (
                "task start",
                "Call start_task_attempt again with ignore_dependencies = true. Or finish the tasks in details.unmet first.",
                "Run it again with --ignore-dependencies.",
            ),
            (
                "init",
                "Make a first commit in the repository, then call create_project again.",
                "Make a first commit in the repository, then run this again.",
            ),
            (
                "task start",
                "Fix the problem that the message names, then call start_task_attempt again. list_executors shows what can run.",
                "Fix the problem that the message names, then run this again. `provost executors` shows what can run.",
            ),
            ("init", "Call create_project again with request_id, 1 to 128 characters.", ""),
            ("answer", "Call list_inbox instead.", "Run `provost inbox` instead."),
            (
                "status",
                "Call get_attempt_status again with attempt_id from list_task_attempts.",
                "Run it again with another ATTEMPT; `provost ps --all` lists them.",
            ),
            (
                "send",
                "Call follow_up again with action = \"queue\". It runs when the turn has ended.",
                "Run `provost queue ATTEMPT PROMPT` instead. It runs when the turn has ended.",
            ),
            ("send", "Call unknown_tool again with x. It runs when the turn has ended.", ""),
            ("run", "Call createTicket instead.", ""),
            (
                "run",
                "Call start_task_attempt again with repos = []. Or run `provost init`: it helps.",
                "Run `provost init`: it helps.",
            ),
            ("run", "Run `provost doctor`.", "Run `provost doctor`."),
        ] {
            assert_eq!(for_person(hint, verb), expected, "{hint}");
        }
    }

    #[test]
    fn a_message_names_what_was_typed() {
        let message = |verb| message_for_person("`name` must be short.", verb);
        assert_eq!(message("init"), "--name must be short.");
        assert_eq!(message("plan remove"), "NAME must be short.");
        assert_eq!(message("run"), "`name` must be short.");
    }

    #[test]
    fn no_codes_hint_leaves_a_tool_or_field() {
        for code in Code::ALL {
            let shown = for_person(code.hint(), "run");
            assert!(!shown.contains("Call ") && !shown.contains("the tool"), "{shown}");
            assert!(is_plain(&shown), "{shown}");
        }
    }

    #[test]
    fn a_sentence_ends_where_no_quote_is_open() {
        assert_eq!(
            sentences("One \"a. b\" c. Two `x. y`. Three."),
            ["One \"a. b\" c.", "Two `x. y`.", "Three."]
        );
    }
}
