//! A line of code or output as markup: with colours, and with marks on what differs. Characters that
//! are invisible, or that reorder text, are shown by their code. Pure.

use std::fmt::Write;
use std::ops::Range;

use maud::{Markup, PreEscaped, Render};
use provost_actors::text::is_unseen;

use super::colours::Coloured;

/// Longest part of a line that is shown, in bytes.
const LINE_MAX: usize = 4000;

/// The line as markup. `colours` and `marks` are byte ranges of `text`, each in ascending order and
/// without overlaps. A bound inside a character, or after the part that is shown, is ignored.
pub fn show(text: &str, colours: &[Coloured], marks: &[Range<usize>]) -> Markup {
    let shown = &text[..text.floor_char_boundary(LINE_MAX)];
    let bounds = colours.iter().map(|it| &it.range).chain(marks);
    let mut cuts: Vec<usize> = bounds.flat_map(|range| [range.start, range.end]).collect();
    cuts.retain(|cut| *cut < shown.len() && shown.is_char_boundary(*cut));
    cuts.extend([0, shown.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let (mut colours, mut marks) = (colours.iter().peekable(), marks.iter().peekable());
    let mut markup = String::with_capacity(shown.len() * 2);
    for (from, to) in cuts.iter().zip(cuts.iter().skip(1)) {
        while colours.next_if(|it| it.range.end <= *from).is_some() {}
        while marks.next_if(|it| it.end <= *from).is_some() {}
        let class = colours.peek().filter(|it| it.range.start <= *from).map(|it| it.class);
        let is_marked = marks.peek().is_some_and(|it| it.start <= *from);
        // A class is one of our constants.
        if let Some(class) = class {
            let _ = write!(markup, "<span class=\"{class}\">");
        }
        markup.push_str(if is_marked { "<mark>" } else { "" });
        write(&mut markup, &shown[*from..*to]);
        markup.push_str(if is_marked { "</mark>" } else { "" });
        markup.push_str(if class.is_some() { "</span>" } else { "" });
    }
    if shown.len() < text.len() {
        let left = text.len() - shown.len();
        let _ = write!(markup, "<span class=\"ctl\">… {left} more bytes</span>");
    }
    // All other text in it went through `write`, which escapes.
    PreEscaped(markup)
}

/// Text without colours. Unlike [`show`], it does not cut.
pub fn plain(text: &str) -> Markup {
    let mut markup = String::with_capacity(text.len());
    write(&mut markup, text);
    // All of it went through `write`, which escapes.
    PreEscaped(markup)
}

/// Appends escaped text in which every character is visible: a control character becomes its name or
/// its code point.
pub fn write(markup: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(is_unseen) {
        rest[..at].render_to(markup);
        let Some(c) = rest[at..].chars().next() else { return };
        // Writing to a string can't fail, and a number in hexadecimal needs no escape.
        let _ = match c {
            '\r' => write!(markup, "<span class=\"ctl\">CR</span>"),
            '\u{1b}' => write!(markup, "<span class=\"ctl\">ESC</span>"),
            c => write!(markup, "<span class=\"ctl\">U+{:04X}</span>", u32::from(c)),
        };
        rest = &rest[at + c.len_utf8()..];
    }
    rest.render_to(markup);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn colours_and_marks_overlap() {
        let colours = [Coloured { range: 0..5, class: "hl-string" }];
        assert_eq!(
            show("a<bcdef", &colours, &[3..6, 6..7]).into_string(),
            "<span class=\"hl-string\">a&lt;b</span><span class=\"hl-string\"><mark>cd</mark></span>\
             <mark>e</mark><mark>f</mark>"
        );
    }

    #[test]
    fn what_does_not_show_is_shown() {
        assert_eq!(
            plain("if a\u{202e} \u{1b}[0m\tb\r").into_string(),
            "if a<span class=\"ctl\">U+202E</span> <span class=\"ctl\">ESC</span>[0m\tb\
             <span class=\"ctl\">CR</span>"
        );
        assert_eq!(plain("a\u{200d}b").into_string(), "a<span class=\"ctl\">U+200D</span>b");
        assert!(
            show(&"ä".repeat(LINE_MAX), &[], &[])
                .into_string()
                .ends_with("… 4000 more bytes</span>")
        );
    }

    proptest! {
        #[test]
        fn any_ranges_leave_the_text_as_it_is(
            text in "\\PC{0,30}",
            mut cuts in prop::collection::vec(0_usize..80, 0..12),
        ) {
            cuts.sort_unstable();
            let ranges: Vec<Range<usize>> = cuts.chunks_exact(2).map(|it| it[0]..it[1]).collect();
            let colours: Vec<Coloured> =
                ranges.iter().map(|it| Coloured { range: it.clone(), class: "hl-type" }).collect();
            let shown = show(&text, &colours, &ranges).into_string();
            let stripped = ["<span class=\"hl-type\">", "</span>", "<mark>", "</mark>"]
                .iter().fold(shown, |shown, tag| shown.replace(tag, ""));
            prop_assert_eq!(stripped, plain(&text).into_string().replace("</span>", ""));
        }
    }
}
