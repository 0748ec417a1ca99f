//! Cuts the client's bytes into lines, with a limit of length.

use std::io::{self, BufRead, Read};

use crate::jsonrpc::ID_WITHIN;

/// The longest line that the bridge takes, in bytes. `relay::receive` names the number in its refusal.
pub const MAX_LINE: usize = 16 << 20;

/// One line of the client, without its line feed.
#[derive(Debug, PartialEq, Eq)]
pub enum BridgeLine {
    Whole(Vec<u8>),
    /// The beginning of a line beyond the limit. The rest was skipped.
    TooLong(Vec<u8>),
}

/// Reads the next line; `None`: the input has ended. The last line may lack its line feed. If a line has
/// more than `max` bytes, the rest of it is skipped, and only its beginning is kept.
pub fn read_line(reader: &mut impl BufRead, max: usize) -> io::Result<Option<BridgeLine>> {
    let mut line = Vec::new();
    // One byte more, for the line feed.
    let most = max as u64 + 1;
    if reader.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.pop_if(|last| *last == b'\n').is_some() || line.len() <= max {
        return Ok(Some(BridgeLine::Whole(line)));
    }
    reader.skip_until(b'\n')?;
    line.truncate(ID_WITHIN);
    line.shrink_to_fit();
    Ok(Some(BridgeLine::TooLong(line)))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn lines(input: &[u8], buffer: usize, max: usize) -> Vec<BridgeLine> {
        let mut reader = BufReader::with_capacity(buffer, input);
        std::iter::from_fn(|| read_line(&mut reader, max).unwrap()).collect()
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_one_whole() {
        let long = [b"y".repeat(5000), b"\nnext\nlast".to_vec()].concat();
        for buffer in [1, 7, 100_000] {
            let read = lines(&long, buffer, 4096);
            assert_eq!(read[0], BridgeLine::TooLong(b"y".repeat(ID_WITHIN)), "{buffer}");
            assert_eq!(
                read[1..],
                [BridgeLine::Whole(b"next".into()), BridgeLine::Whole(b"last".into())]
            );
        }
    }

    proptest! {
        #[test]
        fn lines_come_out_as_they_went_in(
            given in prop::collection::vec("[a-z]{0,30}", 0..20), buffer in 1..40usize,
        ) {
            let input = given.iter().fold(String::new(), |all, line| all + line + "\n");
            let read = lines(input.as_bytes(), buffer, 30);
            let expected: Vec<BridgeLine> =
                given.into_iter().map(|line| BridgeLine::Whole(line.into_bytes())).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
