//! A brief as an agent reads it.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::api::brief::{Brief, Files, PlanReference, Prompt};

impl Brief {
    /// The brief in Markdown, for an agent; it follows the task's title and description. Empty if the brief
    /// is empty.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let none = Prompt::default();
        let prompt = self.super_detailed_prompt.as_ref().unwrap_or(&none);
        section(&mut text, "In detail", prompt.description.as_deref().unwrap_or_default());
        section(&mut text, "Context", prompt.context.as_deref().unwrap_or_default());
        section(&mut text, "Requirements", &list(&prompt.requirements));
        section(&mut text, "Design", &design(&prompt.design_references));
        section(&mut text, "Files", &prompt.files.as_ref().map(files).unwrap_or_default());
        let criteria = prompt.acceptance_criteria.iter().enumerate();
        let criteria = criteria.map(|(n, criterion)| format!("{n}: {criterion}"));
        section(&mut text, "Acceptance criteria", &list(&criteria.collect::<Vec<_>>()));
        section(&mut text, "Plan", &self.plan_reference.as_ref().map(plan).unwrap_or_default());
        section(&mut text, "Related tasks", &self.related_tasks.join(", "));
        section(&mut text, "Effort", &self.effort(prompt));
        text
    }

    fn effort(&self, prompt: &Prompt) -> String {
        let mut effort = Vec::new();
        effort.extend(self.hours().map(|hours| format!("{hours} hours")));
        effort.extend(prompt.complexity_level.clone());
        if !prompt.skills_required.is_empty() {
            effort.push(format!("asks for {}", prompt.skills_required.join(", ")));
        }
        effort.join("; ")
    }
}

fn section(text: &mut String, title: &str, body: &str) {
    let body = body.trim();
    if !body.is_empty() {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        // Writing to a string can't fail.
        let _ = write!(text, "{gap}## {title}\n{body}");
    }
}

fn list(items: &[String]) -> String {
    items.iter().map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

fn files(files: &Files) -> String {
    let kinds =
        [("Read", &files.read_from), ("Write", &files.write_to), ("Used in", &files.referenced_in)];
    let lines = kinds.iter().filter(|(_, paths)| !paths.is_empty());
    lines
        .map(|(kind, paths)| format!("{kind}: {}", paths.join(", ")))
        .collect::<Vec<_>>()
        .join("\n")
}

fn design(references: &Map<String, Value>) -> String {
    let line = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}: {text}"),
        other => format!("{name}: {other}"),
    };
    list(&references.iter().map(line).collect::<Vec<_>>())
}

fn plan(plan: &PlanReference) -> String {
    let sections = plan.affected_sections.join(", ");
    let colon = if sections.is_empty() { "" } else { ": " };
    format!("{} {}{colon}{sections}", plan.plan_id, plan.version)
}
