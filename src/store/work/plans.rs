//! Plans: added whole, version by version, and removed. SQLite's full-text index holds
//! their passages.

use std::collections::BTreeMap;

use provost_actors::event::Timestamp;
use provost_actors::ids::ProjectId;
use provost_actors::payload;
use provost_actors::refusal::{Code, Refusal};
use serde::Serialize;
use sqlx::FromRow;

use super::search::ROWS_PER_SECTION;
use crate::store::projects;
use crate::store::{Store, Writing, commit, fault};
use crate::work::answer::terms;
use crate::work::plan::{Passage, Section, packed};

/// Version of the index that [`insert`] writes. A change to what the index holds needs the
/// next number: then the daemon indexes stored plans again.
pub const INDEX_VERSION: i64 = 2;

/// A plan to be added.
#[derive(Clone, Debug)]
pub struct NewPlan {
    pub name: String,
    pub version: String,
    pub documents: Vec<NewDocument>,
    /// Takes the place of the same version with other content.
    pub replaces: bool,
}

/// A document of it, parsed and ready to be written: what takes long is done before the
/// writing transaction begins.
#[derive(Clone, Debug)]
pub struct NewDocument {
    pub source: String,
    content: String,
    sections: Vec<NewSection>,
}

#[derive(Clone, Debug)]
struct NewSection {
    breadcrumb: String,
    heading: String,
    above: String,
    passages: String,
    /// Words of its headings, and of each passage, as a JSON array.
    place_words: String,
    passage_words: String,
}

impl NewDocument {
    /// Makes a document ready; of a large one it takes seconds.
    ///
    /// # Errors
    /// None that is known of: passages are text and numbers.
    pub fn new(
        source: String,
        content: String,
        sections: Vec<Section>,
    ) -> Result<Self, serde_json::Error> {
        let sections = sections.into_iter().map(|section| {
            let place_words = terms::indexed(&format!("{} {}", section.heading, section.above));
            let said =
                |passage: &Passage| terms::indexed(&format!("{} {}", passage.lead, passage.said()));
            let said: Vec<String> = section.passages.iter().map(said).collect();
            let passage_words = serde_json::to_string(&said)?;
            let passages = packed::pack(&section.passages)?;
            let Section { breadcrumb, heading, above, .. } = section;
            Ok(NewSection { breadcrumb, heading, above, passages, place_words, passage_words })
        });
        let sections = sections.collect::<Result<_, _>>()?;
        Ok(Self { source, content, sections })
    }

    /// How many sections it has.
    pub fn sections(&self) -> usize {
        self.sections.len()
    }
}

/// A plan as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanView {
    pub name: String,
    pub version: String,
    pub documents: i64,
    pub sections: i64,
    /// Whether questions are answered from it: it is the version added last.
    pub is_current: bool,
    pub added_at: Timestamp,
}

/// What became of a plan that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanAdded {
    Added,
    /// It was there already, the same in every byte.
    Unchanged,
    Replaced,
}

#[derive(FromRow)]
struct PlanRow {
    name: String,
    version: String,
    documents: i64,
    sections: i64,
    is_current: bool,
    added_at: i64,
}

impl Store {
    /// Adds a plan; all of it or nothing.
    pub async fn add_plan(&self, project: ProjectId, plan: &NewPlan) -> Result<PlanAdded, Refusal> {
        let hash = hash(plan);
        let mut writing = self.writing().await?;
        projects::require(&mut writing, project).await?;
        let found: Option<(i64, String)> = sqlx::query_as(
            "SELECT plan_id, content_hash FROM plans
             WHERE project_id = ?1 AND name = ?2 AND version = ?3",
        )
        .bind(project.to_string())
        .bind(&plan.name)
        .bind(&plan.version)
        .fetch_optional(&mut *writing)
        .await
        .map_err(fault)?;
        let added = match &found {
            Some((_, there)) if *there == hash => return Ok(PlanAdded::Unchanged),
            Some(_) if !plan.replaces => return Err(is_taken(plan)),
            Some((there, _)) => {
                remove(&mut writing, *there).await?;
                PlanAdded::Replaced
            }
            None => PlanAdded::Added,
        };
        // With its id a replaced version keeps its place among the others.
        let kept = found.map(|(id, _)| (id, Timestamp::now().millis()));
        insert(&mut writing, project, kept, plan, &hash).await.map_err(fault)?;
        commit(writing, "add_plan").await?;
        Ok(added)
    }

    /// Removes a version of a plan, or all of them: the versions that were removed. What
    /// was answered from them stays.
    pub async fn remove_plan(
        &self,
        project: ProjectId,
        name: &str,
        version: Option<&str>,
    ) -> Result<Vec<String>, Refusal> {
        let mut writing = self.writing().await?;
        projects::require(&mut writing, project).await?;
        let found: Vec<(i64, String)> = sqlx::query_as(
            "SELECT plan_id, version FROM plans
             WHERE project_id = ?1 AND name = ?2 AND version = coalesce(?3, version)
             ORDER BY plan_id",
        )
        .bind(project.to_string())
        .bind(name)
        .bind(version)
        .fetch_all(&mut *writing)
        .await
        .map_err(fault)?;
        if found.is_empty() {
            return Err(is_missing(name, version));
        }
        for (plan, _) in &found {
            remove(&mut writing, *plan).await?;
        }
        commit(writing, "remove_plan").await?;
        Ok(found.into_iter().map(|(_, version)| version).collect())
    }

    /// The plans of a project, newest first.
    pub async fn plans(&self, project: ProjectId) -> Result<Vec<PlanView>, Refusal> {
        let mut reading = self.reader.acquire().await.map_err(fault)?;
        projects::require(&mut reading, project).await?;
        let rows: Vec<PlanRow> = sqlx::query_as(
            "SELECT name, version, sections, added_at,
                    (SELECT count(*) FROM plan_documents d WHERE d.plan_id = p.plan_id) AS documents,
                    NOT EXISTS (SELECT 1 FROM plans n WHERE n.project_id = p.project_id
                                AND n.name = p.name AND n.plan_id > p.plan_id) AS is_current
             FROM plans p WHERE project_id = ?1 ORDER BY plan_id DESC",
        )
        .bind(project.to_string())
        .fetch_all(&mut *reading)
        .await
        .map_err(fault)?;
        let view = |row: PlanRow| PlanView {
            name: row.name,
            version: row.version,
            documents: row.documents,
            sections: row.sections,
            is_current: row.is_current,
            added_at: Timestamp::from_millis(row.added_at),
        };
        Ok(rows.into_iter().map(view).collect())
    }
}

/// `kept`: the id and the time of addition of a version whose place this one takes.
pub async fn insert(
    writing: Writing<'_>,
    project: ProjectId,
    kept: Option<(i64, i64)>,
    plan: &NewPlan,
    hash: &str,
) -> Result<(), sqlx::Error> {
    let sections: usize = plan.documents.iter().map(|document| document.sections.len()).sum();
    let (id, added_at) = kept.unzip();
    let plan_id: i64 = sqlx::query_scalar(
        "INSERT INTO plans (plan_id, project_id, name, version, content_hash, sections, added_at,
                            index_version)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING plan_id",
    )
    .bind(id)
    .bind(project.to_string())
    .bind(&plan.name)
    .bind(&plan.version)
    .bind(hash)
    .bind(i64::try_from(sections).unwrap_or(i64::MAX))
    .bind(added_at.unwrap_or_else(|| Timestamp::now().millis()))
    .bind(INDEX_VERSION)
    .fetch_one(&mut *writing)
    .await?;
    for document in &plan.documents {
        let document_id: i64 = sqlx::query_scalar(
            "INSERT INTO plan_documents (plan_id, source, content) VALUES (?1, ?2, ?3)
             RETURNING document_id",
        )
        .bind(plan_id)
        .bind(&document.source)
        .bind(&document.content)
        .fetch_one(&mut *writing)
        .await?;
        for section in &document.sections {
            insert_section(writing, plan_id, document_id, section).await?;
        }
    }
    Ok(())
}

async fn insert_section(
    writing: Writing<'_>,
    plan: i64,
    document: i64,
    section: &NewSection,
) -> Result<(), sqlx::Error> {
    let section_id: i64 = sqlx::query_scalar(
        "INSERT INTO plan_sections (plan_id, document_id, breadcrumb, heading, above, passages)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING section_id",
    )
    .bind(plan)
    .bind(document)
    .bind(&section.breadcrumb)
    .bind(&section.heading)
    .bind(&section.above)
    .bind(&section.passages)
    .fetch_one(&mut *writing)
    .await?;
    sqlx::query(
        "INSERT INTO plan_passages (rowid, plan, place, said)
         SELECT ?1 + key, ?2, ?3, value FROM json_each(?4)",
    )
    .bind(section_id * ROWS_PER_SECTION)
    .bind(format!("p{plan}"))
    .bind(&section.place_words)
    .bind(&section.passage_words)
    .execute(writing)
    .await?;
    Ok(())
}

pub async fn remove(writing: Writing<'_>, plan: i64) -> Result<(), Refusal> {
    let passages = "DELETE FROM plan_passages WHERE rowid IN
        (SELECT passage.rowid FROM plan_sections s JOIN plan_passages passage
         ON passage.rowid BETWEEN s.section_id * 64 AND s.section_id * 64 + 63
         WHERE s.plan_id = ?1)";
    for statement in [passages, "DELETE FROM plans WHERE plan_id = ?1"] {
        sqlx::query(statement).bind(plan).execute(&mut *writing).await.map_err(fault)?;
    }
    Ok(())
}

/// Of all that a plan's documents say.
fn hash(plan: &NewPlan) -> String {
    let documents = plan.documents.iter().map(|document| (&document.source, &document.content));
    payload::hash(&documents.collect::<BTreeMap<_, _>>())
}

fn is_missing(name: &str, version: Option<&str>) -> Refusal {
    let of = version.map(|version| format!("version {version} of ")).unwrap_or_default();
    Refusal::new(Code::InvalidArgument, format!("there is no {of}plan {name} in this project"))
        .hint("Name one that `provost plan list` shows.")
        .detail("path", if version.is_some() { "version" } else { "name" })
}

fn is_taken(plan: &NewPlan) -> Refusal {
    let NewPlan { name, version, .. } = plan;
    Refusal::new(
        Code::InvalidState,
        format!("version {version} of plan {name} is there, with another content"),
    )
    .hint("Add it with another --version, or replace that one with --replace.")
    .detail("path", "version")
}
