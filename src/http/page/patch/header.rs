//! The lines of a patch before a file's hunks: its names, modes and blobs. Pure.

use provost_actors::workspace::quote;

use super::{FilePatch, Kind};

/// The header of one file, as far as it was read.
#[derive(Default)]
pub struct Header {
    file: FilePatch,
    /// The lines that follow are the encoded bytes of a binary file.
    is_in_bytes: bool,
}

/// The beginnings of a header's lines, except `diff --git` and those of binary content (git-diff(1),
/// "Generating patch text").
const STARTS: [&str; 13] = [
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity index ",
    "dissimilarity index ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "index ",
    "--- ",
    "+++ ",
];

impl Header {
    /// Begins a header with the text after `diff --git `.
    pub fn of(names: &str) -> Self {
        let (old, new) = both(names).unwrap_or((names, names));
        let file = FilePatch { old_path: path(old), new_path: path(new), ..FilePatch::default() };
        Self { file, is_in_bytes: false }
    }

    /// Whether a line belongs to the header. The bytes of a binary file last until the next file.
    pub fn takes(&self, line: &str) -> bool {
        let is_binary = line == "GIT binary patch" || line.starts_with("Binary files ");
        let is_bytes = self.is_in_bytes && !line.starts_with("diff --git ");
        is_binary || is_bytes || STARTS.iter().any(|start| line.starts_with(start))
    }

    /// Reads a line for which [`Self::takes`] is true. Lines with paths of their own correct what was
    /// guessed from `diff --git`.
    pub fn take(&mut self, line: &str) {
        if self.is_in_bytes {
            return;
        }
        let file = &mut self.file;
        if line == "GIT binary patch" {
            (file.is_binary, self.is_in_bytes) = (true, true);
            return;
        }
        if line.starts_with("Binary files ") {
            file.is_binary = true;
            return;
        }
        let Some(start) = STARTS.iter().find(|start| line.starts_with(**start)) else { return };
        let rest = &line[start.len()..];
        let text = Some(rest.to_owned());
        match start.trim_end() {
            "old mode" => file.old_mode = text,
            "new mode" => file.new_mode = text,
            "new file mode" => (file.kind, file.new_mode) = (Kind::Added, text),
            "deleted file mode" => (file.kind, file.old_mode) = (Kind::Deleted, text),
            "similarity index" => file.similarity = rest.trim_end_matches('%').parse().ok(),
            "rename from" => (file.kind, file.old_path) = (Kind::Renamed, whole(rest)),
            "copy from" => (file.kind, file.old_path) = (Kind::Copied, whole(rest)),
            "rename to" | "copy to" => file.new_path = whole(rest),
            "index" => self.blobs(rest),
            "---" if rest != "/dev/null" => file.old_path = path(untabbed(rest)),
            "+++" if rest != "/dev/null" => file.new_path = path(untabbed(rest)),
            _ => {}
        }
    }

    /// Reads `1234..5678 100644`. Git writes the mode only if it is the same on both sides.
    fn blobs(&mut self, rest: &str) {
        let (ids, mode) =
            rest.split_once(' ').map_or((rest, None), |(ids, mode)| (ids, Some(mode)));
        if let Some((old, new)) = ids.split_once("..") {
            self.file.old_blob = Some(old.to_owned());
            self.file.new_blob = Some(new.to_owned());
        }
        if let Some(mode) = mode {
            self.file.old_mode.get_or_insert_with(|| mode.to_owned());
            self.file.new_mode.get_or_insert_with(|| mode.to_owned());
        }
    }

    /// The file, with what the header said of it and without hunks.
    pub fn file(self) -> FilePatch {
        self.file
    }
}

/// The two names of `a/x b/x`. They are separated by a space, and may contain spaces too; so the
/// split with equal names is taken. Where the names differ, other lines of the header have them.
fn both(names: &str) -> Option<(&str, &str)> {
    if let Some(quoted) = names.strip_prefix('"') {
        let end = 1 + end_of_quotes(quoted)?;
        return Some((&names[..end], names[end..].strip_prefix(' ')?));
    }
    if let Some(at) = names.find(" \"") {
        return Some((&names[..at], &names[at + 1..]));
    }
    let same = |at: usize| {
        let (old, new) = (&names[..at], &names[at + 1..]);
        old.split_once('/').map(|it| it.1) == new.split_once('/').map(|it| it.1)
    };
    let at = names.match_indices(' ').map(|(at, _)| at).find(|at| same(*at))?;
    Some((&names[..at], &names[at + 1..]))
}

/// The position after the quote that ends a text; a backslash escapes the next byte.
fn end_of_quotes(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes()
        .position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })
        .map(|at| at + 1)
}

/// Git adds a tab to a name that has a space, in the lines `---` and `+++`.
fn untabbed(name: &str) -> &str {
    name.strip_suffix('\t').unwrap_or(name)
}

/// A path without the prefix `a/` or `b/`.
fn path(name: &str) -> String {
    let bytes = quote::read(name);
    let bytes = [&b"a/"[..], b"b/"].iter().find_map(|it| bytes.strip_prefix(*it)).unwrap_or(&bytes);
    shown(bytes)
}

/// A path of a line that has no prefix, such as `rename from`.
fn whole(name: &str) -> String {
    shown(&quote::read(name))
}

/// A path as text; one that is not UTF-8 is quoted as git does.
fn shown(path: &[u8]) -> String {
    String::from_utf8(path.to_vec()).unwrap_or_else(|_| quote::quoted(path))
}
