//! A changed file as a whole, before or after the change, for a page that shows both sides.

use provost_actors::workspace::compared::Compared;

use super::plain;
use super::turns::Turns;
use crate::api::Refusable;
use crate::api::timeline::{BLOB_MAX, BlobInput, FileSide};
use crate::domain::Domain;

/// The tool that hints name: this method has no tool of its own.
const TOOL: &str = "get_attempt_file";

impl Domain {
    /// The bytes of one side of a changed file. `None`: there is no such file, or it is longer than
    /// `BLOB_MAX`.
    pub(in crate::domain) async fn blob(&self, input: BlobInput) -> Refusable<Option<Vec<u8>>> {
        let turns = Turns::new(input.from_turn, input.to_turn);
        let workspace = self.changed(TOOL, input.attempt_id, turns).await?;
        let Some(path) = plain(&input.path).filter(|_| workspace.is_made) else { return Ok(None) };
        let is_old = input.side == FileSide::Old;
        let _turn = self.artifacts.turn().await?;
        for repo in &workspace.view.repos {
            for rest in workspace.within(repo, &path) {
                let read = async |compared: Compared| compared.blob(rest, is_old, BLOB_MAX).await;
                if let Some(bytes) = workspace.read(TOOL, repo, read).await? {
                    return Ok(Some(bytes));
                }
            }
        }
        Ok(None)
    }
}
