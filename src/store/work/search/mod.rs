//! Finds the passages of a project's plans that match a question, by the full-text search of the engine,
//! which stems words and ranks passages.

use std::sync::Arc;

use provost_actors::ids::ProjectId;
use serde::Deserialize;
use sqlx::AssertSqlSafe;

use crate::store::dialect::{Terms, Words};
use crate::store::{Db, Refusal, Result, Sql, Store};
use crate::work::answer::cite::Citation;
use crate::work::answer::{Hit, Search, terms};
use crate::work::plan::{PASSAGES_MAX, Section, unpack};

/// How many row ids each section has for its passages: passage `n` of a section has the row id
/// `section_id * ROWS_PER_SECTION + n`.
pub const ROWS_PER_SECTION: i64 = 64;
const _: () = assert!(PASSAGES_MAX <= 64);

/// The weight of a word in the headings above a passage, and in the passage.
const PLACE: f64 = 0.6;
const SAID: f64 = 1.0;

/// How many passages a search returns, and how many of a section that the asker names.
const FOUND: i64 = 30;
const NAMED: i64 = 2;

/// The plans that questions are answered from: the last added version of each.
const CURRENT: &str = "SELECT plan_id FROM plans p WHERE project_id = $1
    AND NOT EXISTS (SELECT 1 FROM plans n
                    WHERE n.project_id = p.project_id AND n.name = p.name AND n.plan_id > p.plan_id)
    ORDER BY plan_id";

/// A passage by its row id, with its section and document.
const PASSAGE: &str =
    "SELECT CAST($1 AS BIGINT) AS id, CAST(0 AS DOUBLE PRECISION) AS score, p.version, d.source,
           d.content, s.*
    FROM plan_sections s
    JOIN plan_documents d ON d.document_id = s.document_id
    JOIN plans p ON p.plan_id = s.plan_id
    WHERE s.section_id = CAST($1 AS BIGINT) / CAST($2 AS BIGINT)";

#[derive(Deserialize)]
struct PassageRow {
    id: i64,
    score: f64,
    version: String,
    source: String,
    content: String,
    plan_id: i64,
    breadcrumb: String,
    heading: String,
    above: String,
    passages: String,
}

impl PassageRow {
    /// The passage with its section; `None`: the section has no passage with this number.
    fn hit(self) -> Result<Option<Hit>> {
        let passages = unpack(&self.passages)?;
        let number = usize::try_from(self.id % ROWS_PER_SECTION).unwrap_or_default();
        let Self { id, score, version, source, breadcrumb, heading, above, .. } = self;
        let is_there = number < passages.len();
        let section = Arc::new(Section { breadcrumb, heading, above, passages });
        let hit = || Hit { id, source, version, section, number, score: -score };
        Ok(is_there.then(hit))
    }
}

impl Store {
    /// The passages of a project's current plans that match a question. `complete` has those with all words:
    /// only those in a section that `names` or `sections` name, if there are any. `named` always has the best
    /// passages of the sections that `names` names.
    pub async fn search_plans(
        &self,
        project: ProjectId,
        question: &str,
        names: &[String],
        sections: &[String],
    ) -> Result<Search, Refusal> {
        self.read(async |db| {
            let plans: Vec<i64> = db.all(CURRENT, (project,)).await?;
            let terms = terms::terms(question);
            if plans.is_empty() || terms.is_empty() {
                let (question, has_plan) = (question.to_owned(), !plans.is_empty());
                return Ok(Search { question, has_plan, terms, ..Search::default() });
            }
            let plans: Vec<String> = plans.iter().map(|plan| format!("p{plan}")).collect();
            let of_plans = Words { plans: &plans, ..Words::default() };
            let all = Words { terms: Terms::All(&terms), ..of_plans.clone() };
            let any = Words { terms: Terms::Any(&terms), ..of_plans.clone() };
            let mut search =
                Search { question: question.to_owned(), has_plan: true, ..Search::default() };
            let places = in_place(names.iter().chain(sections));
            if !places.is_empty() {
                search.complete = matching(db, &all.at(&places), FOUND).await?;
            }
            if search.complete.is_empty() {
                search.complete = matching(db, &all, FOUND).await?;
            }
            // A whole paragraph, list or table is found by its introduction; its parts are passages too.
            search.complete.retain(|hit| !hit.passage().is_whole);
            let places = in_place(names.iter());
            if !places.is_empty() {
                search.named = matching(db, &any.at(&places), NAMED).await?;
                if search.named.is_empty() {
                    search.named = matching(db, &of_plans.at(&places), NAMED).await?;
                }
            }
            search.partial = matching(db, &any, FOUND).await?;
            if let Some(best) = search.partial.first() {
                search.missing = missing(db, best.id, &terms).await?;
            }
            search.terms = terms;
            Ok(search)
        })
        .await
    }

    /// The passage of a project's current plans that an executor's answer cites, with the quoted words.
    /// `None`: the answer cites none, or the words are not in the passage verbatim.
    pub async fn cited(
        &self,
        project: ProjectId,
        answer: &str,
    ) -> Result<Option<(Hit, String)>, Refusal> {
        let Some(citation) = Citation::of(answer) else { return Ok(None) };
        self.read(async |db| {
            let row: Option<PassageRow> = db.find(PASSAGE, (citation.id, ROWS_PER_SECTION)).await?;
            let plans: Vec<i64> = db.all(CURRENT, (project,)).await?;
            let row = row.filter(|row| plans.contains(&row.plan_id));
            let Some(mut row) = row else { return Ok(None) };
            let document = std::mem::take(&mut row.content);
            let verified = row.hit()?.filter(|hit| citation.is_verbatim(hit, &document));
            Ok(verified.map(|hit| (hit, citation.words)))
        })
        .await
    }
}

/// The names of sections in the form of the index; empty: the search is not limited to sections.
fn in_place<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    names.map(|name| terms::indexed(name)).filter(|name| !name.is_empty()).collect()
}

/// The passages that match, best first.
async fn matching(db: Db<'_>, words: &Words<'_>, most: i64) -> Result<Vec<Hit>> {
    let dialect = db.dialect();
    let sql = AssertSqlSafe(format!(
        "SELECT found.rowid AS id, found.score, p.version, d.source, '' AS content, s.*
         FROM ({}) found
         JOIN plan_sections s ON s.section_id = found.rowid / $5
         JOIN plan_documents d ON d.document_id = s.document_id
         JOIN plans p ON p.plan_id = s.plan_id
         ORDER BY found.score, found.rowid",
        dialect.match_passages
    ));
    let values = ((dialect.words)(words), most, PLACE, SAID, ROWS_PER_SECTION);
    let rows: Vec<PassageRow> = db.all(sql, values).await?;
    let hits: Vec<Option<Hit>> = rows.into_iter().map(PassageRow::hit).collect::<Result<_, _>>()?;
    Ok(hits.into_iter().flatten().collect())
}

/// The terms that neither a passage nor the headings above it contain.
async fn missing(db: Db<'_>, passage: i64, terms: &[String]) -> Result<Vec<String>> {
    let dialect = db.dialect();
    let mut missing = Vec::new();
    for term in terms {
        let only = std::slice::from_ref(term);
        let words = Words { terms: Terms::All(only), ..Words::default() };
        if db.one(dialect.lacks_words, ((dialect.words)(&words), passage)).await? {
            missing.push(term.clone());
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests;
