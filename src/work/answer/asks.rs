//! What the first words of a question ask for, and whether a passage has it: "how long" needs a duration.
//! Pure.

/// Words that count as numbers.
const NUMBERS: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen \
    fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty \
    ninety hundred thousand half once twice none unlimited";

/// Units of durations.
const UNITS: &str = "second seconds minute minutes hour hours day days week weeks month months year \
    years ms s";

/// Words that say how often.
const REPEATS: &str = "every each daily weekly monthly hourly nightly yearly quarterly once twice per \
    never always";

/// Words that say when.
const TIMES: &str = "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays \
    wednesdays thursdays fridays saturdays sundays weekday weekdays weekend weekends daily weekly \
    monthly nightly january february march april may june july august september october november \
    december before after when until once during every if only first last night noon midnight hour \
    week weeks month months year years";

/// Words that introduce a reason.
const REASONS: &str = "because since so why therefore reason due avoid otherwise";

/// How many first words of a question are read for what it asks for.
const HEAD: usize = 3;

/// How many words apart a number and the counted noun may be.
const NEAR: usize = 3;

/// What the question asks for and the passage does not have, such as "how long"; `None`: nothing is missing,
/// or the question asks for nothing of this kind.
pub fn lacks(question: &str, passage: &str) -> Option<&'static str> {
    let (asked, said) = (words(question), words(passage));
    let has = |list: &str| said.iter().any(|word| is_in(list, word));
    let has_number = said.iter().any(|word| is_number(word));
    let at = asked.iter().take(HEAD).position(|word| is_in("how when why who", word))?;
    let next = asked.get(at + 1).map_or("", String::as_str);
    let (fits, what) = match (asked[at].as_str(), next) {
        ("how", "long") => (has_number && has(UNITS) || has("ever never long"), "how long"),
        ("how", "often") => (has(REPEATS), "how often"),
        ("how", "many") => {
            let noun = asked.get(at + 2).map_or("", String::as_str);
            (noun == "percent" || is_counted(noun, &said), "how many")
        }
        ("when", _) => (has_number || has(TIMES), "when"),
        ("why", _) => (has(REASONS), "why"),
        // A passive sentence names who does it after "by".
        ("who", "is" | "are" | "was") => return None,
        ("who", _) => (!has("is are was were be been") || has("by"), "who"),
        _ => return None,
    };
    (!fits).then_some(what)
}

/// Whether a number is near the noun, in singular or plural.
fn is_counted(noun: &str, said: &[String]) -> bool {
    // Singular and plural have the same beginning.
    let length = noun.chars().count().saturating_sub(2).max(3);
    let beginning: String = noun.chars().take(length).collect();
    said.iter().enumerate().filter(|(_, word)| word.starts_with(&beginning)).any(|(at, _)| {
        let near = at.saturating_sub(NEAR)..said.len().min(at + NEAR + 1);
        said[near].iter().any(|word| is_number(word))
    })
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) || is_in(NUMBERS, word)
}

fn is_in(list: &str, word: &str) -> bool {
    list.split(' ').any(|other| other == word)
}

fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_has_what_the_question_asks_for() {
        for (question, passage, lacking) in [
            ("How long are logs kept?", "Logs are kept for 14 days.", None),
            ("How long are logs kept?", "Logs are kept in Loki.", Some("how long")),
            ("How long are logs kept?", "Logs are kept for eighty days.", None),
            ("How often are invoices sent?", "Invoices are sent by mail.", Some("how often")),
            ("For how many days are logs kept?", "Logs are kept for 14 days.", None),
            ("How many riders may report?", "A rider reports 3 or more defects.", None),
            ("How many riders may report?", "A rider may report a defect.", Some("how many")),
            ("When are bills due?", "Bills are due after two weeks.", None),
            ("When are bills due?", "Bills are paid by card.", Some("when")),
            ("Why is it Go?", "It is Go.", Some("why")),
            ("Who closes errors?", "Errors are closed.", Some("who")),
            ("Who closes errors?", "Errors are closed by a clerk.", None),
            ("Who is the owner?", "The owner is Marit.", None),
            ("Is it shown when the user waits?", "It is shown.", None),
        ] {
            assert_eq!(lacks(question, passage), lacking, "{question} {passage}");
        }
    }
}
