//! The projects of a page: their names, and the form that chooses one.

use maud::{Markup, html};
use provost_actors::ids::ProjectId;

use crate::api::args::Limit;
use crate::api::projects::{ListProjectsInput, ProjectSummary};
use crate::http::RequestContext;
use crate::http::page::Problem;

/// At most the newest 200 projects, sorted by name.
pub struct Projects(pub Vec<ProjectSummary>);

/// Reads the projects. It is one call of the service.
pub async fn of(desk: &RequestContext) -> Result<Projects, Problem> {
    let input = ListProjectsInput { limit: Limit::of(200), cursor: None };
    let mut projects = desk.service.list_projects(&desk.caller, input).await?.projects;
    projects.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Projects(projects))
}

impl Projects {
    /// A form that shows `path` for one project; nothing where there are fewer than two and none is chosen.
    pub fn choice(&self, path: &str, chosen: Option<ProjectId>) -> Markup {
        if self.0.len() < 2 && chosen.is_none() {
            return html! {};
        }
        html! {
            form.fields method="get" action=(path) {
                label {
                    span.unseen { "Project" }
                    select name="project" data-submit {
                        option value="" { "All projects" }
                        @for project in &self.0 {
                            option value=(project.project_id)
                                selected[chosen == Some(project.project_id)] { (project.name) }
                        }
                    }
                }
                button.plain.unscripted type="submit" { "Show" }
            }
        }
    }
}
