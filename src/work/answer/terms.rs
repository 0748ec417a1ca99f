//! Texts as words, for the full-text index of the engine. The engine lower-cases words, removes diacritics
//! and stems; this module makes Unicode's normal forms equal, and separates what the engine would take for
//! one word. Pure.

use std::collections::HashSet;

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// The most terms of a question: a search costs more with each term.
const TERMS_MAX: usize = 200;

/// English words that say nothing alone. Words that compare or limit are not among them: "below" and "above"
/// make different questions.
const STOP_WORDS: &str = "a about actually all also am an and any are as at be been being both but by can could \
    currently d did do does doing don down each either else exactly few for frequently from had \
    has have having he her here hers him his how i if in into is it its itself just kind let \
    like ll long many may me might much must my need needed needs no nor not now of off often on \
    once one only or other ought our ours out own please re require required requires s same \
    shall she should so some such t than that the their theirs them then there these they this \
    those through to too up us use used uses using ve very want was we were what when where \
    whether which while who whom whose why will with would yes you your yours";

/// The words of a text, separated by spaces, in the form that the index gets.
pub fn indexed(text: &str) -> String {
    words(text).join(" ")
}

/// A text's words in lower case. Equal for questions that differ only in spelling, punctuation and spaces.
pub fn normal(text: &str) -> String {
    indexed(text).to_lowercase()
}

/// The words that a question is searched by, each once: all except the stop words, or all if only stop words
/// are there.
pub fn terms(question: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut all: Vec<String> = words(question).iter().map(|word| word.to_lowercase()).collect();
    all.retain(|word| seen.insert(word.clone()));
    let is_stop = |word: &String| STOP_WORDS.split(' ').any(|stop| stop == word);
    let mut terms: Vec<String> = all.iter().filter(|word| !is_stop(word)).cloned().collect();
    if terms.is_empty() {
        terms = all;
    }
    terms.truncate(TERMS_MAX);
    terms
}

/// A text's words in Unicode's NFKC form. `camelCase` and `768px` are two words each, and each ideograph is
/// one word.
fn words(text: &str) -> Vec<String> {
    let text: String = text.nfkc().collect();
    let mut words = Vec::new();
    for word in text.unicode_words().flat_map(|word| word.split(['\'', '’', '_'])) {
        // `iOS` and `GraphQL` are one word each, `navigationStyle` is two.
        let is_camel = word.chars().take_while(|c| c.is_lowercase()).count() > 1;
        let mut start = 0;
        let mut last = ' ';
        for (at, char) in word.char_indices() {
            let is_unit = last.is_ascii_digit() && char.is_alphabetic();
            if is_unit || is_camel && last.is_lowercase() && char.is_uppercase() {
                words.push(word[start..at].to_owned());
                start = at;
            }
            last = char;
        }
        if start < word.len() {
            words.push(word[start..].to_owned());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_measures_are_separated() {
        assert_eq!(indexed("navigationStyle max_wait 768px"), "navigation Style max wait 768 px");
        assert_eq!(indexed("S2, SHA256 (iOS) v1.5"), "S2 SHA256 iOS v1.5");
    }

    #[test]
    fn a_text_has_the_same_words_in_every_normal_form() {
        assert_eq!(indexed("caf\u{e9} \u{fb01}le"), indexed("cafe\u{301} file"));
        assert_eq!(normal("Caf\u{e9}?"), normal("cafe\u{301}"));
    }

    #[test]
    fn only_words_that_say_something_are_searched_once() {
        assert_eq!(terms("Should the sidebar's Sidebar collapse?"), ["sidebar", "collapse"]);
        assert_eq!(terms("What is it?"), ["what", "is", "it"]);
        assert_eq!(terms("検索 engine"), ["検", "索", "engine"]);
    }
}
