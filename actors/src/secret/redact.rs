//! Redacts secrets in a stream that comes in pieces. Pure.
//!
//! From left to right, the longest needle that matches at a place becomes `[redacted:NAME]`. Bytes at the end
//! that may begin a needle are held back for the next call. So the output does not depend on where the stream
//! was cut.

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};

use super::Needle;

/// The compiled needles. It keeps no state between calls: the caller keeps the bytes that were held back.
pub struct Redactor {
    automaton: AhoCorasick,
    needles: Vec<Needle>,
    /// Bytes of the longest needle.
    longest: usize,
}

/// The result of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// The output for the first `used` bytes of the input.
    pub bytes: Vec<u8>,
    /// How many bytes of the input are decided. The next call must begin with the others.
    pub used: usize,
}

impl Redactor {
    /// Fails if the needles are too many or too long for an automaton.
    pub fn new(needles: Vec<Needle>) -> Result<Self, BuildError> {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            // Every shim with secrets has one, so it must be small.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(needles.iter().map(|needle| &needle.text))?;
        let longest = needles.iter().map(|needle| needle.text.len()).max().unwrap_or(0);
        Ok(Self { automaton, needles, longest })
    }

    /// Redacts the bytes that can be decided now. With `is_end` no bytes follow, so all of them can be.
    pub fn redact(&self, bytes: &[u8], is_end: bool) -> Redacted {
        let open_from =
            |from: usize| if is_end { bytes.len() } else { self.open_from(bytes, from) };
        let (mut redacted, mut used) = (Vec::with_capacity(bytes.len()), 0);
        let mut open = open_from(0);
        for found in self.automaton.find_iter(bytes) {
            if open < used {
                open = open_from(used);
            }
            if open <= found.start() {
                break;
            }
            redacted.extend_from_slice(&bytes[used..found.start()]);
            let name = &self.needles[found.pattern().as_usize()].name;
            redacted.extend_from_slice(format!("[redacted:{name}]").as_bytes());
            used = found.end();
        }
        let until = if open < used { open_from(used) } else { open };
        redacted.extend_from_slice(&bytes[used..until]);
        Redacted { bytes: redacted, used: until }
    }

    /// The first offset, `from` or later, at which all the rest is the beginning of a needle; else the
    /// length.
    fn open_from(&self, bytes: &[u8], from: usize) -> usize {
        let first = from.max((bytes.len() + 1).saturating_sub(self.longest));
        let is_open = |place: &usize| {
            let rest = &bytes[*place..];
            let goes_on = |text: &[u8]| text.len() > rest.len() && text.starts_with(rest);
            self.needles.iter().any(|needle| goes_on(needle.text.as_bytes()))
        };
        (first..bytes.len()).find(is_open).unwrap_or(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor(texts: &[String]) -> Redactor {
        let needle = |text: &String| Needle { name: text.to_uppercase(), text: text.clone() };
        Redactor::new(texts.iter().map(needle).collect()).unwrap()
    }

    fn of(texts: &[&str]) -> Redactor {
        redactor(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    /// What a stream becomes that comes in these pieces.
    fn in_pieces<'p>(redactor: &Redactor, pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
        let (mut held, mut output) = (Vec::new(), Vec::new());
        for piece in pieces {
            held.extend_from_slice(piece);
            let redacted = redactor.redact(&held, false);
            output.extend(redacted.bytes);
            held.drain(..redacted.used);
        }
        output.extend(redactor.redact(&held, true).bytes);
        output
    }

    /// The rule by itself: from left to right, the longest needle that fits.
    fn by_the_rule(texts: &[String], mut stream: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        while let Some((byte, rest)) = stream.split_first() {
            let fits = texts.iter().filter(|text| stream.starts_with(text.as_bytes()));
            if let Some(text) = fits.max_by_key(|text| text.len()) {
                output.extend(format!("[redacted:{}]", text.to_uppercase()).into_bytes());
                stream = &stream[text.len()..];
            } else {
                output.push(*byte);
                stream = rest;
            }
        }
        output
    }

    #[test]
    fn a_needle_is_replaced_however_it_comes() {
        let redactor = of(&["hunter2"]);
        let stream = b"a hunter2, hunter and hunter2";
        let expected = b"a [redacted:HUNTER2], hunter and [redacted:HUNTER2]";
        for size in 1..=stream.len() {
            assert_eq!(in_pieces(&redactor, stream.chunks(size)), expected, "{size}");
        }
    }

    #[test]
    fn the_longest_of_several_is_taken_and_waited_for() {
        let redactor = of(&["abc", "abcdef"]);
        assert_eq!(redactor.redact(b"xabc", false), Redacted { bytes: b"x".into(), used: 1 });
        assert_eq!(redactor.redact(b"xabc", true).bytes, b"x[redacted:ABC]");
        assert_eq!(redactor.redact(b"abcdx", false).bytes, b"[redacted:ABC]dx");
        assert_eq!(redactor.redact(b"abcdef", false).bytes, b"[redacted:ABCDEF]");
    }

    #[test]
    fn only_what_may_be_a_needle_is_held_back() {
        let redactor = of(&["secret"]);
        assert_eq!(redactor.redact(b"a prompt> ", false).used, 10);
        assert_eq!(redactor.redact(b"words", false).used, 4);
        // A needle's own end begins no other once it is decided.
        assert_eq!(of(&["abcab", "abx"]).redact(b"abcab", false).used, 5);
    }

    fn needles() -> impl Strategy<Value = Vec<String>> {
        prop::collection::btree_set("[ab\n]{1,5}", 1..5).prop_map(|set| set.into_iter().collect())
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"ab\nc\xff".to_vec()), 0..60)
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_changes_nothing(
            texts in needles(), stream in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]);
            let redactor = redactor(&texts);
            prop_assert_eq!(in_pieces(&redactor, pieces), by_the_rule(&texts, &stream));
        }

        #[test]
        fn the_output_only_ever_grows(texts in needles(), stream in stream()) {
            let redactor = redactor(&texts);
            let whole = redactor.redact(&stream, true);
            prop_assert_eq!(whole.used, stream.len());
            for len in 0..=stream.len() {
                let part = redactor.redact(&stream[..len], false);
                prop_assert!(part.used <= len);
                prop_assert!(whole.bytes.starts_with(&part.bytes));
                prop_assert!(redactor.redact(&stream[..len], true).bytes.starts_with(&part.bytes));
            }
        }
    }
}
