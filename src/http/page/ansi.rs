//! The output of programs: a terminal's colours and styles become CSS classes, and all other control
//! sequences are dropped. Pure.

use std::fmt::Write;

use maud::{Markup, PreEscaped};

use super::line;

/// The classes of the eight colours; the bright ones (90 to 97) have the same.
const COLOURS: [&str; 8] = [
    "ansi-black",
    "ansi-red",
    "ansi-green",
    "ansi-yellow",
    "ansi-blue",
    "ansi-magenta",
    "ansi-cyan",
    "ansi-white",
];

/// Longest output that is shown, in bytes.
const SHOWN_MAX: usize = 16 * 1024;

/// A text as markup. Each call begins without a style: styles do not carry over between log entries.
pub fn show(text: &str) -> Markup {
    let shown = &text[..text.floor_char_boundary(SHOWN_MAX)];
    let mut markup = String::with_capacity(shown.len());
    let mut style = Style::default();
    let mut rest = shown;
    while let Some(at) = rest.find(['\u{1b}', '\u{9b}']) {
        style.write(&mut markup, &rest[..at]);
        rest = style.after_sequence(&rest[at..]);
    }
    style.write(&mut markup, rest);
    if shown.len() < text.len() {
        let left = text.len() - shown.len();
        // Writing to a string can't fail.
        let _ = write!(markup, "<span class=\"ctl\">… {left} more bytes</span>");
    }
    // Only `Style::write` wrote to it: classes are constants, and the text went through `line`.
    PreEscaped(markup)
}

/// The style of the text that follows. Backgrounds and other attributes are not shown.
#[derive(Default)]
struct Style {
    colour: Option<&'static str>,
    is_bold: bool,
    is_dim: bool,
}

impl Style {
    fn write(&self, markup: &mut String, text: &str) {
        if text.is_empty() {
            return;
        }
        // In a terminal, text after a carriage return overwrites the line (progress bars). Here it
        // becomes another line, so that nothing is hidden.
        let shown = line::plain(&text.replace('\r', "\n")).into_string();
        let bold = self.is_bold.then_some("ansi-bold");
        let classes = [self.colour, bold, self.is_dim.then_some("ansi-dim")];
        let classes: Vec<&str> = classes.into_iter().flatten().collect();
        // Writing to a string can't fail.
        let _ = match classes.as_slice() {
            [] => write!(markup, "{shown}"),
            classes => write!(markup, "<span class=\"{}\">{shown}</span>", classes.join(" ")),
        };
    }

    /// Reads the control sequence at the beginning of a text (ECMA-48 §5.4), and returns the text
    /// after it. Only "select graphic rendition" (`m`) has an effect.
    fn after_sequence<'t>(&mut self, text: &'t str) -> &'t str {
        let mut letters = text.chars();
        let kind = match letters.next() {
            Some('\u{9b}') => Some('['),
            _ => letters.next(),
        };
        let rest = letters.as_str();
        match kind {
            Some('[') => {
                let is_part = |c: char| ('\u{20}'..='\u{3f}').contains(&c);
                let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                let (parameters, after) = rest.split_at(end);
                let mut letters = after.chars();
                if letters.next() == Some('m') {
                    self.change(parameters);
                }
                letters.as_str()
            }
            // A control string, such as a window's title or a link's target, up to its terminator. The
            // text of a link is outside of the string and stays.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                let end = rest.find(['\u{7}', '\u{1b}', '\u{9c}']).unwrap_or(rest.len());
                let after = &rest[end..];
                after
                    .strip_prefix("\u{1b}\\")
                    .or(after.strip_prefix(['\u{7}', '\u{9c}']))
                    .unwrap_or(after)
            }
            Some(c) if ('\u{20}'..='\u{2f}').contains(&c) => {
                let mut after =
                    rest.trim_start_matches(|c| ('\u{20}'..='\u{2f}').contains(&c)).chars();
                after.next();
                after.as_str()
            }
            Some(c) if ('\u{30}'..='\u{7e}').contains(&c) => rest,
            // Not a sequence: only the escape is dropped.
            Some(c) => &text[text.len() - rest.len() - c.len_utf8()..],
            None => "",
        }
    }

    /// Applies the parameters of "select graphic rendition" (ECMA-48 §8.3.117). An empty one is 0.
    fn change(&mut self, parameters: &str) {
        let mut numbers = parameters.split([';', ':']).map(|it| it.parse().unwrap_or(0_usize));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                2 => self.is_dim = true,
                22 => (self.is_bold, self.is_dim) = (false, false),
                30..=37 => self.colour = COLOURS.get(number - 30).copied(),
                90..=97 => self.colour = COLOURS.get(number - 90).copied(),
                39 => self.colour = None,
                // `5;N`: one of 256 colours, of which only the first 16 are shown. `2;R;G;B`: any colour,
                // which is not shown.
                38 | 48 => match numbers.next() {
                    Some(5) => {
                        let colour = numbers.next().filter(|it| *it < 16).map(|it| COLOURS[it % 8]);
                        if number == 38 {
                            self.colour = colour;
                        }
                    }
                    _ => drop(numbers.by_ref().take(3).count()),
                },
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        show(text).into_string()
    }

    #[test]
    fn colours_become_classes_and_all_else_goes() {
        for (text, expected) in [
            ("\u{1b}[31mred\u{1b}[0m <b>", "<span class=\"ansi-red\">red</span> &lt;b&gt;"),
            ("\u{1b}[1;32mok\u{1b}[m.", "<span class=\"ansi-green ansi-bold\">ok</span>."),
            (
                "\u{1b}[38;5;9ma\u{1b}[38;2;1;2;3mb",
                "<span class=\"ansi-red\">a</span><span class=\"ansi-red\">b</span>",
            ),
            ("\u{1b}[2K\u{1b}[1Aa\u{9b}?25lb", "ab"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;javascript:x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "alink"),
            ("\u{1b}(Ba\u{1b}=b\u{1b}c", "ab"),
            ("10%\r100%", "10%\n100%"),
            ("\u{1b}[31", ""),
            ("\u{1b}", ""),
            ("\u{1b}é", "é"),
            ("\u{1b}(é", ""),
            ("\u{1b}]never ended", ""),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_output_is_text(text in "(\u{1b}|\\[|\\]|[0-9;m(<>&\"]|\u{9b}|\u{7}|\\PC|\\\\){0,60}") {
            let markup = shown(&text);
            let stripped = markup.replace("</span>", "");
            let mut rest = stripped.as_str();
            while let Some((_, tag)) = rest.split_once('<') {
                let known = tag.starts_with("span class=\"ansi-") || tag.starts_with("span class=\"ctl\">");
                prop_assert!(known, "{}", markup);
                rest = tag;
            }
            prop_assert_eq!(markup.matches("<span").count(), markup.matches("</span>").count());
        }
    }
}
