//! Plans: each version is added and removed as a whole. The engine's full-text index holds their passages.

use std::collections::BTreeMap;

use provost_actors::ids::ProjectId;
use provost_actors::journal::payload_hash;
use serde::Deserialize;
use serde_json::json;

use super::search::ROWS_PER_SECTION;
use crate::api::commands::{Plan, PlanAdded};
use crate::store::{Code, Db, Refusal, Result, RetryBudget, Sql, Store, now, projects};
use crate::work::answer::terms;
use crate::work::plan::{self, Format, ParseError, Passage, Section, pack};

/// The version of the index that [`insert`] writes. Whoever changes what the index contains must raise it:
/// then the daemon indexes stored plans again.
pub const INDEX_VERSION: i64 = 2;

/// A version of a plan, to be added.
#[derive(Clone, Debug)]
pub struct NewPlan {
    pub name: String,
    pub version: String,
    pub documents: Vec<NewDocument>,
    /// It may replace the same version with other content.
    pub replaces: bool,
}

/// A document of a plan, parsed before the writing transaction begins, because parsing may take seconds.
#[derive(Clone, Debug)]
pub struct NewDocument {
    /// The name of the file; its ending decides the format.
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
    /// The normalized words of its headings, and of each passage as a JSON array.
    place_words: String,
    passage_words: String,
}

impl NewDocument {
    /// Parses a document. A large one takes seconds, so call this on a thread that may block.
    pub fn parse(source: String, content: String) -> Result<Self, ParseError> {
        let sections = plan::sections(Format::of(&source), &content)?.into_iter();
        let section = |section: Section| {
            let place_words = terms::normal(&format!("{} {}", section.heading, section.above));
            let said =
                |passage: &Passage| terms::normal(&format!("{} {}", passage.lead, passage.said()));
            let said: Vec<String> = section.passages.iter().map(said).collect();
            let (passage_words, passages) = (json!(said).to_string(), pack(&section.passages));
            let Section { breadcrumb, heading, above, .. } = section;
            NewSection { breadcrumb, heading, above, passages, place_words, passage_words }
        };
        let sections = sections.map(section).collect();
        Ok(Self { source, content, sections })
    }

    /// How many sections the document has.
    pub fn sections(&self) -> usize {
        self.sections.len()
    }
}

impl Store {
    /// Adds a version of a plan; all of it or nothing. Refused if the version exists with other content and
    /// `replaces` is not set.
    pub async fn add_plan(&self, project: ProjectId, plan: &NewPlan) -> Result<PlanAdded, Refusal> {
        let hash = hash(plan);
        let sql = "SELECT plan_id, content_hash FROM plans
             WHERE project_id = $1 AND name = $2 AND version = $3";
        self.write(RetryBudget::Short, "add_plan", async |db| {
            projects::require(db, project).await?;
            let found: Option<(i64, String)> =
                db.find(sql, (project, &plan.name, &plan.version)).await?;
            let added = match &found {
                Some((_, there)) if *there == hash => return Ok(PlanAdded::Unchanged),
                Some(_) if !plan.replaces => return Err(is_taken(plan).into()),
                Some((there, _)) => {
                    remove(db, *there).await?;
                    PlanAdded::Replaced
                }
                None => PlanAdded::Added,
            };
            // A replaced version keeps its id, and with it its place among the versions.
            insert(db, project, found.map(|(id, _)| (id, now())), plan, &hash).await?;
            Ok(added)
        })
        .await
    }

    /// Removes a version of a plan, or all versions. Returns the removed versions. Questions that were
    /// answered from them keep their answers.
    pub async fn remove_plan(
        &self,
        project: ProjectId,
        name: &str,
        version: Option<&str>,
    ) -> Result<Vec<String>, Refusal> {
        let sql = "SELECT plan_id, version FROM plans
             WHERE project_id = $1 AND name = $2 AND version = coalesce($3, version)
             ORDER BY plan_id";
        self.write(RetryBudget::Short, "remove_plan", async |db| {
            projects::require(db, project).await?;
            let found: Vec<(i64, String)> = db.all(sql, (project, name, version)).await?;
            if found.is_empty() {
                return Err(is_missing(name, version).into());
            }
            for (plan, _) in &found {
                remove(db, *plan).await?;
            }
            Ok(found.into_iter().map(|(_, version)| version).collect())
        })
        .await
    }

    /// All versions of all plans of a project, newest first.
    pub async fn plans(&self, project: ProjectId) -> Result<Vec<Plan>, Refusal> {
        let sql = "SELECT name, version, sections, added_at,
                    (SELECT count(*) FROM plan_documents d WHERE d.plan_id = p.plan_id) AS documents,
                    NOT EXISTS (SELECT 1 FROM plans n WHERE n.project_id = p.project_id
                                AND n.name = p.name AND n.plan_id > p.plan_id) AS is_current
             FROM plans p WHERE project_id = $1 ORDER BY plan_id DESC";
        self.read(async |db| {
            projects::require(db, project).await?;
            db.all(sql, (project,)).await
        })
        .await
    }
}

/// Writes a version with its documents, sections and index. `kept`: the id and the time of addition that it
/// takes over from a version that it replaces.
pub async fn insert(
    db: Db<'_>,
    project: ProjectId,
    kept: Option<(i64, i64)>,
    plan: &NewPlan,
    hash: &str,
) -> Result<()> {
    let sections: usize = plan.documents.iter().map(|document| document.sections.len()).sum();
    let (id, added_at) = kept.unzip();
    let sql = "INSERT INTO plans (plan_id, project_id, name, version, content_hash, sections,
                            added_at, index_version)
         VALUES (coalesce($1, (SELECT coalesce(max(plan_id), 0) + 1 FROM plans)),
                 $2, $3, $4, $5, $6, $7, $8) RETURNING plan_id";
    let (name, version, added_at) = (&plan.name, &plan.version, added_at.unwrap_or_else(now));
    let values = (id, project, name, version, hash, sections, added_at, INDEX_VERSION);
    let plan_id: i64 = db.one(sql, values).await?;
    for NewDocument { source, content, sections } in &plan.documents {
        let sql = "INSERT INTO plan_documents (document_id, plan_id, source, content)
             VALUES ((SELECT coalesce(max(document_id), 0) + 1 FROM plan_documents), $1, $2, $3)
             RETURNING document_id";
        let document_id: i64 = db.one(sql, (plan_id, source, content)).await?;
        for NewSection { breadcrumb, heading, above, passages, place_words, passage_words } in
            sections
        {
            let sql =
                "INSERT INTO plan_sections (section_id, plan_id, document_id, breadcrumb, heading,
                                            above, passages)
                 VALUES ((SELECT coalesce(max(section_id), 0) + 1 FROM plan_sections),
                         $1, $2, $3, $4, $5, $6) RETURNING section_id";
            let values = (plan_id, document_id, breadcrumb, heading, above, passages);
            let section: i64 = db.one(sql, values).await?;
            let sql = db.dialect().index_passages;
            let plan = format!("p{plan_id}");
            db.run(sql, (section * ROWS_PER_SECTION, plan, place_words, passage_words)).await?;
        }
    }
    Ok(())
}

/// Removes a version with its documents, sections and index. Returns 1, or 0 if it does not exist. 64 is
/// `ROWS_PER_SECTION`.
pub async fn remove(db: Db<'_>, plan: i64) -> Result<u64> {
    let sql = "DELETE FROM plan_passages WHERE rowid IN
        (SELECT passage.rowid FROM plan_sections s JOIN plan_passages passage
         ON passage.rowid BETWEEN s.section_id * 64 AND s.section_id * 64 + 63
         WHERE s.plan_id = $1)";
    db.run(sql, (plan,)).await?;
    db.run("DELETE FROM plans WHERE plan_id = $1", (plan,)).await
}

fn hash(plan: &NewPlan) -> String {
    let documents = plan.documents.iter().map(|document| (&document.source, &document.content));
    payload_hash(&documents.collect::<BTreeMap<_, _>>())
}

fn is_missing(name: &str, version: Option<&str>) -> Refusal {
    let of = version.map(|version| format!("version {version} of ")).unwrap_or_default();
    Refusal::new(Code::FileNotFound, format!("there is no {of}plan {name} in this project"))
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

/// A version whose index is older than [`INDEX_VERSION`].
#[derive(Deserialize)]
struct OldPlan {
    plan_id: i64,
    project_id: ProjectId,
    name: String,
    version: String,
    content_hash: String,
    added_at: i64,
}

impl Store {
    /// Indexes the versions with an old index again, from their stored documents, newest first. Returns how
    /// many there were. Each is a transaction of its own, so a daemon that ends in between leaves the rest to
    /// the next one.
    pub async fn renew_plans(&self) -> Result<usize, Refusal> {
        let sql = "SELECT * FROM plans WHERE index_version < $1 ORDER BY plan_id DESC";
        let old: Vec<OldPlan> = self.read(async |db| db.all(sql, (INDEX_VERSION,)).await).await?;
        let count = old.len();
        for plan in old {
            self.renew(plan).await?;
        }
        Ok(count)
    }

    async fn renew(&self, old: OldPlan) -> Result<(), Refusal> {
        let OldPlan { plan_id, project_id, name, version, content_hash, added_at } = old;
        let sql =
            "SELECT source, content FROM plan_documents WHERE plan_id = $1 ORDER BY document_id";
        let documents: Vec<(String, String)> =
            self.read(async |db| db.all(sql, (plan_id,)).await).await?;
        let parse = |(source, content)| NewDocument::parse(source, content);
        let parsed = move || documents.into_iter().map(parse).collect::<Result<Vec<_>, _>>();
        let documents = tokio::task::spawn_blocking(parsed).await;
        let documents = documents.map_err(|error| Refusal::internal(error.to_string()))?;
        let documents = documents.map_err(|error| Refusal::internal(error.to_string()))?;
        let plan = NewPlan { name, version, documents, replaces: true };
        let sql = "SELECT EXISTS (SELECT 1 FROM plans WHERE plan_id = $1 AND content_hash = $2
                                  AND index_version < $3)";
        self.write(RetryBudget::Long, "renew_plan", async |db| {
            // The version may have been removed or replaced meanwhile.
            if db.one(sql, (plan_id, &content_hash, INDEX_VERSION)).await? {
                remove(db, plan_id).await?;
                let kept = Some((plan_id, added_at));
                insert(db, project_id, kept, &plan, &content_hash).await?;
            }
            Ok(())
        })
        .await
    }
}
