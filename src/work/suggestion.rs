//! What an observation suggests to do, in its own words. Pure.

use provost_actors::text::cut;

/// The length to which a suggestion is cut, in characters.
const MAX: usize = 300;

/// How observations begin that say what to do; the rest is the task.
const NEEDS: &str =
    "we need to |i need to |need to |needs to |we should |should |must |todo: |todo ";

/// How observations begin that say what was found; the rest is what others should know.
const FINDINGS: &str = "i found that |found that |i noticed that |noticed that |it turns out that |\
    observed that |discovered that ";

/// The follow-up that an observation suggests, as the title of a task.
pub fn follow_up(observation: &str) -> String {
    let observation = observation.trim();
    let rest = |beginnings: &str| {
        beginnings.split('|').find_map(|beginning| {
            let (head, rest) = observation.split_at_checked(beginning.len())?;
            head.eq_ignore_ascii_case(beginning).then(|| rest.trim_start())
        })
    };
    let suggested = if let Some(task) = rest(NEEDS) {
        let mut letters = task.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
    } else if let Some(finding) = rest(FINDINGS) {
        format!("Document that {finding}")
    } else {
        format!("Document: {observation}")
    };
    cut(suggested, MAX)
}

#[cfg(test)]
mod tests {
    use super::follow_up;

    #[test]
    fn a_need_becomes_a_task_and_a_finding_is_to_be_written_down() {
        for (observation, suggested) in [
            ("Need to add utilities for blending", "Add utilities for blending"),
            ("found that HSL is better than HEX", "Document that HSL is better than HEX"),
            ("The cache is cold", "Document: The cache is cold"),
            ("Über alles", "Document: Über alles"),
            ("TODO: écrire", "Écrire"),
        ] {
            assert_eq!(follow_up(observation), suggested);
        }
    }
}
