//! What an agent in a box plants in its own repository and worktree reaches no other: not the target branch, its
//! checks, other attempts or the person's git. Each test first shows that it was planted.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{can_hold, provost, results};
use crate::harness::{Attempt, Board, Provost, wait_until};

/// Rewrites the object of a file of the commit that is checked out, under its own name.
const FORGE: &str = "python3 -c 'import sys,zlib,os,subprocess as s; \
    o=s.run([\"git\",\"rev-parse\",\"HEAD:\"+sys.argv[1]],capture_output=True,text=True).stdout.strip(); \
    c=s.run([\"git\",\"rev-parse\",\"--path-format=absolute\",\"--git-path\",\"objects\"],capture_output=True,text=True).stdout.strip(); \
    d=c+\"/\"+o[:2]; os.makedirs(d,exist_ok=True); k=sys.argv[2].encode()+b\"\\n\"; \
    p=d+\"/\"+o[2:]; os.path.exists(p) and os.remove(p); \
    open(p,\"wb\").write(zlib.compress(b\"blob %d\\0\"%len(k)+k))'";

fn worktree(attempt: &Attempt<'_>) -> PathBuf {
    PathBuf::from(attempt.status()["worktree"].as_str().unwrap())
}

fn merged(provost: &Provost, attempt: &Attempt<'_>) -> Value {
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 120_000});
    provost.call("finish_attempt", &merge)
}

/// An attempt in a box that has run these commands, each with success.
fn planted<'p>(board: &Board<'p>, commands: &[&str]) -> Attempt<'p> {
    let lines: Vec<String> = commands.iter().map(|it| format!("run {it}")).collect();
    let attempt = board.start("boxed", &lines.join("\n"));
    attempt.settled();
    attempt.saved(1);
    for (command, (code, text)) in commands.iter().zip(results(&attempt)) {
        assert_eq!(code, 0, "{command}: {text}");
    }
    attempt
}

#[test]
fn a_forged_object_passes_no_check_and_is_not_merged() {
    if !can_hold() {
        return;
    }
    let checks = "[projects.scratch.checks]\nhello = 'sh check.sh'";
    let provost = provost().config(checks).started();
    let board = provost.board();
    let repo = board.repo();
    repo.commit("a.txt", "hello\n");
    repo.commit("check.sh", "grep -q hello a.txt\n");
    let forge = format!("{FORGE} check.sh \"exit 0\"");
    let shown = "git cat-file -p HEAD:check.sh | grep -q \"exit 0\"";
    let attempt = planted(&board, &["echo BROKEN > a.txt", &forge, shown]);
    let done = merged(&provost, &attempt);
    assert_eq!(done["state"], "checks_failed", "{done}");
    assert_eq!(repo.git(&["show", "main:check.sh"]), "grep -q hello a.txt");
    assert_eq!(repo.git(&["fsck", "--strict", "--no-dangling"]), "");
    // The next attempt, in no box, has what the person wrote.
    let next = board.start("free", "run cat check.sh");
    next.settled();
    assert_eq!(results(&next)[0].1.trim(), "grep -q hello a.txt");
}

#[test]
fn a_commit_of_forged_objects_is_refused_and_says_so() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let main = board.repo().git(&["rev-parse", "main"]);
    // The commit names a new file by the name of what is not in it.
    let commands = ["echo mine > new.txt", "git add new.txt", "git commit --quiet -m new"];
    let forge = format!("{FORGE} new.txt other");
    let lines: Vec<String> =
        commands.iter().copied().chain([&*forge]).map(|it| format!("run {it}")).collect();
    let attempt = board.start("boxed", &lines.join("\n"));
    attempt.settled();
    let refusal = provost.refusal(
        "finish_attempt",
        &json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 120_000}),
    );
    let message = refusal["message"].as_str().unwrap();
    assert!(message.contains("can't be taken over"), "{refusal}");
    assert_eq!(board.repo().git(&["rev-parse", "main"]), main);
    assert_eq!(board.repo().git(&["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn an_alternate_brings_no_file_of_another_repository() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let other = provost.repo("other");
    other.commit("secret", "of another repository\n");
    let blob = other.git(&["rev-parse", "HEAD:secret"]);
    let borrow = format!(
        "o=$(git rev-parse --path-format=absolute --git-path objects) && echo {} >> $o/info/alternates",
        other.path.join(".git/objects").display()
    );
    let tree = format!("printf '100644 blob {blob}\\tstolen\\n' | git mktree --missing > tree");
    let commit = "git update-ref HEAD $(git commit-tree $(cat tree) -p HEAD -m stolen)";
    let attempt = board.start("boxed", &format!("run {borrow}\nrun {tree}\nrun {commit}"));
    attempt.settled();
    assert!(results(&attempt).iter().all(|(code, _)| *code == 0), "{:?}", results(&attempt));
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 120_000});
    provost.refusal("finish_attempt", &merge);
    assert!(!board.repo().git(&["ls-tree", "-r", "--name-only", "main"]).contains("stolen"));
    let alternates = board.repo().path.join(".git/objects/info/alternates");
    assert!(!alternates.exists(), "nothing is borrowed");
}

#[test]
fn links_in_the_git_folders_lead_no_write_out() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let victim = provost.path("person/.profile");
    fs::write(&victim, "as it was\n").unwrap();
    let link = format!(
        "g=$(git rev-parse --absolute-git-dir) && b=$(git symbolic-ref HEAD) && \
         c=$(git rev-parse --path-format=absolute --git-common-dir) && \
         rm -f $c/logs/$b $g/logs/HEAD && for f in $c/logs/$b $g/logs/HEAD $g/COMMIT_EDITMSG \
         $g/ORIG_HEAD $c/packed/packed-refs; do ln -sf {} $f; done",
        victim.display()
    );
    let attempt = planted(&board, &["echo w >> a.txt", &link]);
    let worktree = worktree(&attempt);
    let done = merged(&provost, &attempt);
    assert_eq!(done["state"], "done", "{done}");
    // The person commits there by hand.
    fs::write(worktree.join("b.txt"), "by hand\n").unwrap();
    let there = worktree.to_str().unwrap();
    board.repo().git(&["-C", there, "add", "b.txt"]);
    board.repo().git(&["-C", there, "commit", "--quiet", "-m", "by hand"]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "as it was\n");
}

/// Commands that plant a program for git to run, by name. `{trap}` is the program.
const PLANTS: [(&str, &str); 7] = [
    (
        "a nested repository",
        "git init --quiet nested && echo x > nested/f && git -C nested add f && \
         git -C nested -c user.name=a -c user.email=a@b commit --quiet -m x && \
         {configure nested/.git/config} && git add nested",
    ),
    (
        "a repository in the place of the link",
        "git clone --quiet --no-hardlinks . fake.git && mv .git link && mv fake.git/.git .git && \
         {configure .git/config}",
    ),
    (
        "another common folder",
        "g=$(git rev-parse --absolute-git-dir) && mkdir common && cp -r \
         $(git rev-parse --git-common-dir)/. common && echo $PWD/common > $g/commondir && \
         {configure common/config}",
    ),
    (
        "the attempt's own configuration",
        "c=$(git rev-parse --path-format=absolute --git-common-dir)/settings/config && \
         {configure $c} && echo '* filter=x diff=x merge=x' > .gitattributes",
    ),
    (
        "a configuration of the worktree",
        "g=$(git rev-parse --absolute-git-dir) && {configure $g/config.worktree} && \
         git config --file $(git rev-parse --path-format=absolute --git-common-dir)/settings/config \
         extensions.worktreeConfig true",
    ),
    (
        "attributes and an index of the git folder",
        "g=$(git rev-parse --absolute-git-dir) && mkdir -p $g/info && \
         echo '* filter=x' > $g/info/attributes && git update-index --split-index && \
         c=$(git rev-parse --path-format=absolute --git-common-dir)/settings/config && {configure $c}",
    ),
    (
        "hooks",
        "c=$(git rev-parse --path-format=absolute --git-common-dir) && \
         for h in post-checkout pre-commit post-commit reference-transaction post-index-change; do \
         mkdir -p hooked && cp {trap} hooked/$h && cp {trap} $c/hooks/$h 2>/dev/null; done; \
         git config --file $c/settings/config core.hooksPath $PWD/hooked",
    ),
];

/// The commands of a plant.
fn commands(plant: &str, trap: &Path) -> String {
    let trap = trap.display();
    let keys = "core.fsmonitor core.pager diff.external diff.x.textconv diff.x.command merge.x.driver \
        alias.st gpg.program core.editor filter.x.clean filter.x.smudge core.sshCommand";
    let mut text = plant.replace("{trap}", &trap.to_string());
    while let Some((before, rest)) = text.split_once("{configure ") {
        let (file, after) = rest.split_once('}').unwrap();
        let all = format!("for k in {keys}; do git config --file {file} $k '{trap}'; done");
        text = format!("{before}{{ {all}; }}{after}");
    }
    text
}

/// What a person may do with git in a worktree, and with the verbs.
fn used(provost: &Provost, board: &Board<'_>, attempt: &Attempt<'_>) {
    let worktree = worktree(attempt);
    let there = worktree.to_str().unwrap();
    for args in [&["status"][..], &["diff"], &["log", "-1", "-p"], &["branch"]] {
        board.repo().git(&[&["-C", there][..], args].concat());
    }
    for verb in [&["diff"][..], &["diff", "--stat"], &["status"], &["path"], &["review", "list"]] {
        let mut command = provost.command(&[verb, &[&attempt.id]].concat());
        command.stdin(std::process::Stdio::null());
        assert_eq!(Provost::done(command).code, 0, "{verb:?}");
    }
    assert_eq!(provost.verb(["shell", &attempt.id, "-c", "git status"]).code, 0);
}

#[test]
fn the_persons_git_in_a_worktree_runs_nothing_that_was_planted() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let ran = provost.path("ran");
    let trap = provost.script("trap", &format!("touch {}; cat", ran.display()));
    for (name, plant) in PLANTS {
        let plant = commands(plant, &trap);
        // Without a box, the agent's own git runs it.
        let _ = fs::remove_file(&ran);
        let free = board.start("free", &format!("run {plant}\nrun git status; git commit -qam x"));
        free.saved(1);
        assert!(ran.exists(), "{name}: {:?}", results(&free));
        fs::remove_file(&ran).unwrap();
        used(&provost, &board, &free);
        assert!(!ran.exists(), "{name}, without a box");
        let attempt = planted(&board, &[&plant]);
        used(&provost, &board, &attempt);
        assert!(!ran.exists(), "{name}");
        let link = fs::read_to_string(worktree(&attempt).join(".git")).unwrap();
        assert!(link.starts_with("gitdir: ") && link.contains("/attempts/"), "{link}");
        // A merge may refuse what no commit can hold; the next attempt and its checks begin beside it.
        let merge = json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 120_000});
        provost.answer("finish_attempt", &merge);
        board.start("free", "run git status; git commit --allow-empty -qm x").saved(1);
        board.repo().git(&["status"]);
        board.repo().git(&["checkout", "--quiet", "-b", "after", "main"]);
        board.repo().git(&["checkout", "--quiet", "main"]);
        board.repo().git(&["branch", "--quiet", "-D", "after"]);
        assert!(!ran.exists(), "{name}: after its merge");
    }
}

#[test]
fn what_is_planted_between_turns_is_put_back_before_the_next() {
    let provost = provost().started();
    let board = provost.board();
    let attempt = board.start("free", "write a.txt one");
    attempt.settled();
    attempt.saved(1);
    let worktree = worktree(&attempt);
    let link = worktree.join(".git");
    let right = fs::read_to_string(&link).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(Path::new("/nowhere"), &link).unwrap();
    let more =
        json!({"attempt_id": attempt.id, "action": "send", "prompt": "run git status --short"});
    provost.call("follow_up", &more);
    attempt.saved(2);
    assert_eq!(results(&attempt).last().unwrap(), &(0, "?? a.txt".to_owned()));
    assert_eq!(fs::read_to_string(&link).unwrap(), right);
}

#[test]
fn what_a_turn_has_left_running_plants_nothing_for_a_persons_shell() {
    if !can_hold() {
        return;
    }
    let provost = provost().started();
    let board = provost.board();
    let ran = provost.path("ran");
    let trap = provost.script("trap", &format!("touch {}; cat", ran.display()));
    let nested = "git init --quiet nested && echo x > nested/f && git -C nested add f && \
        git -C nested -c user.name=a -c user.email=a@b commit --quiet -m x && git add nested";
    let plant = format!("git config --file nested/.git/config core.fsmonitor '{}'", trap.display());
    let lives_on = format!("(while {plant}; do sleep 0.05; done) >/dev/null 2>&1 &");
    let attempt = planted(&board, &[nested, &lives_on]);
    let config = worktree(&attempt).join("nested/.git/config");
    let is_planted = || fs::read_to_string(&config).unwrap_or_default().contains("fsmonitor");
    wait_until("it is planted after the turn", is_planted);
    // What only shows what a shell would get ends nothing.
    assert_eq!(provost.verb(["shell", &attempt.id, "--json"]).code, 0);
    assert!(!attempt.processes().is_empty());
    let shell = |attempt: &Attempt<'_>| provost.verb(["shell", &attempt.id, "-c", "git status"]);
    let done = shell(&attempt);
    assert!(done.code == 0 && done.stderr.contains("had left running was ended"), "{done:?}");
    assert!(!is_planted() && !ran.exists(), "{done:?}");
    attempt.leaves_no_process();
    let again = shell(&attempt);
    assert!(again.code == 0 && again.stderr.is_empty(), "{again:?}");
    // A turn that runs is the person's to end.
    let other = board.start("boxed", "run until [ -e go ]; do sleep 0.05; done");
    other.in_phase("running");
    let done = shell(&other);
    assert!(done.code == 0 && done.stderr.contains("a turn that runs"), "{done:?}");
    fs::write(worktree(&other).join("go"), "").unwrap();
    assert_eq!(other.settled()["state"], "completed");
}
