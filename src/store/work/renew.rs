//! Plans with an index of an older version: indexed again from their own documents.

use provost_actors::ids::ProjectId;
use provost_actors::refusal::Refusal;
use serde::Deserialize;

use super::plans::{self, INDEX_VERSION, NewDocument, NewPlan};
use crate::store::Store;
use crate::store::sql::Sql;
use crate::store::write_retry::Patience;

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
    /// Indexes each such plan again, the newest first, and returns how many. Each is a
    /// transaction of its own: a daemon that ends meanwhile leaves the rest to the next one.
    pub async fn renew_plans(&self) -> Result<usize, Refusal> {
        let sql = "SELECT * FROM plans WHERE index_version < ?1 ORDER BY plan_id DESC";
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
            "SELECT source, content FROM plan_documents WHERE plan_id = ?1 ORDER BY document_id";
        let documents: Vec<(String, String)> =
            self.read(async |db| db.all(sql, (plan_id,)).await).await?;
        let parse = |(source, content)| NewDocument::parse(source, content);
        let parsed = move || documents.into_iter().map(parse).collect::<Result<Vec<_>, _>>();
        let documents = tokio::task::spawn_blocking(parsed).await;
        let documents = documents.map_err(|error| Refusal::internal(error.to_string()))?;
        let documents = documents.map_err(|error| Refusal::internal(error.to_string()))?;
        let plan = NewPlan { name, version, documents, replaces: true };
        let sql = "SELECT EXISTS (SELECT 1 FROM plans WHERE plan_id = ?1 AND content_hash = ?2
                                  AND index_version < ?3)";
        self.write(Patience::Long, "renew_plan", async |db| {
            // It may have been removed or replaced meanwhile.
            if db.one(sql, (plan_id, &content_hash, INDEX_VERSION)).await? {
                plans::remove(db, plan_id).await?;
                let kept = Some((plan_id, added_at));
                plans::insert(db, project_id, kept, &plan, &content_hash).await?;
            }
            Ok(())
        })
        .await
    }
}
