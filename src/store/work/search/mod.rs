//! Questions looked up in a project's plans, by SQLite's full-text search: the sections that
//! may hold the answer, by stems of our own, and the passages that come nearest, by SQLite's.

use std::collections::{BTreeMap, BTreeSet};

use provost_actors::ids::ProjectId;
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use crate::store::{Store, Writing, fault};
use crate::work::answer::nearest::{self, Near};
use crate::work::answer::{Asked, Place, Search, words};
use crate::work::plan::{PASSAGES_MAX, Section, packed};

/// Sections that are looked at closely for one question and plan.
const CANDIDATES: i64 = 60;

/// How many row ids each section has for its passages.
pub const ROWS_PER_SECTION: i64 = 64;
const _: () = assert!(PASSAGES_MAX <= 64);

/// What a word counts in the headings above a passage, and in the passage.
const PLACE: f64 = 0.6;
const SAID: f64 = 1.0;

/// Passages that are looked at: some of them are parts of others.
const LOOKED_AT: i64 = 30;

/// Passages shown first that stand in a section which the asker names.
const NAMED: i64 = 2;

/// Of each plan the version that was added last.
const CURRENT: &str = "SELECT plan_id, version, sections FROM plans p WHERE project_id = ?1
    AND NOT EXISTS (SELECT 1 FROM plans n
                    WHERE n.project_id = p.project_id AND n.name = p.name AND n.plan_id > p.plan_id)
    ORDER BY plan_id";

/// A plan that questions are answered from.
#[derive(FromRow)]
pub struct CurrentPlan {
    pub plan_id: i64,
    pub version: String,
    sections: i64,
}

#[derive(FromRow)]
struct SectionRow {
    breadcrumb: String,
    heading: String,
    above: String,
    passages: String,
    source: String,
}

/// A passage that was found.
#[derive(FromRow)]
struct PassageRow {
    rowid: i64,
    plan_id: i64,
    source: String,
    breadcrumb: String,
    passages: String,
}

impl Store {
    /// The sections of a project's current plans that may answer a question. `near` are
    /// words that stand where the answer is expected.
    pub async fn search_plans(
        &self,
        project: ProjectId,
        question: &str,
        near: &str,
    ) -> Result<Search, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let plans = current(&mut reading, project).await?;
        let stems = Asked::stems(question);
        let mut search = Search {
            asked: Asked::new(question, 0, |_| 0),
            sections: Vec::new(),
            places: Vec::new(),
            is_empty: plans.is_empty(),
        };
        let mut known: BTreeMap<String, i64> = BTreeMap::new();
        for plan in &plans {
            count(&mut reading, plan.plan_id, &stems, &mut known).await?;
            let rows = candidates(&mut reading, plan.plan_id, &stems, near).await?;
            for row in rows {
                let passages = packed::unpack(&row.passages)
                    .map_err(|error| Refusal::internal(error.to_string()))?;
                let SectionRow { breadcrumb, heading, above, source, .. } = row;
                search.sections.push(Section { breadcrumb, heading, above, passages });
                search.places.push(Place { source, version: plan.version.clone() });
            }
        }
        let sections = plans.iter().map(|plan| plan.sections).sum::<i64>().unsigned_abs();
        search.asked = Asked::new(question, sections, |stem| {
            known.get(stem).copied().unwrap_or_default().unsigned_abs()
        });
        Ok(search)
    }

    /// The passages of a project's current plans that come nearest to a question, each with
    /// its place; first those in a section that one of the terms names.
    pub async fn nearest_passages(
        &self,
        project: ProjectId,
        question: &str,
        terms: &[String],
    ) -> Result<Vec<Near>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        let plans = current(&mut reading, project).await?;
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let of_plans: Vec<String> = plans.iter().map(|plan| format!("p{}", plan.plan_id)).collect();
        let of_plans = format!("plan : ({})", of_plans.join(" OR "));
        let about = format!("{{place said}} : ({})", any_of(&words::sought(question)));
        let terms: Vec<String> =
            terms.iter().map(|term| words::indexed(term)).filter(|term| !term.is_empty()).collect();
        let mut rows = Vec::new();
        if !terms.is_empty() {
            let named = format!("{of_plans} AND place : ({})", any_of(&terms));
            rows = matching(&mut reading, &format!("{named} AND {about}"), NAMED).await?;
            if rows.is_empty() {
                rows = matching(&mut reading, &named, NAMED).await?;
            }
        }
        rows.extend(matching(&mut reading, &format!("{of_plans} AND {about}"), LOOKED_AT).await?);
        let near = rows.into_iter().map(|row| near(row, &plans)).collect::<Result<Vec<_>, _>>()?;
        Ok(nearest::apart(near.into_iter().flatten()))
    }
}

/// The plans that questions of a project are answered from.
pub async fn current(
    reading: Writing<'_>,
    project: ProjectId,
) -> Result<Vec<CurrentPlan>, Refusal> {
    sqlx::query_as(CURRENT).bind(project.to_string()).fetch_all(reading).await.map_err(fault)
}

/// Adds to `known` in how many sections of a plan each stem stands.
async fn count(
    reading: Writing<'_>,
    plan: i64,
    stems: &[String],
    known: &mut BTreeMap<String, i64>,
) -> Result<(), Refusal> {
    for stem in stems {
        let sections: Option<i64> =
            sqlx::query_scalar("SELECT sections FROM plan_stems WHERE plan_id = ?1 AND stem = ?2")
                .bind(plan)
                .bind(stem)
                .fetch_optional(&mut *reading)
                .await
                .map_err(fault)?;
        *known.entry(stem.clone()).or_default() += sections.unwrap_or_default();
    }
    Ok(())
}

async fn candidates(
    reading: Writing<'_>,
    plan: i64,
    stems: &[String],
    near: &str,
) -> Result<Vec<SectionRow>, Refusal> {
    if stems.is_empty() {
        return Ok(Vec::new());
    }
    let near: BTreeSet<String> = words::stems(near).into_iter().collect();
    let quoted = stems.iter().chain(&near).map(|stem| format!("\"{stem}\""));
    let any = quoted.collect::<Vec<_>>().join(" OR ");
    sqlx::query_as(
        "SELECT s.breadcrumb, s.heading, s.above, s.passages, d.source
         FROM plan_words w
         JOIN plan_sections s ON s.section_id = w.rowid
         JOIN plan_documents d ON d.document_id = s.document_id
         WHERE plan_words MATCH ?1 ORDER BY bm25(plan_words, 0.0, 2.0, 1.0), w.rowid LIMIT ?2",
    )
    .bind(format!("plan : p{plan} AND {{heading body}} : ({any})"))
    .bind(CANDIDATES)
    .fetch_all(reading)
    .await
    .map_err(fault)
}

/// The words or phrases, any of which may stand there.
fn any_of(phrases: &[String]) -> String {
    phrases.iter().map(|phrase| format!("\"{phrase}\"")).collect::<Vec<_>>().join(" OR ")
}

async fn matching(
    reading: Writing<'_>,
    query: &str,
    most: i64,
) -> Result<Vec<PassageRow>, Refusal> {
    sqlx::query_as(
        "SELECT found.rowid, s.plan_id, d.source, s.breadcrumb, s.passages
         FROM (SELECT rowid, bm25(plan_passages, 0.0, ?3, ?4) AS score FROM plan_passages
               WHERE plan_passages MATCH ?1 ORDER BY score, rowid LIMIT ?2) found
         JOIN plan_sections s ON s.section_id = found.rowid / ?5
         JOIN plan_documents d ON d.document_id = s.document_id
         ORDER BY found.score, found.rowid",
    )
    .bind(query)
    .bind(most)
    .bind(PLACE)
    .bind(SAID)
    .bind(ROWS_PER_SECTION)
    .fetch_all(reading)
    .await
    .map_err(fault)
}

fn near(row: PassageRow, plans: &[CurrentPlan]) -> Result<Option<Near>, Refusal> {
    let number = usize::try_from(row.rowid % ROWS_PER_SECTION).unwrap_or_default();
    let passages =
        packed::unpack(&row.passages).map_err(|error| Refusal::internal(error.to_string()))?;
    let version = plans.iter().find(|plan| plan.plan_id == row.plan_id);
    let section = Section { breadcrumb: row.breadcrumb, ..Section::default() };
    Ok(version
        .zip(passages.get(number))
        .map(|(plan, passage)| Near::new(row.source, plan.version.clone(), &section, passage)))
}

#[cfg(test)]
mod tests;
