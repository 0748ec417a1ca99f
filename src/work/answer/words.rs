//! Texts as words that can be compared: split, lower-cased, stemmed; which of them
//! carry a question, and which mean the same. Pure.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use super::kin;

/// Most words that a question is looked up by: a search costs as much as they are frequent.
const SOUGHT_MAX: usize = 200;

/// Words that say nothing by themselves.
const EMPTY: &str = "a about above after all also am an and any are as at be been before being below \
    between both but by can could did do does doing don down during each either else few for from \
    further had has have having he her here hers him his how i if in into is isn it its itself just \
    kind let like ll many may me might more most much must my no nor not now of off often on once \
    one only or other ought our ours out over own per please re s same shall she should so some such t \
    than that the their theirs them then there these they this those through to too under until up \
    us ve very want was we were what when where whether which while who whom whose why will with \
    within would yes you your yours long exactly actually currently frequently";

/// Words that nearly every question of a kind has: one that the plan lacks is no
/// sign that the plan says nothing about it.
const LIGHT: &str = "use used using user need require support have work happen handle implement make get give \
    take show set define apply choose pick select allow permit provide include contain prefer go \
    come look call type kind way thing part app application project system plan \
    specify specific current exact value main general default new rule policy strategy \
    approach chosen choice decide decision follow consider expect involve available exist intend \
    people say tell describe detail information info feature solution version1 v1 item there \
    place goal mean number amount count day date";

/// Words that are taken for one another.
const ALIKE: &[&str] = &[
    "width wide",
    "height tall high",
    "size big large",
    "color colour",
    "mobile phone smartphone",
    "login signin authentication authenticate auth",
    "signup registration register",
    "delete remove erase",
    "max maximum limit cap longest",
    "min minimum least shortest",
    "database db",
    "configuration config setting settings configure",
    "expire expiry expiration lifetime ttl valid",
    "store storage persist save keep",
    "retain retention",
    "notify notification alert",
    "picture image photo",
    "font typeface",
    "deploy deployment",
    "release ship launch",
    "nav navigation navigate",
    "screen display viewport",
    "encrypt encryption",
    "permission privilege",
    "admin administrator",
    "documentation docs",
    "directory folder",
    "repo repository",
    "env environment",
    "price cost charge",
    "email mail",
    "fast speed quick latency",
    "pay payment",
    "language programming",
    "hide hidden collapse",
    "forbid prohibit disallow",
    "host hosting hosted",
    "begin start",
    "finish end",
    "license licence",
    "behavior behaviour",
    "length character",
    "backup backups",
];

/// Forms of verbs that no rule of spelling leads back to the verb.
const IRREGULAR: &[(&str, &str)] = &[
    ("began", "begin"),
    ("begun", "begin"),
    ("bought", "buy"),
    ("broken", "break"),
    ("built", "build"),
    ("came", "come"),
    ("chose", "choose"),
    ("chosen", "choose"),
    ("drawn", "draw"),
    ("fell", "fall"),
    ("fallen", "fall"),
    ("found", "find"),
    ("frozen", "freeze"),
    ("gave", "give"),
    ("given", "give"),
    ("held", "hold"),
    ("hidden", "hide"),
    ("kept", "keep"),
    ("led", "lead"),
    ("left", "leave"),
    ("lost", "lose"),
    ("made", "make"),
    ("meant", "mean"),
    ("met", "meet"),
    ("paid", "pay"),
    ("ran", "run"),
    ("sent", "send"),
    ("shown", "show"),
    ("sold", "sell"),
    ("spent", "spend"),
    ("taken", "take"),
    ("taught", "teach"),
    ("thrown", "throw"),
    ("told", "tell"),
    ("took", "take"),
    ("written", "write"),
    ("wrote", "write"),
];

static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));

static EMPTY_WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut words: Vec<_> = EMPTY.split_whitespace().collect();
    words.sort_unstable();
    words
});

static LIGHT_STEMS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut stems: Vec<_> = LIGHT.split_whitespace().map(stem).collect();
    stems.sort_unstable();
    stems
});

/// The group of each stem that has others like it.
static GROUPS: LazyLock<HashMap<String, usize>> = LazyLock::new(|| {
    let groups = ALIKE.iter().enumerate();
    groups
        .flat_map(|(at, group)| group.split_whitespace().map(move |word| (stem(word), at)))
        .collect()
});

/// The stems of a text's words, in order.
pub fn stems(text: &str) -> Vec<String> {
    words(text).iter().map(|word| stem(word)).collect()
}

/// The words that say something, and the stem of each.
pub fn content(text: &str) -> Vec<(String, String)> {
    let says = |word: &String| EMPTY_WORDS.binary_search(&word.as_str()).is_err();
    words(text)
        .into_iter()
        .filter(says)
        .map(|word| {
            let stem = stem(&word);
            (word, stem)
        })
        .collect()
}

/// A text's words alone: equal for questions that are spelled otherwise only.
pub fn normal(text: &str) -> String {
    words(text).join(" ")
}

/// A text's words for an index that makes its own stems: irregular forms are led back to
/// their verbs, since no rule of spelling does that.
pub fn indexed(text: &str) -> String {
    words(text).iter().map(|word| regular(word)).collect::<Vec<_>>().join(" ")
}

/// The words to look a question up by in such an index: those that say something, those that
/// mean the same, and those near in meaning; at most [`SOUGHT_MAX`].
pub fn sought(question: &str) -> Vec<String> {
    let content = content(question);
    let own = content.iter().flat_map(|(word, stem)| {
        let group = GROUPS.get(stem).map(|group| ALIKE[*group]).unwrap_or_default();
        std::iter::once(regular(word)).chain(group.split_whitespace())
    });
    let mut sought: Vec<String> = own.map(str::to_owned).collect();
    for (_, stem) in &content {
        sought.extend(kin::of(stem).map(str::to_owned));
    }
    if sought.is_empty() {
        sought = words(question);
    }
    let mut seen = HashSet::new();
    sought.retain(|word| seen.insert(word.clone()));
    sought.truncate(SOUGHT_MAX);
    sought
}

/// Whether a stem is one that questions have anyway.
pub fn is_light(stem: &str) -> bool {
    LIGHT_STEMS.binary_search_by(|light| light.as_str().cmp(stem)).is_ok()
}

/// All stems that mean the same as this one, itself left out.
pub fn like(of: &str) -> Vec<String> {
    let group = GROUPS.get(of).map(|group| ALIKE[*group]).unwrap_or_default();
    group.split_whitespace().map(stem).filter(|other| other != of).collect()
}

/// A text's words in lower case. `camelCase`, `snake_case` and `768px` are two each. In
/// whatever Unicode normal form a text comes, its words are the same.
fn words(text: &str) -> Vec<String> {
    let text =
        if text.is_ascii() { text.into() } else { Cow::from(text.nfkc().collect::<String>()) };
    let mut words = Vec::new();
    for piece in text.unicode_words() {
        // `iOS` and `GraphQL` are names, `navigationStyle` is two words.
        let is_camel = piece.chars().take_while(|c| c.is_lowercase()).count() > 1;
        let mut word = String::new();
        let mut before = None;
        for char in piece.chars() {
            let is_number = |c: char| c.is_ascii_digit();
            let breaks = match before {
                Some(last) if is_number(last) && char == '.' => false,
                Some('.') if is_number(char) && word.starts_with(is_number) => false,
                Some(last) if is_number(last) != is_number(char) => true,
                Some(last) => is_camel && last.is_lowercase() && char.is_uppercase(),
                None => false,
            };
            let is_point = char == '.' && word.starts_with(is_number);
            let is_mark = !(char.is_alphanumeric() || is_point);
            if breaks || is_mark {
                keep(&mut words, &mut word);
            }
            if !is_mark {
                word.extend(char.to_lowercase());
            }
            before = Some(char);
        }
        keep(&mut words, &mut word);
    }
    words
}

fn keep(words: &mut Vec<String>, word: &mut String) {
    let word = std::mem::take(word);
    let word = word.trim_end_matches('.');
    // Words that mean one thing together.
    let joins = |last: &mut String| {
        let parts = (last.as_str(), word);
        let joined = match parts {
            ("sign" | "signs" | "signed", "in") => "signin",
            ("log" | "logs" | "logged", "in") => "login",
            ("sign", "up") => "signup",
            ("time" | "times" | "timed", "out") => "timeout",
            ("at", "least") => "minimum",
            ("at", "most") | ("up", "to") => "maximum",
            _ => return false,
        };
        joined.clone_into(last);
        true
    };
    if !word.is_empty() && !words.last_mut().is_some_and(joins) {
        words.push(word.to_owned());
    }
}

/// The verb of an irregular form; any other word is itself.
fn regular(word: &str) -> &str {
    let found = IRREGULAR.binary_search_by(|(form, _)| (*form).cmp(word));
    found.map_or(word, |at| IRREGULAR[at].1)
}

pub(super) fn stem(word: &str) -> String {
    let word = regular(word);
    if word.is_ascii() { STEMMER.stem(word).into_owned() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_measures_come_apart() {
        assert_eq!(
            stems("navigationStyle max_wait 768px 1.5x"),
            stems("navigation style max wait 768 px 1.5 x")
        );
        assert_eq!(stems("plan.json, a/b"), ["plan", "json", "a", "b"]);
        assert_eq!(stems("Sessions expired"), stems("session expires"));
    }

    #[test]
    fn only_words_that_say_something_carry_a_question() {
        let stems = |text| content(text).into_iter().map(|(_, stem)| stem).collect::<Vec<_>>();
        assert_eq!(
            stems("Should the sidebar collapse on mobile?"),
            ["sidebar", "collaps", "mobil"]
        );
        assert_eq!(stems("How do users log in?"), ["user", "login"]);
        assert!(is_light(&stem("using")) && !is_light(&stem("sidebar")));
    }

    #[test]
    fn a_text_has_the_same_words_in_every_normal_form() {
        assert_eq!(stems("caf\u{e9} \u{fb01}le"), stems("cafe\u{301} file"));
        assert_eq!(normal("Caf\u{e9}"), normal("cafe\u{301}"));
    }

    #[test]
    fn what_is_sought_is_what_the_index_holds() {
        assert_eq!(indexed("Keys are kept in Vault"), "keys are keep in vault");
        let sought_words = sought("Where are kiosks kept?");
        for word in ["kiosks", "keep", "store", "retention"] {
            assert!(sought_words.iter().any(|it| it == word), "{word}: {sought_words:?}");
        }
        assert_eq!(sought("What is it?"), ["what", "is", "it"]);
    }

    #[test]
    fn words_that_mean_the_same_find_one_another() {
        assert_eq!(like(&stem("wide")), [stem("width")]);
        assert!(like(&stem("sidebar")).is_empty());
    }
}
