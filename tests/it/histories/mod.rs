//! What agents do with git, generated: a boxed agent runs a script, plain git runs the same one beside it, and
//! the merge of the one is what a careful person would have made of the other by hand. Daemons, shims and gits
//! are killed meanwhile; without its shim, what is there is compared. `PROVOST_TEST_HISTORIES` says how many
//! (else 10), `PROVOST_TEST_SEED` with which the first begins (else 1).

mod case;
mod script;

use std::env;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::json;

use crate::finish::{arguments, worktree};
use crate::harness::{Attempt, Board, Provost, Repo, processes, wait_until};
use crate::sandbox::can_hold;
use case::{Case, Cut};
use script::{FILES, STEP, Script, script};

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

/// What is killed in the middle of a script.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Killed {
    Daemon,
    Shim,
}

fn kill(provost: &Provost, repo: &Repo, attempt: &Attempt<'_>, killed: Killed) {
    let has_run = |status: &serde_json::Value| {
        ["running", "settled"].contains(&status["phase"].as_str().unwrap())
    };
    attempt.until("it runs", has_run);
    let there = worktree(attempt);
    let folder = repo.git(&["-C", there.to_str().unwrap(), "rev-parse", "--absolute-git-dir"]);
    let step = PathBuf::from(folder).join(STEP);
    wait_until("its script is in the middle", || {
        step.exists() || attempt.status()["phase"] == "settled"
    });
    if killed == Killed::Daemon {
        return provost.kill_and_start();
    }
    // It may have ended.
    processes::working_in(&attempt.dir()).into_iter().for_each(processes::kill_hard);
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
        let killed =
            [None, None, None, None, Some(Killed::Daemon), Some(Killed::Shim)][rng.usize(..6)];
        if let Some(killed) = killed {
            kill(&provost, board.repo(), &attempt, killed);
        }
        let state = attempt.settled()["state"].clone();
        let repo = board.repo();
        if rng.bool() {
            repo.commit(FILES[rng.usize(..2)], "the person's\n");
        } else {
            repo.commit("theirs", "the person's\n");
        }
        let (before, own) = (repo.git(&["rev-parse", "main^{tree}"]), references(repo));
        let case = Case { provost: &provost, repo, model: &model, attempt: &attempt };
        // Another shim may have gone on with it.
        let is_cut_off = killed == Some(Killed::Shim) && state != "completed";
        let expected =
            if is_cut_off { case.merged_as_it_stands() } else { case.merged_by_hand(&text, &base) };
        let is_odd = is_odd || is_cut_off;
        let cut = match rng.u8(..8) {
            0 | 1 => Some(Cut::Daemon(CUTS[rng.usize(..CUTS.len())])),
            2 => Some(Cut::Git(rng.usize(..24))),
            _ => None,
        };
        let has_work = expected.as_ref().is_some_and(|tree| *tree != before);
        let cut = cut.filter(|_| has_work);
        let answer = case.merge(cut);
        let after = repo.git(&["rev-parse", "main^{tree}"]);
        let what = format!("seed {seed}, {killed:?}, {cut:?}, {answer:?}\n{text}");
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
