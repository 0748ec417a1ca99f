//! The reports on a task, as a reader gets them: the newest ones, within a limit of bytes. Pure.

use crate::api::worker::report::TaskReport;
use provost_actors::text::cut;
use serde_json::Value;

/// The most reports that are shown of a task.
pub const SHOWN: usize = 20;

/// The most bytes that these reports may have together, as JSON.
const BYTES_MAX: usize = 8192;

/// The steps by which a report is shortened until it fits: the longest text in characters, and the longest
/// list.
const SHORTER: [(usize, usize); 3] = [(2000, 50), (400, 20), (80, 10)];

/// As many of the newest reports as fit. The first is shortened until it fits, so that it is never missing.
pub fn fitting(reports: Vec<TaskReport>) -> Vec<TaskReport> {
    let mut left = BYTES_MAX;
    let mut shown = Vec::new();
    for mut report in reports {
        drop_nulls(&mut report.report);
        let report = if shown.is_empty() { shortened(report, left) } else { report };
        let Some(rest) = left.checked_sub(bytes(&report)) else { break };
        left = rest;
        shown.push(report);
    }
    shown
}

fn bytes(report: &TaskReport) -> usize {
    serde_json::to_string(report).map_or(usize::MAX, |json| json.len())
}

/// A report that is shortened until it has at most `most` bytes; in the end without its body.
fn shortened(mut report: TaskReport, most: usize) -> TaskReport {
    for (text, items) in SHORTER {
        if bytes(&report) <= most {
            return report;
        }
        report.truncated = true;
        shorten(&mut report.report, text, items);
        for list in [&mut report.warnings, &mut report.handles] {
            list.truncate(items);
            for it in list.iter_mut() {
                *it = cut(std::mem::take(it), text);
            }
        }
    }
    if bytes(&report) > most {
        report.report = Value::Null;
    }
    report
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn shorten(value: &mut Value, text: usize, items: usize) {
    match value {
        Value::String(string) => *string = cut(std::mem::take(string), text),
        Value::Array(list) => {
            list.truncate(items);
            for item in list.iter_mut() {
                shorten(item, text, items);
            }
        }
        Value::Object(members) => {
            let kept = std::mem::take(members).into_iter().take(items);
            *members = kept
                .map(|(name, mut member)| {
                    shorten(&mut member, text, items);
                    (name, member)
                })
                .collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use provost_actors::event::Timestamp;
    use serde_json::{Map, json};

    use super::*;

    fn report(body: Value) -> TaskReport {
        TaskReport {
            at: Timestamp::from_millis(0),
            tool: "reportTaskDone".to_owned(),
            by: "an-agent".to_owned(),
            task_id: "TASK-001".to_owned(),
            status: Some("failed".to_owned()),
            handles: vec!["OBS-001".to_owned()],
            warnings: Vec::new(),
            report: body,
            truncated: false,
        }
    }

    #[test]
    fn what_fits_is_shown_whole_and_the_newest_always() {
        let short = report(json!({"statusDetails": {"failureReason": "no key"}}));
        let given =
            json!({"testing": null, "statusDetails": {"failureReason": "no key", "is": null}});
        assert_eq!(fitting(vec![report(given)]), std::slice::from_ref(&short));
        let many = fitting(vec![short.clone(); SHOWN]);
        assert_eq!(many, vec![short.clone(); SHOWN]);
        let long = report(json!({"implementationNotes": "x".repeat(20_000)}));
        let shown = fitting(vec![long.clone(), short.clone(), long]);
        assert_eq!((shown.len(), shown[0].truncated, &shown[1]), (2, true, &short));
        let criteria: Map<String, Value> =
            (0..9000).map(|n| (n.to_string(), json!({"text": "y".repeat(2000)}))).collect();
        let huge =
            report(json!({"a": {"b": criteria}, "observations": vec!["z".repeat(2000); 50]}));
        let shown = fitting(vec![huge]);
        assert!(shown.len() == 1 && bytes(&shown[0]) <= BYTES_MAX && !shown[0].report.is_null());
    }
}
