//! Since which commit an attempt's work counts against a target: git's merge base, as it would be
//! if each finish had been a real merge, and if the target had the commit that the attempt began
//! from. A squash and a rebase leave no such trace in git, but a record ([`History`]), which counts
//! as long as the target has the result.

use std::collections::HashSet;
use std::path::Path;

use super::git::{self, Git, GitError};

/// A finish that computed what a branch gets of an attempt's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The attempt's commit that was merged.
    pub commit: String,
    pub branch: String,
    /// Where the branch was.
    pub before: String,
    /// What it got; the same as `before` where it had everything.
    pub result: String,
}

/// What is on record of an attempt's work in one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The commit that the attempt began from: what is before it is not the attempt's work. `None`:
    /// that is not known.
    pub begun: Option<String>,
    /// The newest first.
    pub landings: Vec<Landing>,
    /// Those of the attempts that it was forked from, of each the newest first.
    pub inherited: Vec<Vec<Landing>>,
}

impl History {
    /// What was known before this landing was made.
    fn before(&self, at: usize) -> Self {
        let landings = self.landings.iter().skip(at + 1).cloned().collect();
        Self { landings, ..self.clone() }
    }

    /// Only what was merged: of two attempts, neither has what the other one began from.
    #[must_use]
    pub fn of_landings(&self) -> Self {
        Self { begun: None, ..self.clone() }
    }

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
    /// The number of the attempt's newest landing that the target still has.
    pub landed: Option<usize>,
}

/// Where they part; `None` if they have no commit in common. Without a target, the work counts
/// since the commit that the attempt began from.
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

/// Which commit the work counts since, of its merge bases with all that is merged. `own` is the
/// attempt's commit that was merged last, if the work lacks the result, and `forked` where the two
/// part. An attempt that has rewritten its commits since then counts since what it had.
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

/// The commit since which `work` counts against the target branch as it is now.
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

/// The newest landing that changed a branch and that the target branch still has, and the commit
/// since which the work counted then.
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

/// Whether `old` is `new`, or before it. Both are there.
pub async fn is_ancestor(repo: &Path, old: &str, new: &str) -> Result<bool, GitError> {
    let output = Git::new(repo).output(&["merge-base", "--is-ancestor", old, new], 0).await?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(output.failure()),
    }
}

/// All best common ancestors of the work and of a merge of the others.
async fn bases(repo: &Path, work: &str, others: &[&str]) -> Result<Vec<String>, GitError> {
    let args = [&["merge-base", "--all", "--", work], others].concat();
    let output = Git::new(repo).output(&args, usize::MAX).await?;
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()),
        Some(1) => Ok(Vec::new()),
        _ => Err(output.failure()),
    }
}

/// A target, and what there is of the commits on record: git may have pruned some.
struct Seen<'a> {
    repo: &'a Path,
    target: Option<&'a str>,
    there: HashSet<String>,
}

impl<'a> Seen<'a> {
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

    async fn has(&self, landing: &Landing) -> Result<bool, GitError> {
        let Some(target) = self.target else { return Ok(false) };
        Ok(self.there.contains(&landing.result)
            && is_ancestor(self.repo, &landing.result, target).await?)
    }

    /// The newest landing whose result the target has.
    async fn newest(&self, landings: &[Landing]) -> Result<Option<usize>, GitError> {
        for (at, landing) in landings.iter().enumerate() {
            if self.has(landing).await? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// What was merged, if the work lacks the result: else git knows where they part.
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
