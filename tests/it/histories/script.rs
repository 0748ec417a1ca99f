//! Generated scripts of what an agent does with git.

use std::fmt::Write as _;

use fastrand::Rng;

pub const FILES: [&str; 6] = ["README.md", "a.txt", "b c.txt", "ü.txt", "d/e.txt", ".hidden"];

/// What an agent may do; `{n}` is the step, `{b}` the branch of a former one, `{f}` and `{g}` are files.
const STEPS: &[&str] = &[
    "mkdir -p d; echo {n} >> '{f}'",
    "mkdir -p d; echo {n} >> '{f}'; git add '{f}'; echo more >> '{f}'",
    "mkdir -p d; printf '{n}\\0x' > '{f}'",
    "mkdir -p d; git mv -kf '{f}' '{g}'",
    "rm -f '{f}'",
    "git rm -q --cached -- '{f}'",
    "chmod +x '{f}'; ln -sfn '{g}' link{n}",
    "echo '*.tmp' >> .gitignore; echo x > x.tmp; mkdir -p empty{n}",
    "git add -A; git commit -qm c{n}",
    "git add -A; git commit -qm c{n}",
    "git add -A; git commit -qm c{n}",
    "git add -A; git commit -q --amend -m amended{n}",
    "git commit -q --allow-empty -m empty{n}",
    "git add -A; git commit -qm c{n}; git branch -f {b}; mkdir -p d; echo {b} > '{f}'",
    "git add -A; git commit -qm c{n}; git checkout -qB {b}; echo {n} > of-{b}; git add -A; git commit -qm {b}; git checkout -q {own}",
    "git merge -q --no-edit {b} || git merge --abort",
    "git cherry-pick {b} || git cherry-pick --abort",
    "git rebase -q {b} || git rebase --abort",
    "git revert --no-edit HEAD || git revert --abort",
    "git stash -q -u && { git stash pop -q || git reset -q --hard; }",
    "git reset -q --soft HEAD~1",
    "git reset -q --mixed HEAD~1",
    "git reset -q --hard",
    "git tag -f t{n}; git update-ref refs/heads/x{n} HEAD",
];

/// What it may leave behind at the end, after which the person has to look first.
const ODD: &[&str] = &[
    "git checkout -q --detach; echo {n} > '{f}'; git add -A; git commit -qm detached",
    "git checkout -qB {b}; echo {n} > '{f}'; git add -A; git commit -qm elsewhere",
    "git checkout -qB {b} HEAD; echo 1 > z; git add -A; git commit -qm z1; git checkout -q {own}; echo 2 > z; git add -A; git commit -qm z2; git merge {b}",
    "git checkout -qB {b} HEAD; echo 1 > z; git add -A; git commit -qm z1; git checkout -q {own}; echo 2 > z; git add -A; git commit -qm z2; git rebase {b}",
    "git checkout -q --detach; git branch -qD {own}",
];

pub struct Script {
    pub text: String,
    /// At its end a person has to look first.
    pub is_odd: bool,
}

/// The file in the git folder that a script makes at one of its steps.
pub const STEP: &str = "provost-test-step";

/// It makes [`STEP`] in its middle, and goes on.
pub fn script(rng: &mut Rng) -> Script {
    let is_odd = rng.u8(..5) == 0;
    let count = rng.usize(1..14);
    let mut steps: Vec<&str> = (0..count).map(|_| STEPS[rng.usize(..STEPS.len())]).collect();
    if is_odd {
        steps.push(ODD[rng.usize(..ODD.len())]);
    }
    let middle = rng.usize(..steps.len());
    let mut text = "own=$(git symbolic-ref --short HEAD)\n".to_owned();
    for (number, step) in steps.into_iter().enumerate() {
        let mut file = || FILES[rng.usize(..FILES.len())];
        let (one, other) = (file(), file());
        let filled = step.replace("{f}", one).replace("{g}", other).replace("{own}", "$own");
        let branch = format!("side{}", rng.usize(..3));
        let filled = filled.replace("{b}", &branch).replace("{n}", &number.to_string());
        // Editors are opened by nothing, and dates order the commits alike.
        let at = 1_700_000_000 + number * 60;
        let _ =
            writeln!(text, "export GIT_COMMITTER_DATE='{at} +0000' GIT_AUTHOR_DATE='{at} +0000'");
        if number == middle {
            let _ = writeln!(text, "touch \"$(git rev-parse --absolute-git-dir)/{STEP}\"");
        }
        let _ = writeln!(text, "{{ {filled}; }} >/dev/null 2>&1");
    }
    text.push_str("true\n");
    Script { text, is_odd }
}
