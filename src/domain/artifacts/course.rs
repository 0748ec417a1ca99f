//! Tracks commented lines through the snapshots of later turns: where the lines are now, and whether the
//! turn of their review or a later one has changed them ("addressed"). A comment meets up to four states
//! of its file:
//!
//! ```text
//!  newest base      commented turn      before the review's turn      newest snapshot
//!       |                 |                        |                        |
//!       |<--- to_now -----|                        |                        |   old side: where now?
//!       |                 |---- to_now ------------------------------------>|   new side: where now?
//!       |                 |---- to_turn ---------->|---- by_turns --------->|   addressed?
//! ```
//!
//! `work::comments::Course` has the rule; this file only reads the versions and their differences.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use provost_actors::ids::{AttemptId, CommentId};
use provost_actors::journal::TurnSnapshot;
use provost_actors::workspace::changes::Status;
use provost_actors::workspace::compared::{Compared, Span as Compares};
use provost_actors::workspace::file_versions::{self, Span, Version};
use provost_actors::workspace::quote;
use provost_actors::workspace::snapshot::SnapshotError;
use provost_actors::workspace::source::Source;

use super::turns::Turns;
use crate::api::Refusal;
use crate::api::comments::Side;
use crate::domain::Domain;
use crate::store::KeptComment;
use crate::work::comments::{Course, Difference, LinePosition};

const TOOL: &str = "comment_on_changes";

/// Where each comment's lines are now, with the path of their file now. A comment without the snapshots
/// that this takes is absent.
pub type Stands = HashMap<CommentId, (LinePosition, String)>;

/// The snapshots of an attempt's repositories, each with the number of its turn, in the order of turns.
pub type Snapshots = [(u32, TurnSnapshot)];

impl Domain {
    /// Where the lines of these comments are now. A comment is absent from the result if snapshots are
    /// missing, or if git fails in its repository: a list without positions is better than no list.
    pub(in crate::domain) async fn standings(
        &self,
        attempt: AttemptId,
        comments: &[KeptComment],
        snapshots: &Snapshots,
    ) -> Result<Stands, Refusal> {
        let mut stands = HashMap::new();
        let Some((last, _)) = snapshots.last().filter(|_| !comments.is_empty()) else {
            return Ok(stands);
        };
        let workspace = self.workspace(TOOL, attempt, Turns::until(*last)).await?;
        let _turn = self.artifacts.turn().await?;
        for repo in &workspace.view.repos {
            let of_repo: Vec<&KeptComment> =
                comments.iter().filter(|comment| comment.repo == repo.name).collect();
            if of_repo.is_empty() {
                continue;
            }
            let mut versions = Versions::new(PathBuf::from(&repo.path), workspace.source(repo));
            match versions.stands(&of_repo, snapshots).await {
                Ok(found) => stands.extend(found),
                Err(error) => {
                    tracing::warn!(%attempt, %error, "what has become of comments is not known");
                }
            }
        }
        Ok(stands)
    }
}

/// The snapshots that decide about one comment.
struct Points<'a> {
    commented: &'a TurnSnapshot,
    /// What the review's turn began from: the last snapshot before that turn.
    found: &'a TurnSnapshot,
    newest: &'a TurnSnapshot,
    /// True once the review's turn, or a later one, has a snapshot: only then can it have changed the
    /// lines.
    has_ended: bool,
}

impl<'a> Points<'a> {
    /// `None`: the turn of the comment has no snapshot of its repository.
    fn of(comment: &KeptComment, snapshots: &'a Snapshots) -> Option<Self> {
        let of_repo = || snapshots.iter().filter(|(_, snapshot)| snapshot.repo == comment.repo);
        let (last, newest) = of_repo().next_back()?;
        let (_, commented) = of_repo().find(|(turn, _)| *turn == comment.turn)?;
        // Before its review has begun a turn, everything is before that turn.
        let delivered = comment.delivered.unwrap_or(u32::MAX);
        let is_before =
            |(turn, _): &&(u32, TurnSnapshot)| comment.turn <= *turn && *turn < delivered;
        let found = of_repo().rev().find(is_before).map_or(commented, |(_, snapshot)| snapshot);
        Some(Self { commented, found, newest, has_ended: *last >= delivered })
    }
}

/// Versions of a repository's files and the differences between them, each read once.
struct Versions {
    repo: PathBuf,
    source: Source,
    /// By commit and path.
    files: HashMap<(String, Vec<u8>), Option<Version>>,
    /// By two commits: the new path of each renamed file, by its old path.
    renamed: HashMap<(String, String), HashMap<Vec<u8>, Vec<u8>>>,
    /// By two blobs.
    differences: HashMap<(String, String), Difference>,
}

impl Versions {
    fn new(repo: PathBuf, source: Source) -> Self {
        let (files, renamed, differences) = Default::default();
        Self { repo, source, files, renamed, differences }
    }

    /// The positions of all comments of this repository.
    async fn stands<'c>(
        &mut self,
        comments: &[&'c KeptComment],
        snapshots: &Snapshots,
    ) -> Result<Stands, SnapshotError> {
        let with_points = |it: &&'c KeptComment| Some((*it, Points::of(it, snapshots)?));
        let judged: Vec<_> = comments.iter().filter_map(with_points).collect();
        self.load(&judged).await?;
        let mut stands = Stands::new();
        for (comment, points) in &judged {
            stands.insert(comment.comment_id, self.stand(comment, points).await?);
        }
        Ok(stands)
    }

    /// Reads in advance what most comments need: one git process for each commit, instead of one for each
    /// file.
    async fn load(&mut self, judged: &[(&KeptComment, Points<'_>)]) -> Result<(), SnapshotError> {
        let mut wanted: HashMap<&str, BTreeSet<Vec<u8>>> = HashMap::new();
        for (comment, points) in judged {
            let (path, file) = (path_in(comment, &comment.path), path_in(comment, &comment.file));
            for snapshot in [points.commented, points.found, points.newest] {
                wanted.entry(&snapshot.commit_id).or_default().insert(path.clone());
            }
            if comment.side == Side::Old {
                wanted.entry(&points.newest.base_id).or_default().insert(file);
            }
        }
        for (commit, paths) in wanted {
            let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
            let mut found = file_versions::at(&self.repo, commit, &paths).await?;
            self.files.extend(
                paths
                    .into_iter()
                    .map(|path| ((commit.to_owned(), path.to_vec()), found.remove(path))),
            );
        }
        Ok(())
    }

    /// The position of one comment's lines, and the path to show for it.
    async fn stand(
        &mut self,
        comment: &KeptComment,
        points: &Points<'_>,
    ) -> Result<(LinePosition, String), SnapshotError> {
        let Points { commented, found, newest, has_ended } = points;
        let (path, file) = (path_in(comment, &comment.path), path_in(comment, &comment.file));
        let count = (comment.last_line + 1).saturating_sub(comment.first_line);
        let lines = Span { first: comment.first_line, count };
        let own = Some(Version { blob: comment.blob_id.clone(), is_read: true });
        let before = self.later(commented, found, &path).await?.1;
        let (path_now, now) = self.later(commented, newest, &path).await?;
        let (to_now, changed, after, place) = match comment.side {
            Side::New => (self.between(own.as_ref(), now.as_ref()).await?, lines, own, path_now),
            Side::Old => {
                let base = self.version(&newest.base_id, &file).await?;
                let after = self.version(&commented.commit_id, &path).await?;
                let changed = self.between(own.as_ref(), after.as_ref()).await?.image(lines);
                (self.between(own.as_ref(), base.as_ref()).await?, changed, after, file)
            }
        };
        let to_turn = self.between(after.as_ref(), before.as_ref()).await?;
        let by_turns = if *has_ended {
            Some(self.between(before.as_ref(), now.as_ref()).await?)
        } else {
            None
        };
        let standing = Course { to_now, changed, to_turn, by_turns }.standing(lines);
        Ok((standing, quote::show(&comment.repo, &place)))
    }

    /// The file that a later snapshot has for `path`, and its path there; renames are followed.
    async fn later(
        &mut self,
        from: &TurnSnapshot,
        to: &TurnSnapshot,
        path: &[u8],
    ) -> Result<(Vec<u8>, Option<Version>), SnapshotError> {
        let there = self.version(&to.commit_id, path).await?;
        let was_there = self.version(&from.commit_id, path).await?.is_some();
        if there.is_some() || !was_there {
            return Ok((path.to_vec(), there));
        }
        let commits = (from.commit_id.clone(), to.commit_id.clone());
        if !self.renamed.contains_key(&commits) {
            let span = Compares::Between(commits.0.clone(), commits.1.clone());
            let changes = Compared::take(&self.source, &span).await?.changes().await?;
            let renamed = changes.into_iter().filter(|it| it.status == Status::Renamed);
            let renamed = renamed.filter_map(|it| Some((it.old_path?, it.path)));
            self.renamed.insert(commits.clone(), renamed.collect());
        }
        let Some(new) = self.renamed.get(&commits).and_then(|all| all.get(path)).cloned() else {
            return Ok((path.to_vec(), None));
        };
        let version = self.version(&to.commit_id, &new).await?;
        Ok((new, version))
    }

    /// The version of a file in a commit. `None`: the commit does not have the file.
    async fn version(
        &mut self,
        commit: &str,
        path: &[u8],
    ) -> Result<Option<Version>, SnapshotError> {
        let key = (commit.to_owned(), path.to_vec());
        if let Some(known) = self.files.get(&key) {
            return Ok(known.clone());
        }
        let found = file_versions::at(&self.repo, commit, &[path]).await?.remove(path);
        self.files.insert(key, found.clone());
        Ok(found)
    }

    /// What differs between two versions. `None` on one side only means that everything differs.
    async fn between(
        &mut self,
        old: Option<&Version>,
        new: Option<&Version>,
    ) -> Result<Difference, SnapshotError> {
        let (old, new) = match (old, new) {
            (None, None) => return Ok(Difference::NONE),
            (Some(old), Some(new)) if old.blob == new.blob => return Ok(Difference::NONE),
            (Some(old), Some(new)) if old.is_read && new.is_read => (&old.blob, &new.blob),
            _ => return Ok(Difference::All),
        };
        let key = (old.clone(), new.clone());
        if let Some(known) = self.differences.get(&key) {
            return Ok(known.clone());
        }
        let hunks = file_versions::between(&self.repo, old, new).await?;
        let difference = hunks.map_or(Difference::All, Difference::Lines);
        self.differences.insert(key, difference.clone());
        Ok(difference)
    }
}

/// The path inside the repository, from a shown path that begins with the repository's name.
fn path_in(comment: &KeptComment, shown: &str) -> Vec<u8> {
    let mut bytes = quote::read(shown);
    bytes.drain(..bytes.len().min(comment.repo.len() + 1));
    bytes
}
