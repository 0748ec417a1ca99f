//! The check of references that keep unmerged work of removed attempts: nothing else refers to those
//! commits.

use std::collections::BTreeSet;
use std::path::Path;

use provost_actors::workspace::kept_refs;

use super::check::Check;
use crate::store::InspectedAttempt;

/// Counts the kept references in the repositories of attempts, including those of removed projects.
pub async fn checks(attempts: &[InspectedAttempt]) -> Vec<Check> {
    let ids: BTreeSet<&str> = attempts.iter().map(|it| it.attempt_id.as_str()).collect();
    let repos: BTreeSet<&str> =
        attempts.iter().flat_map(|it| &it.repos).map(|(_, path)| path.as_str()).collect();
    let mut count = 0;
    for repo in repos {
        // An unreadable repository is a finding of `in_git`.
        let kept = kept_refs::list(Path::new(repo)).await.unwrap_or_default();
        count += kept.iter().filter(|it| ids.contains(&*it.attempt_id.to_string())).count();
    }
    vec![match count {
        0 => Check::ok("kept work", "no reference keeps work of a removed attempt"),
        count => Check::note(
            "kept work",
            format!("{count} references keep unmerged work of attempts that were removed"),
            "Run `provost gc --kept` to list them, and with --yes to remove the old ones.",
        ),
    }]
}
