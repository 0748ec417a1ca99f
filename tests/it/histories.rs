//! What agents do with git, generated: a boxed agent runs a script, plain git runs the same one beside it, and
//! the merge of the one is what a careful person would have made of the other by hand. Some daemons are killed
//! meanwhile. `PROVOST_TEST_HISTORIES` says how many (else 10), `PROVOST_TEST_SEED` with
//! which the first begins (else 1).

use std::env;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::finish::arguments;
use crate::harness::{Attempt, Board, Done, Provost, Repo};
use crate::sandbox::can_hold;

const FILES: [&str; 6] = ["README.md", "a.txt", "b c.txt", "ü.txt", "d/e.txt", ".hidden"];

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

/// Where a finish is cut off.
const CUTS: &[&str] = &[
    "finish.committed",
    "commit.made",
    "commit.moved",
    "finish_step.committed",
    "advance.locked",
    "advance.switched",
    "advance.moved",
    "finish_end.committed",
];

struct Script {
    text: String,
    is_odd: bool,
}

fn script(rng: &mut Rng) -> Script {
    let is_odd = rng.u8(..5) == 0;
    let count = rng.usize(1..14);
    let mut steps: Vec<&str> = (0..count).map(|_| STEPS[rng.usize(..STEPS.len())]).collect();
    if is_odd {
        steps.push(ODD[rng.usize(..ODD.len())]);
    }
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
        let _ = writeln!(text, "{{ {filled}; }} >/dev/null 2>&1");
    }
    text.push_str("true\n");
    Script { text, is_odd }
}

/// A shell line in a repository, as the person.
fn by_hand(provost: &Provost, repo: &Repo, line: &str) -> Done {
    let mut command = provost.shell(line);
    command.current_dir(&repo.path).env("GIT_EDITOR", "true");
    Provost::done(command)
}

/// The references that are the person's own.
fn references(repo: &Repo) -> Vec<String> {
    let all = repo.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
    let is_own = |line: &&str| {
        !["refs/provost/", "refs/heads/provost/", "refs/heads/main "]
            .iter()
            .any(|it| line.starts_with(it))
    };
    all.lines().filter(is_own).map(str::to_owned).collect()
}

struct Case<'p> {
    provost: &'p Provost,
    repo: &'p Repo,
    model: &'p Repo,
    attempt: &'p Attempt<'p>,
}

impl Case<'_> {
    /// The same by hand, in another repository. `Some`: the tree that `main` then has; `None`: git needs a person.
    fn merged_by_hand(&self, script: &str, own: &str, main: &str) -> Option<String> {
        let Case { provost, model, repo, .. } = self;
        let base = repo.path.display();
        model.git(&["fetch", "--quiet", &base.to_string(), "main", main]);
        model.git(&["checkout", "--quiet", "-b", own, main]);
        assert_eq!(by_hand(provost, model, script).code, 0);
        let save = format!(
            "[ \"$(git symbolic-ref -q --short HEAD)\" = '{own}' ] || exit 3
             [ -z \"$(git ls-files -u)\" ] || exit 3
             for it in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do
                 [ ! -e .git/$it ] || exit 3
             done
             git add -A && {{ git diff --cached --quiet || git commit -qm rest; }}"
        );
        let saved = by_hand(provost, model, &save);
        if saved.code == 3 {
            return None;
        }
        assert_eq!(saved.code, 0, "{saved:?}");
        model.git(&["fetch", "--quiet", &base.to_string(), "main"]);
        model.git(&["checkout", "--quiet", "--detach", "FETCH_HEAD"]);
        let merge = by_hand(provost, model, &format!("git merge -q --no-ff --no-edit '{own}'"));
        (merge.code == 0).then(|| model.git(&["rev-parse", "HEAD^{tree}"]))
    }

    /// `Err`: nothing was merged, and the hint says what to do.
    fn merge(&self, cut: Option<&str>) -> Result<Value, Value> {
        let merge = arguments(self.attempt, "merge", &json!({"request_id": self.attempt.id}));
        let mut before = None;
        if let Some(failpoint) = cut {
            self.provost.kill();
            self.provost.start_to_die_at(failpoint);
            let mut client = self.provost.connect();
            let id = client.begin("finish_attempt", &merge);
            before = client.outcome(id);
            // One that has nothing to commit does not come by all of them.
            if before.is_some() {
                self.provost.kill();
            } else {
                self.provost.ended();
            }
            self.provost.start();
        }
        let answer = self.provost.answer("finish_attempt", &merge);
        if let Some(before) = before {
            assert_eq!(before.text, answer.text);
        }
        if answer.is_error {
            return Err(answer.refusal());
        }
        let done = answer.output();
        if done["state"] == "done" { Ok(done) } else { Err(done) }
    }
}

#[test]
fn what_agents_do_in_git_is_merged_as_by_hand() {
    let provost = Provost::new();
    if !can_hold() {
        return;
    }
    let provost =
        provost.config("[executors.boxed]\nprotocol = 'fake'\nsandbox = 'workspace'").started();
    let number = |name: &str| env::var(name).ok().and_then(|it| it.parse::<u64>().ok());
    let count = number("PROVOST_TEST_HISTORIES").unwrap_or(10);
    let first = number("PROVOST_TEST_SEED").unwrap_or(1);
    let (mut merged, mut refused) = (0, 0);
    for seed in first..first + count {
        eprintln!("PROVOST_TEST_SEED={seed}");
        let mut rng = Rng::with_seed(seed);
        let repo = provost.repo(&format!("r{seed}"));
        repo.git(&["commit", "--quiet", "--allow-empty", "-m", "before"]);
        repo.commit("a.txt", "1\n2\n3\n");
        repo.git(&["tag", "kept"]);
        let (model, base) =
            (provost.empty_repo(&format!("m{seed}")), repo.git(&["rev-parse", "main"]));
        let board = Board::new(&provost, vec![repo]);
        let task = board.task("t");
        let Script { text, is_odd } = script(&mut rng);
        let line = format!("run eval \"$(echo {} | base64 -d)\"", STANDARD.encode(&text));
        let attempt = board.start_at(&task, "boxed", &json!({"prompt": line}));
        if rng.u8(..4) == 0 {
            provost.kill_and_start();
        }
        attempt.settled();
        let repo = board.repo();
        if rng.bool() {
            repo.commit(FILES[rng.usize(..2)], "the person's\n");
        } else {
            repo.commit("theirs", "the person's\n");
        }
        let (before, own) = (repo.git(&["rev-parse", "main^{tree}"]), references(repo));
        let case = Case { provost: &provost, repo, model: &model, attempt: &attempt };
        let expected = case.merged_by_hand(&text, "own", &base);
        let cut = (expected.is_some() && rng.u8(..4) == 0).then(|| CUTS[rng.usize(..CUTS.len())]);
        let cut = cut.filter(|_| expected.as_ref() != Some(&before));
        let answer = case.merge(cut);
        let after = repo.git(&["rev-parse", "main^{tree}"]);
        let what = format!("seed {seed}, {answer:?}\n{text}");
        match (&expected, &answer) {
            (Some(tree), Ok(_)) => {
                assert_eq!(&after, tree, "{what}");
                merged += 1;
            }
            (Some(tree), Err(_)) => {
                assert_eq!(tree, &before, "it is refused, but by hand it is no work: {what}");
            }
            (None, Ok(_)) => assert!(is_odd, "{what}"),
            (None, Err(refusal)) => {
                assert_eq!(after, before, "{what}");
                assert!(!refusal["hint"].as_str().unwrap_or_default().is_empty(), "{what}");
                refused += 1;
            }
        }
        assert_eq!(references(repo), own, "{what}");
        assert_eq!(repo.git(&["status", "--porcelain"]), "", "{what}");
        repo.git(&["fsck", "--strict", "--no-dangling"]);
        // Whatever it is, it can be given up, and all of it is kept.
        if answer.is_err() {
            let discard = arguments(&attempt, "discard", &json!({}));
            let given_up = provost.answer("finish_attempt", &discard);
            assert!(!given_up.is_error, "{}\n{what}", given_up.text);
        }
    }
    eprintln!("{merged} merged, {refused} refused");
    assert!(merged > 0, "what is refused throughout is not compared");
}
