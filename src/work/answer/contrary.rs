//! What looks alike and says otherwise: a comparison turned round, and two statements
//! that part in one word. Stems and weights pass over both. Pure.

/// Words of comparison that no question is without, and those that turn them round.
const TURNED: &[(&[&str], &[&str])] = &[
    (&["above", "over"], &["below", "under", "beneath"]),
    (&["more"], &["less", "fewer"]),
    (&["most"], &["least"]),
    (&["before"], &["after"]),
];

/// How a question begins that "no" may answer: what turns it round answers it, too.
const YES_OR_NO: &[&str] = &[
    "is", "are", "was", "were", "do", "does", "did", "should", "shall", "can", "could", "may",
    "might", "must", "will", "would", "has", "have", "had",
];

const ARTICLES: &[&str] = &["a", "an", "the"];

const NEGATIONS: &[&str] = &["not", "no", "never"];

/// From so many words on two statements that part in one are about the same.
const STATEMENT: usize = 3;

/// The word of a question that a passage turns round, and how the passage has it.
pub fn turned(question: &str, passage: &str) -> Option<(&'static str, &'static str)> {
    let (asked, said) = (words(question), words(passage));
    if asked.first().is_some_and(|first| YES_OR_NO.contains(&first.as_str())) {
        return None;
    }
    let found = |in_text: &[String], list: &[&'static str]| {
        list.iter().copied().find(|word| in_text.iter().any(|it| it == word))
    };
    let sides = TURNED.iter().flat_map(|(one, other)| [(one, other), (other, one)]);
    for (side, opposite) in sides {
        if let (Some(asked), None, Some(said)) =
            (found(&asked, side), found(&said, side), found(&said, opposite))
        {
            return Some((asked, said));
        }
    }
    None
}

/// Whether two statements are the same save for one word that is another, or for a
/// negation.
pub fn part_in_a_word(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let alike = short.iter().zip(&long).take_while(|(one, other)| one == other).count();
    let Some((parts, rest)) = long[alike..].split_first() else { return false };
    let (fits, from) = if short.len() < long.len() {
        (NEGATIONS.contains(&parts.as_str()), &short[alike..])
    } else {
        (true, &short[alike + 1..])
    };
    short.len() >= STATEMENT && fits && from == rest
}

fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.filter(|word| !ARTICLES.contains(word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_comparison_turned_round_is_told() {
        let passage = "Refunds under 500 euro are approved by the accountant.";
        assert_eq!(turned("Who approves refunds over 500 euro?", passage), Some(("over", "under")));
        for (question, passage) in [
            ("Who approves refunds under 500 euro?", passage),
            ("Who approves refunds below 500 euro?", passage),
            // No, they are below it: that is an answer.
            ("Should links be above the list?", "Links are below the list."),
            ("What is above the list?", "Links are above the list and below the title."),
            ("Who approves refunds?", passage),
        ] {
            assert_eq!(turned(question, passage), None, "{question}");
        }
    }

    #[test]
    fn statements_part_in_a_word() {
        for (one, other) in [
            ("The menu is open by default.", "The menu is closed by default."),
            ("The API is public.", "The API is not public."),
            ("Menus are open", "The menus are closed"),
        ] {
            assert!(part_in_a_word(one, other) && part_in_a_word(other, one), "{one}");
        }
        for (one, other) in [
            ("The API is public.", "the API is public"),
            ("The API is public.", "An API is public."),
            ("Open it.", "Close it."),
            ("The menu is open by default.", "The list is closed by default."),
            ("The menu is open.", "The menu is open by default."),
            ("The menu is open.", "The menu is open now."),
            ("", ""),
        ] {
            assert!(!part_in_a_word(one, other) && !part_in_a_word(other, one), "{one}");
        }
    }

    proptest! {
        #[test]
        fn one_word_changed_anywhere_is_found(
            words in proptest::collection::vec("[b-z]{2,6}", 3..9),
            at in any::<proptest::sample::Index>(),
            word in "[0-9]{2,6}",
        ) {
            let (mut denied, mut changed) = (words.clone(), words.clone());
            let at = at.index(words.len());
            denied.insert(at, "not".to_owned());
            changed[at] = word;
            let text = words.join(" ");
            prop_assert!(part_in_a_word(&text, &denied.join(" ")));
            prop_assert!(part_in_a_word(&text, &changed.join(" ")));
            prop_assert!(!part_in_a_word(&text, &text));
        }
    }
}
