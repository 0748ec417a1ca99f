//! Plans with an index of an older version: indexed again from their own documents.

use provost_actors::ids::ProjectId;
use provost_actors::refusal::Refusal;
use sqlx::FromRow;

use super::plans::{self, INDEX_VERSION, NewDocument, NewPlan};
use crate::store::{Store, codec, commit, fault};
use crate::work::plan::{self, Format};

#[derive(FromRow)]
struct OldRow {
    plan_id: i64,
    project_id: String,
    name: String,
    version: String,
    content_hash: String,
    added_at: i64,
}

impl Store {
    /// Indexes each such plan again, the newest first, and returns how many. Each is a
    /// transaction of its own: a daemon that ends meanwhile leaves the rest to the next one.
    pub async fn renew_plans(&self) -> Result<usize, Refusal> {
        let old: Vec<OldRow> = sqlx::query_as(
            "SELECT plan_id, project_id, name, version, content_hash, added_at FROM plans
             WHERE index_version < ?1 ORDER BY plan_id DESC",
        )
        .bind(INDEX_VERSION)
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let count = old.len();
        for plan in old {
            self.renew(plan).await?;
        }
        Ok(count)
    }

    async fn renew(&self, old: OldRow) -> Result<(), Refusal> {
        let project: ProjectId = codec::id(&old.project_id)?;
        let documents: Vec<(String, String)> = sqlx::query_as(
            "SELECT source, content FROM plan_documents WHERE plan_id = ?1 ORDER BY document_id",
        )
        .bind(old.plan_id)
        .fetch_all(&self.reader)
        .await
        .map_err(fault)?;
        let documents = tokio::task::spawn_blocking(move || parse(documents)).await;
        let documents = documents.map_err(|error| Refusal::internal(error.to_string()))??;
        let plan = NewPlan { name: old.name, version: old.version, documents, replaces: true };
        let mut writing = self.writing_patiently().await?;
        let is_same: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM plans WHERE plan_id = ?1 AND content_hash = ?2
                            AND index_version < ?3)",
        )
        .bind(old.plan_id)
        .bind(&old.content_hash)
        .bind(INDEX_VERSION)
        .fetch_one(&mut *writing)
        .await
        .map_err(fault)?;
        if !is_same {
            // It was removed or replaced meanwhile.
            return Ok(());
        }
        plans::remove(&mut writing, old.plan_id).await?;
        let kept = Some((old.plan_id, old.added_at));
        plans::insert(&mut writing, project, kept, &plan, &old.content_hash)
            .await
            .map_err(fault)?;
        commit(writing, "renew_plan").await
    }
}

fn parse(documents: Vec<(String, String)>) -> Result<Vec<NewDocument>, Refusal> {
    let documents = documents.into_iter().map(|(source, content)| {
        let sections = plan::sections(Format::of(&source), &content)
            .map_err(|error| Refusal::internal(error.to_string()))?;
        NewDocument::new(source, content, sections)
            .map_err(|error| Refusal::internal(error.to_string()))
    });
    documents.collect()
}
