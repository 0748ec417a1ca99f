//! The checks of an attempt's work: the project's own, and those that its repositories declare,
//! as far as a person trusts these. Of two with one name, the project's counts.

use std::collections::BTreeMap;

use super::{Provision, approval};
use crate::ids::{ProcessId, ProjectId};
use crate::journal::Attempt;
use crate::journal::checks::PlannedCheck;
use crate::repo_settings::RepoSettings;
use crate::world::World;

/// The checks for a run. Without an attempt, only the project's own. `Err` is a sentence: the checks of a
/// repository are not approved, or its settings can't be read.
pub async fn planned(
    world: &World,
    project: (ProjectId, &str),
    attempt: Option<&Attempt>,
) -> Result<Vec<PlannedCheck>, String> {
    let checks = &world.settings.checks;
    let mut planned = checks.planned(project.0, project.1);
    let given = checks.giver(project.0, project.1);
    let Some(attempt) = attempt else {
        for check in &mut planned {
            check.given.clone_from(&given);
        }
        return Ok(planned);
    };
    let provision = Provision::of(world, attempt).await?;
    for repo in &attempt.repos {
        let Some(provided) = provision.repos.get(&repo.name) else { continue };
        let is_foreign = provided.settings.checks.values().any(|check| check.is_repos);
        let is_trusted = approval::is_trusted(world, repo, &provided.settings).await;
        if is_foreign && !is_trusted.map_err(|refusal| refusal.message)? {
            return Err(format!(
                "the checks of the provost.toml of {} are not approved: {} shows and approves them",
                repo.path,
                approval::trust_command(attempt.attempt_id)
            ));
        }
    }
    let settings = provision.repos.iter().map(|(name, it)| (name.as_str(), &it.settings)).collect();
    merge(&mut planned, &settings, attempt.repos.len() > 1);
    for check in &mut planned {
        check.work_of = Some(attempt.attempt_id);
        check.given.clone_from(&given);
    }
    Ok(planned)
}

/// Adds the checks of the repositories. If there are several repositories, each check runs in its own,
/// and its name begins with the repository's.
fn merge(
    planned: &mut Vec<PlannedCheck>,
    settings: &BTreeMap<&str, &RepoSettings>,
    are_several: bool,
) {
    for (repo, settings) in settings {
        for (name, command) in &settings.checks {
            let name = if are_several { format!("{repo}/{name}") } else { name.clone() };
            if planned.iter().any(|check| check.name == name) {
                continue;
            }
            planned.push(PlannedCheck {
                name,
                command: command.value.clone(),
                process_id: ProcessId::new(),
                repo: are_several.then(|| (*repo).to_owned()),
                work_of: None,
                given: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::checks::CheckCommand;
    use crate::repo_settings::Sourced;

    fn settings(checks: &[(&str, &str)]) -> RepoSettings {
        let check = |&(name, line): &(&str, &str)| {
            let value = CheckCommand::Line(line.to_owned());
            let origin = "provost.toml:1".to_owned();
            (name.to_owned(), Sourced { value, origin, is_repos: true })
        };
        RepoSettings { checks: checks.iter().map(check).collect(), ..RepoSettings::default() }
    }

    fn merged(planned: &[(&str, &str)], of: &[(&str, &RepoSettings)]) -> Vec<String> {
        let own = |&(name, line): &(&str, &str)| PlannedCheck {
            name: name.to_owned(),
            command: CheckCommand::Line(line.to_owned()),
            process_id: ProcessId::new(),
            repo: None,
            work_of: None,
            given: None,
        };
        let mut all: Vec<PlannedCheck> = planned.iter().map(own).collect();
        merge(&mut all, &of.iter().copied().collect(), of.len() > 1);
        let describe = |check: &PlannedCheck| {
            format!("{}: {} in {:?}", check.name, check.command, check.repo.as_deref())
        };
        all.iter().map(describe).collect()
    }

    #[test]
    fn the_projects_check_counts_and_each_repository_has_its_own() {
        let (app, web) =
            (settings(&[("test", "make"), ("lint", "lint")]), settings(&[("test", "npm")]));
        let one = merged(&[("test", "cargo")], &[("app", &app)]);
        assert_eq!(one, ["test: cargo in None", "lint: lint in None"]);
        let two = merged(&[("test", "cargo")], &[("app", &app), ("web", &web)]);
        let expected = [
            "test: cargo in None",
            "app/lint: lint in Some(\"app\")",
            "app/test: make in Some(\"app\")",
            "web/test: npm in Some(\"web\")",
        ];
        assert_eq!(two, expected);
    }
}
