//! What looks alike and says otherwise: a comparison turned round, and two statements
//! that part in one word; things that changed places; what is denied. Stems and weights
//! pass over all of it. Pure.

use super::words;

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

/// How a question begins that asks what is so.
const WHAT: &[&str] = &["what", "which", "who", "whom", "whose", "where"];

/// Words of bounds, beside those of comparison.
const BOUNDS: &[&str] = &["exceed", "than", "until"];

/// Within so many words a sentence says that it denies.
const DENIAL: usize = 4;

/// What joins two things that may as well change places.
const JOINS: &[&str] = &["and", "or", "nor"];

/// Most words of a thing, and of what is said of two things, that are held against those
/// of a passage.
const THING: usize = 3;
const SAID: usize = 4;
/// A question of more words is about more than two things.
const QUESTION: usize = 40;

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

/// Whether a question asks what is so, and not what is not.
pub fn asks_what_is(question: &str) -> bool {
    let first = words(question).into_iter().next();
    first.is_some_and(|first| WHAT.contains(&first.as_str())) && !negated(question, usize::MAX)
}

/// Whether a sentence says from its beginning what is not so. A bound is no denial:
/// "must not fall below 80 %".
pub fn denies(sentence: &str) -> bool {
    let bounds = TURNED.iter().flat_map(|(one, other)| one.iter().chain(*other)).chain(BOUNDS);
    negated(sentence, DENIAL) && {
        let said = words(sentence);
        !bounds.into_iter().any(|bound| said.iter().any(|word| word == bound))
    }
}

fn negated(text: &str, within: usize) -> bool {
    let words = text.split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’'));
    words.filter(|word| !word.is_empty()).take(within).any(|word| {
        let word = word.to_lowercase().replace('’', "'");
        NEGATIONS.contains(&word.as_str()) || word.ends_with("n't")
    })
}

/// Whether a yes/no question says of two things what a passage says of them the other way
/// round: "Does A depend on B?" where B depends on A.
pub fn swapped(question: &str, passage: &str) -> bool {
    if !words(question).first().is_some_and(|first| YES_OR_NO.contains(&first.as_str())) {
        return false;
    }
    let [asked, said] = [question, passage].map(|text| {
        let words = words(text).into_iter().filter(|word| !YES_OR_NO.contains(&word.as_str()));
        words.flat_map(|word| words::stems(&word)).collect::<Vec<_>>()
    });
    if asked.len() > QUESTION {
        return false;
    }
    let is_said = |parts: [&[String]; 3]| {
        let whole = parts.concat();
        said.windows(whole.len()).any(|there| there == whole)
    };
    let spans = |from: usize, most: usize| {
        (from + 1..=asked.len().min(from + most)).map(move |to| from..to)
    };
    let triples = (0..asked.len())
        .flat_map(|from| spans(from, THING))
        .flat_map(|one| spans(one.end, SAID).map(move |verb| (one.clone(), verb)))
        .flat_map(|(one, verb)| {
            spans(verb.end, THING).map(move |other| (one.clone(), verb.clone(), other))
        });
    let mut triples = triples.map(|(one, verb, other)| (&asked[one], &asked[verb], &asked[other]));
    triples.any(|(one, verb, other)| {
        one != other
            && !verb.iter().all(|word| JOINS.contains(&word.as_str()))
            && is_said([other, verb, one])
            && !is_said([one, verb, other])
    })
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
    fn things_that_changed_places_are_told() {
        let depends = "Mercury depends on Venus.";
        let converts = "The parser converts YAML to TOML.";
        let server = "The database depends on the web server.";
        for (question, passage) in [
            ("Does Venus depend on Mercury?", depends),
            ("Does the parser convert TOML to YAML?", converts),
            ("Does the web server depend on the database?", server),
            ("Is the footer above the menu?", "The menu is above the footer."),
        ] {
            assert!(swapped(question, passage), "{question}");
        }
        for (question, passage) in [
            ("Does Mercury depend on Venus?", depends),
            ("Does the parser convert YAML to TOML?", converts),
            ("Does the parser convert TOML to YAML?", "It turns YAML to TOML and TOML to YAML."),
            ("What depends on Mercury?", depends),
            ("Are refunds approved by the accountant?", "The accountant approves refunds."),
            ("Do we support Chrome and Firefox?", "We support Firefox and Chrome."),
            ("Does Venus depend on Mercury?", ""),
            ("", depends),
        ] {
            assert!(!swapped(question, passage), "{question}");
        }
    }

    #[test]
    fn what_is_denied_is_told_from_what_is_so() {
        for sentence in ["Do not use MySQL.", "We don’t use MySQL", "Never log tokens."] {
            assert!(denies(sentence), "{sentence}");
        }
        for sentence in [
            "We use it.",
            "Coverage must not fall below 80 %.",
            "Modals confirm what is shown and can't be undone.",
        ] {
            assert!(!denies(sentence), "{sentence}");
        }
        assert!(asks_what_is("Which database do we use?"));
        for question in ["Which database do we not use?", "Do passwords expire?", "Why not?", ""] {
            assert!(!asks_what_is(question), "{question}");
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
