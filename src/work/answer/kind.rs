//! What a question asks for, told by how it begins, and whether a passage has such a
//! thing: who is asked how long gives a number. Pure.

/// What an answer must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// How many, how long, which port.
    Number,
    /// How often.
    Frequency,
    /// When.
    Time,
    /// Where.
    Place,
    Reason,
    Person,
    /// Which color.
    Color,
    /// Nothing of a kind that can be told by its words.
    Any,
}

/// What follows "how" and asks for a number.
const MEASURES: &str = "many much long big large wide tall high fast old far deep small soon late";

/// Things that are numbers: what they are of is asked for with "what" or "which".
const NUMBERS: &str = "port version size limit timeout width height percent percentage rate count number \
    duration ttl length budget interval maximum max minimum min threshold lifetime cap quota latency \
    radius ratio weight price deadline";

const NUMBER_WORDS: &str = "zero one two three four five six seven eight nine ten twelve twenty thirty \
    hundred thousand million half twice once double none never unlimited single both";

const FREQUENCY_WORDS: &str = "daily weekly monthly hourly nightly yearly quarterly annually every each twice \
    once never always per";

const TIME_WORDS: &str = "before after when until once during every day days week month year quarter hour \
    minute daily weekly monthly monday tuesday wednesday thursday friday saturday sunday mondays tuesdays \
    wednesdays thursdays fridays saturdays sundays weekdays weekends only if never always january february \
    march april may june july august september october november december immediately nightly first last \
    start end launch";

const PLACE_WORDS: &str = "in at on under into inside onto beneath behind above below beside beyond from to \
    via through by next left right top bottom header footer sidebar corner center";

const REASON_WORDS: &str = "because since so reason reasons why therefore avoid avoids prevents prevent \
    ensures ensure rationale due hence otherwise reduce reduces keeps allows lets purpose";

const PERSON_WORDS: &str = "team lead owner owners admin admins administrator administrators manager managers \
    engineer engineers designer designers user users member members customer customers reviewer reviewers \
    author authors agent agents person people maintainer maintainers operator operators committee office \
    officer developer developers guest guests editor editors viewer viewers by client staff everyone nobody \
    anyone department role roles support";

const COLORS: &str = "red green blue white black grey gray yellow orange purple violet teal indigo pink \
    brown navy cyan magenta rgb hsl";

impl Kind {
    /// What a question asks for.
    pub fn of(question: &str) -> Self {
        let question = question.to_lowercase();
        let words: Vec<&str> = question
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let follows = |asks: &str| {
            let at = words.iter().position(|word| *word == asks);
            at.map(|at| &words[at + 1..])
        };
        if let Some(rest) = follows("how") {
            return match rest.first() {
                Some(word) if has(MEASURES, word) => Self::Number,
                Some(&("often" | "frequently")) => Self::Frequency,
                _ => Self::Any,
            };
        }
        let starts = |asks: &str| words.first().is_some_and(|word| *word == asks);
        if starts("why") {
            return Self::Reason;
        }
        if starts("who") || starts("whom") || starts("whose") {
            return Self::Person;
        }
        if starts("when") {
            return Self::Time;
        }
        if starts("where") {
            return Self::Place;
        }
        if let Some(rest) = follows("what").or_else(|| follows("which")) {
            if rest.iter().any(|word| matches!(*word, "color" | "colour")) {
                return Self::Color;
            }
            let is_time =
                matches!(rest.first(), Some(&("day" | "date" | "month" | "year" | "time")));
            if is_time && rest.get(1) != Some(&"zone") {
                return Self::Time;
            }
            // What is asked for stands before "of", "for" and the like.
            let head = rest.iter().take_while(|word| !is_link(word));
            if head.last().is_some_and(|word| has(NUMBERS, word)) {
                return Self::Number;
            }
        }
        Self::Any
    }

    /// Whether a text holds what is asked for.
    pub fn is_in(self, text: &str) -> bool {
        let has_digit = || text.chars().any(|c| c.is_ascii_digit());
        let lower = text.to_lowercase();
        let has_word =
            |list: &str| lower.split(|c: char| !c.is_alphanumeric()).any(|word| has(list, word));
        match self {
            Self::Any => true,
            Self::Number => has_digit() || has_word(NUMBER_WORDS),
            Self::Frequency => has_word(FREQUENCY_WORDS),
            Self::Time => has_figure(text) || has_word(TIME_WORDS),
            Self::Place => text.contains(['/', ':']) || has_word(PLACE_WORDS),
            Self::Reason => has_word(REASON_WORDS),
            Self::Person => has_word(PERSON_WORDS),
            Self::Color => text.contains('#') || has_word(COLORS),
        }
    }

    /// What is missing where it is not there, in words.
    pub fn missing(self) -> &'static str {
        match self {
            Self::Any => "an answer",
            Self::Number => "a number",
            Self::Frequency => "how often",
            Self::Time => "a time",
            Self::Place => "a place",
            Self::Reason => "a reason",
            Self::Person => "who",
            Self::Color => "a color",
        }
    }
}

/// Whether a word begins with a digit: one within a name is no time.
fn has_figure(text: &str) -> bool {
    let starts = |word: &str| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        word.starts_with(|c: char| c.is_ascii_digit())
    };
    text.split_whitespace().any(starts)
}

/// Whether a word ends what is asked for.
fn is_link(word: &str) -> bool {
    const LINKS: &str =
        "of for in on at to by does do is are should can will when if we the a an per must";
    // "what is the size": the first links come before what is asked for.
    has(LINKS, word) && !matches!(word, "is" | "are" | "the" | "a" | "an" | "should")
}

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|other| other == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_tell_what_they_ask_for() {
        let cases = [
            ("How long do sessions live?", Kind::Number),
            ("For how many days are logs kept?", Kind::Number),
            ("What is the maximum size of an upload?", Kind::Number),
            ("Which port does the API listen on?", Kind::Number),
            ("What size limit applies?", Kind::Any),
            ("How often are backups made?", Kind::Frequency),
            ("Who approves releases?", Kind::Person),
            ("Why SQLite?", Kind::Reason),
            ("When is the beta?", Kind::Time),
            ("Where are passwords kept?", Kind::Place),
            ("What color are links?", Kind::Color),
            ("Should the sidebar collapse?", Kind::Any),
            ("What happens when a user is deleted?", Kind::Any),
        ];
        for (question, kind) in cases {
            assert_eq!(Kind::of(question), kind, "{question}");
        }
    }

    #[test]
    fn a_passage_without_such_a_thing_is_no_answer() {
        assert!(
            Kind::Number.is_in("Sessions live 30 minutes") && Kind::Number.is_in("two retries")
        );
        assert!(!Kind::Number.is_in("Sessions live in Redis"));
        assert!(!Kind::Reason.is_in("Data lies in SQLite"));
        assert!(!Kind::Place.is_in("Passwords are hashed with argon2id."));
        assert!(!Kind::Time.is_in("It is deployed to eu-west-1."));
    }
}
