//! What all pages have: the head, the navigation, the list of keys, and the element that announces
//! outcomes. Pure.

use maud::{DOCTYPE, Markup, html};

use crate::http::assets;

/// The entries of the navigation. Each has a key, which a person presses after `g`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NavItem {
    Inbox,
    Board,
    Usage,
    Settings,
}

impl NavItem {
    const ALL: [Self; 4] = [Self::Inbox, Self::Board, Self::Usage, Self::Settings];

    fn title(self) -> &'static str {
        match self {
            Self::Inbox => "Inbox",
            Self::Board => "Board",
            Self::Usage => "Usage",
            Self::Settings => "Settings",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Inbox => "/",
            Self::Board => "/board",
            Self::Usage => "/usage",
            Self::Settings => "/settings",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Inbox => "i",
            Self::Board => "b",
            Self::Usage => "u",
            Self::Settings => "s",
        }
    }
}

/// Settings of htmx: no `eval`, no inline styles (the policy forbids both), no copies of pages in the
/// browser's storage, requests to this site only. It also swaps in answers with an error status, which
/// htmx drops by default.
const HTMX: &str = r#"{"allowEval":false,"allowScriptTags":false,"includeIndicatorStyles":false,"historyCacheSize":0,"selfRequestsOnly":true,"responseHandling":[{"code":"204","swap":false},{"code":"...","swap":true}]}"#;

/// A whole page. `here`: the entry of the navigation to which the page belongs. `as_of`: the number of
/// the newest change that the page is sure to show; its event stream begins after it.
pub fn page(title: &str, here: Option<NavItem>, as_of: Option<u64>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="same-origin";
                meta name="htmx-config" content=(HTMX);
                @if let Some(number) = as_of { meta name="as-of" content=(number); }
                title { (title) " · Provost" }
                link rel="icon" type="image/svg+xml" href=(assets::path("provost.svg"));
                link rel="stylesheet" href=(assets::path("provost.css"));
                (script("htmx.min.js"))
                (script("provost.js"))
                script src=(assets::path("start.js")) async {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                (top(here))
                main #main tabindex="-1" { (body) }
                div #said role="status" aria-live="polite" {}
                (keys())
            }
        }
    }
}

/// A script, which `start.js` runs after the first paint, in the order of the page.
pub fn script(name: &str) -> Markup {
    html! { link rel="preload" as="script" href=(assets::path(name)) data-run; }
}

fn top(here: Option<NavItem>) -> Markup {
    html! {
        header.top {
            a.brand href="/" aria-label="Provost" {
                img src=(assets::path("provost.svg")) alt="" width="20" height="20";
                span { "Provost" }
            }
            nav aria-label="Main" {
                ul {
                    @for place in NavItem::ALL {
                        li {
                            a href=(place.path()) data-go=(place.key())
                                aria-current=[(here == Some(place)).then_some("page")] {
                                (place.title())
                                @if place == NavItem::Inbox { (waiting(None)) }
                            }
                        }
                    }
                }
            }
            span #link .link role="status" data-state="idle" {}
            button.ghost type="button" data-key="?" data-dialog="keys" aria-label="Keyboard shortcuts" { "?" }
        }
    }
}

/// The number of items in the inbox, beside its name. `None`: not known yet; the browser asks for it
/// when the page has loaded, so that no page waits for the count.
pub fn waiting(count: Option<usize>) -> Markup {
    let trigger = if count.is_none() { "load, changed" } else { "changed" };
    let shown = count.filter(|count| *count > 0);
    html! {
        span.count #waiting data-topic="*" hx-get="/waiting" hx-trigger=(trigger) hx-swap="outerHTML" {
            @if let Some(count) = shown {
                @let most = WAITING_SHOWN;
                @if count > most { (most) "+" } @else { (count) }
                span.unseen { " waiting" }
            }
        }
    }
}

/// The largest number that is shown; above it, the navigation shows `99+`.
const WAITING_SHOWN: usize = 99;

/// The shortcuts, by the page where they work. Buttons name their keys themselves (`data-key`): this
/// is only the list that `?` shows.
const KEYS: &[(&str, &[(&str, &str)])] = &[
    (
        "Anywhere",
        &[
            ("g i", "Inbox"),
            ("g b", "Board"),
            ("g u", "Usage"),
            ("g s", "Settings"),
            ("?", "This list"),
            ("Esc", "Leave a field or dialog"),
            ("Ctrl Enter", "Send the form that you are in"),
        ],
    ),
    (
        "Lists",
        &[
            ("j", "Next item"),
            ("k", "Previous item"),
            ("Enter", "Open the item"),
            ("o", "Show its details"),
            ("a", "Approve or accept"),
            ("d", "Deny or discard"),
            ("m", "Merge (squash)"),
            ("r", "Answer, or retry with a prompt"),
            ("e", "Mark the task done"),
            ("x", "Cancel the task"),
        ],
    ),
    ("Board", &[("n", "New task"), ("t", "Start an attempt"), ("v", "Move the task")]),
    ("Attempt", &[("v", "Review the changes"), ("r", "Write a prompt")]),
    (
        "Review",
        &[
            ("c", "Comment on the lines"),
            ("↑ ↓", "Another line"),
            ("Shift ↓", "More lines"),
            ("s", "Submit the comments"),
            ("u", "Unified or side by side"),
        ],
    ),
];

fn keys() -> Markup {
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keyboard shortcuts" }
            @for (place, keys) in KEYS {
                section {
                    h3 { (place) }
                    dl.keys {
                        @for (key, does) in *keys {
                            div {
                                dt { @for part in key.split(' ') { kbd { (part) } " " } }
                                dd { (does) }
                            }
                        }
                    }
                }
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

/// A part of a page that the browser reloads when one of its topics changes. The part's address must
/// answer with the same wrapper, which replaces the old one.
pub struct Live<'a> {
    pub id: &'a str,
    /// The address of the part alone.
    pub path: &'a str,
    /// Topics of `/events`, separated by spaces; `*` is every topic.
    pub topics: &'a str,
    /// The id of the object whose changes count; `None`: those of every object.
    pub of: Option<&'a str>,
}

impl Live<'_> {
    /// Puts the part into the element that is reloaded.
    pub fn wrap(&self, content: &Markup) -> Markup {
        html! {
            div id=(self.id) data-topic=(self.topics) data-id=[self.of]
                hx-get=(self.path) hx-trigger="changed" hx-swap="outerHTML" {
                (content)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_landmarks() {
        let markup = page("Inbox", Some(NavItem::Inbox), Some(7), &html! { h1 { "Inbox" } });
        let names = ["provost.svg", "provost.css", "provost.js", "htmx.min.js", "start.js"];
        let shown = names.into_iter().fold(markup.into_string(), |shown, name| {
            // Without the hash of what is in it.
            shown.replace(&assets::path(name), &format!("/assets/{name}"))
        });
        insta::assert_snapshot!(shown.replace("><", ">\n<"));
    }

    #[test]
    fn no_shortcut_means_two_things_at_one_place() {
        for (place, keys) in KEYS {
            let mut named: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
            named.sort_unstable();
            named.dedup();
            assert_eq!(named.len(), keys.len(), "{place}");
        }
    }

    #[test]
    fn what_waits_is_counted_up_to_a_limit() {
        let text = |count| waiting(count).into_string();
        assert!(text(Some(7)).contains(">7<"));
        assert!(text(Some(100)).contains(">99+<"));
        assert!(text(Some(0)).ends_with("\"></span>"));
    }
}
