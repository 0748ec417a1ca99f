//! Cuts a byte stream into lines. Pure.
//!
//! A line ends with `\n`; one `\r` before it is dropped. A line longer than [`MAX_LINE`] comes in parts.
//! The result does not depend on how the bytes were cut on their way: the daemon may read the same spool
//! again in other pieces, and the numbers of the raw channel rely on the same lines.

/// The longest text of one raw entry, in bytes as written.
pub const MAX_LINE: usize = 64 * 1024;

/// One line, or one part of a line that is longer than [`MAX_LINE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    /// This is a part of a line, and not the last one.
    pub continued: bool,
    /// `text` has U+FFFD in place of bytes that are not UTF-8.
    pub lossy: bool,
    /// Bytes of the stream that became this text, the line ending included.
    pub len: u64,
}

/// Takes bytes of one stream in order, and gives its lines. It holds the bytes of the open line only.
#[derive(Debug, Default)]
pub struct LineCutter {
    /// Offset in the stream of the open line's first byte, `bytes[head]`.
    pub start: u64,
    bytes: Vec<u8>,
    head: usize,
    /// Bytes of the open line known to hold no `\n`.
    scanned: usize,
}

impl LineCutter {
    /// A cutter whose first line starts at this offset of the stream.
    pub fn at(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    /// Offset in the stream of the next byte to [`push`](Self::push).
    pub fn wanted(&self) -> u64 {
        self.start + self.pending().len() as u64
    }

    /// Adds the bytes at [`wanted`](Self::wanted). Before the next call the caller takes all lines out, so
    /// that the buffer stays small.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.head);
        self.head = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next line that is complete, or the next full part of a longer one; `None`: more bytes are needed.
    pub fn next_line(&mut self) -> Option<Line> {
        // A full line is at most MAX_LINE bytes and `\r\n`.
        let pending = self.pending();
        let window = &pending[..pending.len().min(MAX_LINE + 2)];
        let newline = memchr::memchr(b'\n', &window[self.scanned..]);
        let content = newline.map_or(window, |at| &window[..self.scanned + at]);
        if without_return(content).len() > MAX_LINE || content.len() > MAX_LINE + 1 {
            let cut = part_end(content);
            return Some(self.take(cut, cut, true));
        }
        if newline.is_none() {
            self.scanned = window.len();
            return None;
        }
        let (text_len, len) = (without_return(content).len(), content.len() + 1);
        Some(self.take(text_len, len, false))
    }

    /// Gives the open line, which got no `\n`, because its process has ended; `None` when there is none.
    pub fn end(&mut self) -> Option<Line> {
        let pending = self.pending();
        let (text_len, len) = (without_return(pending).len(), pending.len());
        (len > 0).then(|| self.take(text_len, len, false))
    }

    fn pending(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// Removes `len` bytes, of which the first `text_len` are the text; the rest is the line ending.
    fn take(&mut self, text_len: usize, len: usize, continued: bool) -> Line {
        let bytes = &self.pending()[..text_len];
        let (text, lossy) = match str::from_utf8(bytes) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (String::from_utf8_lossy(bytes).into_owned(), true),
        };
        self.head += len;
        self.start += len as u64;
        self.scanned = 0;
        Line { text, continued, lossy, len: len as u64 }
    }
}

/// Drops one `\r` only: a progress bar may have written several.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Where the first part of a too long line ends: at [`MAX_LINE`], or up to 3 bytes before it
/// so as not to cut a UTF-8 character.
fn part_end(line: &[u8]) -> usize {
    let is_character_start = |at: &usize| line[*at] & 0b1100_0000 != 0b1000_0000;
    (MAX_LINE - 3..=MAX_LINE).rev().find(is_character_start).unwrap_or(MAX_LINE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The lines of `bytes` when they come in pieces of these sizes.
    fn cut(bytes: &[u8], pieces: &[usize]) -> Vec<Line> {
        let mut cutter = LineCutter::default();
        let mut lines = Vec::new();
        let mut sizes = pieces.iter().copied().cycle();
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = sizes.next().unwrap_or(usize::MAX).clamp(1, rest.len());
            cutter.push(&rest[..size]);
            rest = &rest[size..];
            lines.extend(std::iter::from_fn(|| cutter.next_line()));
        }
        lines.extend(cutter.end());
        assert_eq!(cutter.wanted(), bytes.len() as u64);
        lines
    }

    fn texts(bytes: &[u8]) -> Vec<(String, bool, bool)> {
        cut(bytes, &[]).into_iter().map(|line| (line.text, line.continued, line.lossy)).collect()
    }

    fn whole(text: &str) -> (String, bool, bool) {
        (text.to_owned(), false, false)
    }

    #[test]
    fn a_line_loses_its_newline_and_one_return() {
        assert_eq!(
            texts(b"a\nb\r\n\r\r\n\nlast\r"),
            ["a", "b", "\r", "", "last"].map(whole).to_vec()
        );
    }

    #[test]
    fn a_progress_bar_is_one_line_and_nul_a_byte_like_others() {
        assert_eq!(texts(b"1%\r50%\r\0\r100%\n"), [whole("1%\r50%\r\0\r100%")]);
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_shown_as_such() {
        assert_eq!(texts(b"a\xff\xfeb\n"), [("a\u{fffd}\u{fffd}b".to_owned(), false, true)]);
    }

    #[test]
    fn a_line_of_just_the_longest_length_is_whole_whatever_its_ending() {
        let line = "x".repeat(MAX_LINE);
        for ending in ["", "\n", "\r", "\r\n"] {
            let bytes = format!("{line}{ending}").into_bytes();
            for size in [1, MAX_LINE, MAX_LINE + 1] {
                let lines = cut(&bytes, &[size]);
                assert_eq!(lines.len(), 1, "{ending:?} in pieces of {size}");
                assert_eq!((lines[0].text.as_str(), lines[0].continued), (line.as_str(), false));
            }
        }
    }

    #[test]
    fn a_longer_line_is_split_and_no_character_with_it() {
        for character in ["x", "é", "€", "😀"] {
            for shift in 0..4 {
                let line =
                    "-".repeat(shift) + &character.repeat((2 * MAX_LINE + 5) / character.len());
                let lines = cut(format!("{line}\n").as_bytes(), &[1000]);
                assert!(lines.iter().all(|part| !part.lossy));
                assert!(lines.iter().all(|part| part.text.len() <= MAX_LINE));
                let flags: Vec<bool> = lines.iter().map(|part| part.continued).collect();
                assert_eq!(flags, [true, true, false]);
                assert_eq!(lines.into_iter().map(|part| part.text).collect::<String>(), line);
            }
        }
    }

    #[test]
    fn a_part_of_stray_continuation_bytes_is_full() {
        let lines = cut(&vec![0x80; MAX_LINE + 10], &[]);
        assert_eq!(lines.iter().map(|part| part.len).collect::<Vec<_>>(), [65_536, 10]);
    }

    #[test]
    fn a_line_without_end_holds_no_more_than_a_part() {
        let mut cutter = LineCutter::default();
        let chunk = vec![b'x'; 60_000];
        let mut parts = 0;
        for _ in 0..1000 {
            cutter.push(&chunk);
            while cutter.next_line().is_some() {
                parts += 1;
            }
        }
        assert_eq!(parts, 60_000_000 / MAX_LINE);
        assert!(cutter.bytes.capacity() <= 4 * MAX_LINE);
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            5 => "[a-z\r€😀]{0,40}".prop_map(String::into_bytes),
            4 => Just(b"\n".to_vec()),
            1 => Just(b"\r\n".to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..8),
            1 => (MAX_LINE - 4..MAX_LINE + 4).prop_map(|len| vec![b'y'; len]),
        ];
        prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_cutting_of_the_same_bytes_gives_the_same_lines(
            bytes in bytes(),
            pieces in prop::collection::vec(1..70_000_usize, 1..8),
            small in prop::collection::vec(1..50_usize, 1..8),
        ) {
            let whole = cut(&bytes, &[]);
            prop_assert_eq!(&cut(&bytes, &pieces), &whole);
            prop_assert_eq!(&cut(&bytes, &small), &whole);
        }

        #[test]
        fn lines_cover_all_bytes_and_give_them_back(bytes in bytes()) {
            let mut offset = 0;
            for line in cut(&bytes, &[]) {
                let len = usize::try_from(line.len).unwrap();
                let written = &bytes[offset..offset + len];
                prop_assert_eq!(line.lossy, String::from_utf8(written.to_vec()).is_err());
                if !line.lossy {
                    prop_assert!(written.starts_with(line.text.as_bytes()));
                    let ending = &written[line.text.len()..];
                    prop_assert!([&b""[..], b"\n", b"\r\n", b"\r"].contains(&ending));
                }
                offset += len;
            }
            prop_assert_eq!(offset, bytes.len());
        }

        #[test]
        fn a_cutter_started_after_any_line_goes_on_as_if_it_had_seen_all(
            bytes in bytes(),
            skip in 0..30_usize,
        ) {
            let whole = cut(&bytes, &[]);
            let skip = skip.min(whole.len());
            let start: u64 = whole[..skip].iter().map(|line| line.len).sum();
            let rest = cut(&bytes[usize::try_from(start).unwrap()..], &[777]);
            prop_assert_eq!(&rest[..], &whole[skip..]);
        }
    }
}
