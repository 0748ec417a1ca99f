//! Everyday git works in a box as it does outside of one: the same exit codes, the same errors, the same
//! state afterwards.

use super::{can_hold, provost, ran};

/// Each begins from a clean `main` on a branch of its own, and what it leaves is cleared away.
const COMMANDS: &[&str] = &[
    "echo a > a && git add a && git commit -qm one && git commit -q --amend -m two",
    "git branch x/y && git switch -q x/y && git switch -q - && git branch -d x/y",
    "git tag t1 && git tag -a -m two t2 && git tag -d t1",
    "echo a >> README.md && git stash && git stash pop && git stash && git stash drop",
    "echo a > a && git add a && git commit -qm one && git revert --no-edit HEAD",
    "echo a > a && git add a && git commit -qm one && git reset -q --hard HEAD~1 && git reset HEAD@{1}",
    "git checkout -q -b s && echo s > s && git add s && git commit -qm s && git checkout -q - && git merge --no-ff -m m s",
    "git checkout -q -b s && echo s > s && git add s && git commit -qm s && git checkout -q - && git cherry-pick s",
    "echo a > a && git add a && git commit -qm a && git bisect start HEAD HEAD~1 && git bisect reset",
    "echo a > a && git add a && git commit -qm a && git format-patch -1 -o p && git reset -q --hard HEAD~1 && git am p/*",
    "git branch -m renamed && git status && git log -1 --format=%s",
    "echo a > a && git add a && git commit -qm a && git pack-refs --all && git reflog -2",
    "git worktree list && git worktree add -q ../elsewhere-$$",
    "git gc -q --auto",
    "git config user.nick x && git config user.nick",
    "git switch -q -c up --track main && git status && git switch -q - && git branch -D up",
    "git fetch -q . main && git log -1 --format=%s FETCH_HEAD",
    // With a conflict: ended, and gone on with.
    "git checkout -q -b s && echo s > README.md && git commit -qam s && git checkout -q - && echo m > README.md && git commit -qam m && git merge s; git merge --abort && git status",
    "git checkout -q -b s && echo s > README.md && git commit -qam s && git checkout -q - && echo m > README.md && git commit -qam m && git rebase s; echo b > README.md; git add -A; GIT_EDITOR=true git rebase --continue && git status",
    "git checkout -q -b s && echo s > README.md && git commit -qam s && git checkout -q - && echo m > README.md && git commit -qam m && git rebase s; git rebase --abort && git status",
    "git checkout -q -b s && echo s > README.md && git commit -qam s && git checkout -q - && echo m > README.md && git commit -qam m && git cherry-pick s; echo b > README.md; git add -A; GIT_EDITOR=true git cherry-pick --continue && git status",
    "git checkout -q -b s && echo s > README.md && git commit -qam s && git checkout -q - && echo m > README.md && git commit -qam m && git cherry-pick s; git cherry-pick --abort && git status",
    "echo s > README.md && git commit -qam s && echo t > README.md && git commit -qam t && git revert HEAD~1; git revert --abort && git status",
    "echo s > README.md && git stash && echo m > README.md && git commit -qam m && git stash pop; git checkout -q -f && git stash drop && git status",
];
/// Those that a box refuses, in git's own words.
const REFUSED: [&str; 1] = ["git worktree add"];
const CLEAR: &str = "rm -rf p; for s in merge rebase cherry-pick revert am; do git $s --abort; done > /dev/null 2>&1; \
    { git bisect reset; git branch -m renamed $(cat ../home); git checkout -qf $(cat ../home); \
    git reset -q --hard main; } > /dev/null 2>&1; \
    git for-each-ref --format='%(refname)' refs/heads/s refs/heads/x refs/tags refs/stash refs/heads/renamed | \
    while read r; do git update-ref -d $r; done; git clean -qfd";

#[test]
fn everyday_git_is_in_a_box_what_it_is_outside() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    // The names of branches and commits differ between attempts, and so do times.
    let dates = "export GIT_AUTHOR_DATE='@1700000000 +0000' GIT_COMMITTER_DATE='@1700000000 +0000'; \
        git branch --show-current > ../home; b=$(cat ../home)";
    let commands: Vec<String> = COMMANDS
        .iter()
        .map(|it| {
            format!("{dates}; {{ ({it}) 2>&1; echo ended $?; git status --short; }} | sed \"s,$b,BRANCH,g; s,$PWD,HERE,g; s/[0-9a-f]\\{{7,40\\}}/HASH/g\"; {CLEAR}; true")
        })
        .collect();
    let free = ran(&board, "free", &commands);
    let boxed = ran(&board, "boxed", &commands);
    for ((command, free), boxed) in COMMANDS.iter().zip(free).zip(boxed) {
        if REFUSED.iter().any(|refused| command.contains(refused)) {
            assert!(
                boxed.1.contains("denied") && !boxed.1.contains("ended 0"),
                "{command}: {boxed:?}"
            );
        } else {
            assert!(!boxed.1.contains("denied"), "{command}: {boxed:?}");
            assert_eq!(boxed, free, "{command}");
        }
    }
}
