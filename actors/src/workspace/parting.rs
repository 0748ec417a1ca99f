//! Since which commit an attempt's work counts against a target. It is git's merge base, as it would be
//! if each finish had been a real merge, and if the target had the commit from which the attempt began. A
//! squash and a rebase leave no trace for git's merge base. They leave a record ([`History`]) instead,
//! which counts as long as the target has the result.

use std::collections::HashSet;
use std::path::Path;

use super::git::{self, Git, GitError};

/// A finish that computed what a branch gets of an attempt's work. Whether the branch was then moved,
/// only the branch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The attempt's commit that was merged.
    pub commit: String,
    /// The target branch, without `refs/heads/`.
    pub branch: String,
    /// The commit at which the branch was.
    pub before: String,
    /// The commit that it got; the same as `before` where it had everything already.
    pub result: String,
}

/// What is on record of an attempt's work in one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The commit from which the attempt began: what is before it is not the attempt's work. `None`: it
    /// is not known, or the attempt is a fork, whose beginning is work too.
    pub begun: Option<String>,
    /// The attempt's own landings, the newest first.
    pub landings: Vec<Landing>,
    /// The landings of the attempts that it was forked from: of each, the newest first.
    pub inherited: Vec<Vec<Landing>>,
}

impl History {
    /// What was known before the landing at this index was made.
    fn before(&self, at: usize) -> Self {
        let landings = self.landings.iter().skip(at + 1).cloned().collect();
        Self { landings, ..self.clone() }
    }

    /// The same without the beginning. Between two attempts it does not count: neither has what the other
    /// one began from.
    #[must_use]
    pub fn of_landings(&self) -> Self {
        Self { begun: None, ..self.clone() }
    }

    /// All commits that the record names.
    fn commits(&self) -> impl Iterator<Item = &str> {
        let landings = self.landings.iter().chain(self.inherited.iter().flatten());
        let commits = landings.flat_map(|it| [&*it.commit, &*it.result]);
        commits.chain(self.begun.as_deref())
    }
}

/// Where an attempt's work and a target part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parting {
    /// The commit since which the work counts.
    pub base: String,
    /// The index, in [`History::landings`], of the newest landing that the target still has.
    pub landed: Option<usize>,
}

/// Finds where the work and the target part. `None`: they have no commit in common. Without a target, the
/// work counts since the commit from which the attempt began.
///
/// The target counts as having: its own commits, the merged commits of landings whose results it has, and
/// the commit from which the attempt began.
pub async fn part(
    repo: &Path,
    target: Option<&str>,
    work: &str,
    history: &History,
) -> Result<Option<Parting>, GitError> {
    let seen = Seen::of(repo, target, history).await?;
    let landed = seen.newest(&history.landings).await?;
    let mut own = None;
    let mut merged: Vec<&str> = Vec::new();
    if let Some(at) = landed {
        own = seen.lacked(&history.landings[at], work).await?;
        merged.extend(own);
    }
    for landings in &history.inherited {
        if let Some(at) = seen.newest(landings).await? {
            merged.extend(seen.lacked(&landings[at], work).await?);
        }
    }
    merged.extend(target);
    merged.extend(history.begun.as_deref().filter(|begun| seen.there.contains(*begun)));
    let bases = if merged.is_empty() { Vec::new() } else { bases(repo, work, &merged).await? };
    let forked = match own {
        Some(own) => git::merge_base(repo, own, work).await?,
        None => None,
    };
    let mut base = chosen(work, &bases, own, forked.as_deref());
    // Of several bases, one that the target really has is preferred to one that only the record brings.
    if let ([_, _, ..], Some(first), Some(target)) = (&bases[..], base, target)
        && own != Some(first)
    {
        for it in &bases {
            if is_ancestor(repo, it, target).await? {
                base = Some(it);
                break;
            }
        }
    }
    Ok(base.map(|base| Parting { base: base.to_owned(), landed }))
}

/// Which of the merge bases of the work with all that is merged counts. `own` is the attempt's commit
/// that was merged last, if the work lacks the result; `forked` is where `own` and the work part. An
/// attempt that has rewritten its commits since that merge counts since `own`, not since the fork.
fn chosen<'b>(
    work: &str,
    bases: &'b [String],
    own: Option<&'b str>,
    forked: Option<&str>,
) -> Option<&'b str> {
    let mut all = bases.iter().map(String::as_str);
    let is_merged = all.clone().find(|base| *base == work);
    let is_of_own = forked.is_some_and(|forked| bases.iter().any(|base| base == forked));
    is_merged.or(own.filter(|_| is_of_own)).or_else(|| all.next())
}

/// The commit since which the work counts against the target branch as it is now. A missing branch counts
/// as no target.
pub async fn since(
    repo: &Path,
    target_branch: &str,
    work: &str,
    history: &History,
) -> Result<Option<String>, GitError> {
    let target = git::branch_tip(repo, target_branch).await?;
    let parting = part(repo, target.as_deref(), work, history).await?;
    Ok(parting.map(|parting| parting.base))
}

/// The newest landing that changed a branch and that the target branch still has, and the commit since
/// which the work counted at that time. `None`: there is none.
pub async fn merged_last(
    repo: &Path,
    target_branch: &str,
    history: &History,
) -> Result<Option<(Landing, String)>, GitError> {
    let target = git::branch_tip(repo, target_branch).await?;
    let seen = Seen::of(repo, target.as_deref(), history).await?;
    for (at, landing) in history.landings.iter().enumerate() {
        let is_whole = seen.there.contains(&landing.commit) && landing.result != landing.before;
        if is_whole && seen.has(landing).await? {
            let (before, earlier) = (Some(&*landing.before), history.before(at));
            let then = part(repo, before, &landing.commit, &earlier).await?;
            return Ok(then.map(|then| (landing.clone(), then.base)));
        }
    }
    Ok(None)
}

/// Whether `old` is `new`, or an ancestor of it. Both must be in the repository, or git fails.
pub async fn is_ancestor(repo: &Path, old: &str, new: &str) -> Result<bool, GitError> {
    let output = Git::new(repo).output(&["merge-base", "--is-ancestor", old, new], 0).await?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(output.failure()),
    }
}

/// All best common ancestors of the work and of a commit that would merge the others.
async fn bases(repo: &Path, work: &str, others: &[&str]) -> Result<Vec<String>, GitError> {
    let args = [&["merge-base", "--all", "--", work], others].concat();
    let output = Git::new(repo).output(&args, usize::MAX).await?;
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()),
        Some(1) => Ok(Vec::new()),
        _ => Err(output.failure()),
    }
}

/// A target, and which commits of the record the repository still has: git may have pruned some.
struct Seen<'a> {
    repo: &'a Path,
    target: Option<&'a str>,
    there: HashSet<String>,
}

impl<'a> Seen<'a> {
    /// Asks git once for all commits of the record.
    async fn of(
        repo: &'a Path,
        target: Option<&'a str>,
        history: &History,
    ) -> Result<Self, GitError> {
        let list = ["rev-list", "--no-walk", "--ignore-missing"];
        let args: Vec<&str> = list.into_iter().chain(history.commits()).collect();
        let listed =
            if args.len() > list.len() { git::run(repo, &args).await? } else { String::new() };
        Ok(Self { repo, target, there: listed.lines().map(str::to_owned).collect() })
    }

    /// Whether the target has the result of a landing.
    async fn has(&self, landing: &Landing) -> Result<bool, GitError> {
        let Some(target) = self.target else { return Ok(false) };
        Ok(self.there.contains(&landing.result)
            && is_ancestor(self.repo, &landing.result, target).await?)
    }

    /// The index of the newest landing whose result the target has.
    async fn newest(&self, landings: &[Landing]) -> Result<Option<usize>, GitError> {
        for (at, landing) in landings.iter().enumerate() {
            if self.has(landing).await? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The merged commit of a landing, if the work lacks the result. If the work has the result, git
    /// knows by itself where the two part.
    async fn lacked<'l>(
        &self,
        landing: &'l Landing,
        work: &str,
    ) -> Result<Option<&'l str>, GitError> {
        let is_known = self.there.contains(&landing.commit);
        let is_lacked = is_known && !is_ancestor(self.repo, &landing.result, work).await?;
        Ok(is_lacked.then_some(&*landing.commit))
    }
}

#[cfg(test)]
mod tests;
