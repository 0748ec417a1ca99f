//! Changes as forms: each posts a tool's arguments to `/do/<tool>`, with or without script. Pure.

use maud::{Markup, html};
use uuid::Uuid;

use crate::api::{Access, Caller};

/// What all forms of a page have in common: whether its reader may change things, and the page to
/// return to.
pub struct Forms {
    /// The path of this site to which a browser without script returns.
    back: String,
    /// Whether the reader may change things. If not, [`Call::form`] writes nothing. The tool itself
    /// checks the access again.
    pub may_write: bool,
    /// Makes the request id of each form; tests replace it.
    request_id: fn() -> String,
}

impl Forms {
    /// `back` is the path of the page that has the forms.
    pub fn new(caller: &Caller, back: impl Into<String>) -> Self {
        let may_write = caller.access >= Access::Write;
        Self { back: back.into(), may_write, request_id: || Uuid::now_v7().to_string() }
    }

    /// For tests: every form has the same request id.
    #[cfg(test)]
    pub fn fixed(back: &str) -> Self {
        Self { back: back.to_owned(), may_write: true, request_id: || "REQUEST".to_owned() }
    }
}

/// A button that sends a form.
#[derive(Clone, Copy, Debug)]
pub struct Button<'a> {
    pub label: &'a str,
    /// The key that presses it while its item is in focus.
    pub key: Option<&'a str>,
    pub look: Look,
    /// The question that the browser asks before it sends the form.
    pub confirm: Option<&'a str>,
}

/// How a button looks, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The usual next step.
    Primary,
    Plain,
    /// It removes, refuses or stops something.
    Danger,
}

impl<'a> Button<'a> {
    pub fn new(label: &'a str) -> Self {
        Self { label, key: None, look: Look::Plain, confirm: None }
    }

    pub fn key(self, key: &'a str) -> Self {
        Self { key: Some(key), ..self }
    }

    pub fn look(self, look: Look) -> Self {
        Self { look, ..self }
    }

    pub fn confirm(self, question: &'a str) -> Self {
        Self { confirm: Some(question), ..self }
    }

    /// A submit button, for the content of a form.
    pub fn markup(&self) -> Markup {
        let class = match self.look {
            Look::Primary => "primary",
            Look::Plain => "plain",
            Look::Danger => "danger",
        };
        html! {
            button type="submit" class=(class) data-key=[self.key] aria-keyshortcuts=[self.key] {
                (self.label)
                @if let Some(key) = self.key { kbd aria-hidden="true" { (key) } }
            }
        }
    }
}

/// A call of a tool with the arguments that the page knows.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    tool: &'a str,
    arguments: Vec<(&'a str, String)>,
}

impl<'a> Call<'a> {
    pub fn new(tool: &'a str) -> Self {
        Self { tool, arguments: Vec::new() }
    }

    /// Adds an argument. An array is given item by item, under the same name.
    #[expect(clippy::needless_pass_by_value, reason = "a value or a reference, as a page has it")]
    pub fn with(mut self, name: &'a str, value: impl ToString) -> Self {
        self.arguments.push((name, value.to_string()));
        self
    }

    /// A form with one button and no visible fields.
    pub fn button(&self, forms: &Forms, button: Button) -> Markup {
        self.form(forms, "inline", button.confirm, &button.markup())
    }

    /// A form with fields and buttons; nothing for a reader who may not write. Each form has a request id
    /// of its own, so that sending it twice is one call.
    pub fn form(
        &self,
        forms: &Forms,
        class: &str,
        confirm: Option<&str>,
        content: &Markup,
    ) -> Markup {
        if !forms.may_write {
            return html! {};
        }
        let path = format!("/do/{}", self.tool);
        html! {
            form class=(class) method="post" action=(path) hx-post=(path) hx-target="#said"
                hx-swap="innerHTML" hx-disabled-elt="find button" hx-confirm=[confirm] {
                @for (name, value) in &self.arguments {
                    input type="hidden" name=(name) value=(value);
                }
                input type="hidden" name="_request_id" value=((forms.request_id)());
                input type="hidden" name="_back" value=(forms.back);
                (content)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_form_that_works_without_script() {
        let button = Button::new("Merge").key("m").look(Look::Primary);
        let call = Call::new("finish_attempt").with("action", "merge").with("message", "\"><b>");
        let markup = call.button(&Forms::fixed("/"), button).into_string();
        insta::assert_snapshot!(markup.replace("><", ">\n<"));
    }

    #[test]
    fn a_reader_who_may_not_change_things_gets_no_forms() {
        let forms = Forms { may_write: false, ..Forms::fixed("/") };
        assert_eq!(Call::new("stop_attempt").button(&forms, Button::new("Stop")).into_string(), "");
    }
}
