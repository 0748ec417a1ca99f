//! Which operation git has under way in a checkout, and the commands that end it. Reads only.

use std::path::Path;

/// git's records of operations, below the folder that it keeps for the checkout, and the commands that
/// end each. The order counts: a rebase also leaves the records of what it does for each commit, such as
/// a cherry-pick.
const COMMANDS: [(&str, &str); 9] = [
    ("rebase-apply/applying", "`git am --continue` or `git am --abort`"),
    ("rebase-apply", "`git rebase --continue` or `git rebase --abort`"),
    ("rebase-merge", "`git rebase --continue` or `git rebase --abort`"),
    ("MERGE_HEAD", "`git merge --continue` or `git merge --abort`"),
    ("CHERRY_PICK_HEAD", "`git cherry-pick --continue` or `git cherry-pick --abort`"),
    ("REVERT_HEAD", "`git revert --continue` or `git revert --abort`"),
    ("sequencer", "`git cherry-pick --quit`"),
    ("BISECT_LOG", "`git bisect reset`"),
    ("BISECT_START", "`git bisect reset`"),
];

/// git's files and folders of operations that leave a branch between two states.
pub const SIGNS: [&str; 7] = [
    "rebase-merge",
    "rebase-apply",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "sequencer",
];

/// The commands, one of which ends what is under way in a checkout, as text for a hint. They must be run
/// in the checkout. `None`: nothing known is under way.
pub fn ended_by(admin: &Path) -> Option<&'static str> {
    let found = COMMANDS.into_iter().find(|(sign, _)| admin.join(sign).exists());
    found.map(|(_, commands)| commands)
}

/// The same for an operation with this record.
pub fn commands(sign: &str) -> Option<&'static str> {
    COMMANDS.into_iter().find(|(of, _)| *of == sign).map(|(_, commands)| commands)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::git::{self, Git};
    use super::*;

    #[test]
    fn each_sign_has_a_command() {
        for sign in SIGNS {
            let admin = tempfile::tempdir().unwrap();
            assert_eq!(ended_by(admin.path()), None);
            fs::write(admin.path().join(sign), "").unwrap();
            assert!(ended_by(admin.path()).is_some(), "{sign}");
            assert_eq!(ended_by(admin.path()), commands(sign));
        }
    }

    /// The first of the commands that are named ends what git itself began, with a conflict.
    #[tokio::test]
    async fn the_command_that_is_named_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let run = async |args: &[&str]| git::run(dir.path(), args).await.unwrap();
        let write = |text: &str| fs::write(dir.path().join("a"), text).unwrap();
        run(&["init", "--quiet", "--initial-branch=main"]).await;
        for (key, value) in [("user.name", "Ann"), ("user.email", "ann@localhost")] {
            run(&["config", key, value]).await;
        }
        let commit = async |text: &str| {
            write(text);
            run(&["add", "a"]).await;
            run(&["commit", "--quiet", "--message", text]).await;
        };
        commit("one").await;
        run(&["branch", "other"]).await;
        commit("two").await;
        let patch = run(&["format-patch", "-1", "--stdout"]).await;
        let mailed = dir.path().join(".git/mailed");
        fs::write(&mailed, patch + "\n").unwrap();
        run(&["checkout", "--quiet", "other"]).await;
        commit("other").await;
        let admin = dir.path().join(".git");
        for begin in [
            &["merge", "main"][..],
            &["rebase", "main"],
            &["cherry-pick", "main"],
            &["revert", "HEAD~1"],
            &["am", "--3way", mailed.to_str().unwrap()],
            &["bisect", "start"],
        ] {
            let begun = Git::new(dir.path()).output(begin, usize::MAX).await.unwrap();
            let commands =
                ended_by(&admin).unwrap_or_else(|| panic!("{begin:?}: {}", begun.stderr));
            let last = commands.split('`').rev().nth(1).unwrap();
            let words: Vec<&str> = last.split(' ').skip(1).collect();
            run(&words).await;
            assert_eq!(ended_by(&admin), None, "{begin:?} {last}");
            assert_eq!(run(&["status", "--porcelain"]).await, "", "{begin:?}");
        }
    }
}
