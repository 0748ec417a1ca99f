use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::ids::AttemptId;
use crate::workspace::own::Own;
use crate::workspace::parting::History;
use crate::workspace::{NewWorktree, add_worktree};

struct Scene {
    _dir: TempDir,
    source: Source,
}

impl Scene {
    /// A worktree of the branch `provost/x`, of a repository with the files `a` and `b`.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        fs::create_dir(&repo).unwrap();
        let scratch = dir.path().join("scratch");
        let git = async |args: &[&str]| git::run(&repo, args).await.unwrap();
        git(&["init", "--quiet", "--initial-branch=main"]).await;
        git(&["config", "user.name", "Ann"]).await;
        git(&["config", "user.email", "ann@localhost"]).await;
        fs::write(repo.join("a"), "a\n").unwrap();
        fs::write(repo.join("b"), "b\n").unwrap();
        fs::write(repo.join(".gitignore"), "ignored\n").unwrap();
        git(&["add", "--all"]).await;
        git(&["commit", "--quiet", "--message=first"]).await;
        let base = git(&["rev-parse", "main"]).await;
        let source = Source {
            worktrees: dir.path().join("worktrees"),
            folder: "x".to_owned(),
            name: "repo".to_owned(),
            attempt: AttemptId::new(),
            own: Own::of(&dir.path().join("attempt"), "repo"),
            branch: "provost/x".to_owned(),
            target_branch: "main".to_owned(),
            base: base.clone(),
            history: History::default(),
            repo: repo.clone(),
            scratch: scratch.clone(),
            withheld: Vec::new(),
        };
        fs::create_dir_all(source.worktrees.join("x")).unwrap();
        let new = NewWorktree {
            attempt: source.attempt,
            own: source.own.clone(),
            path: source.worktree(),
            branch: source.branch.clone(),
            base,
            trash: dir.path().join("trash"),
            scratch,
        };
        add_worktree(&repo, &new).await.unwrap();
        Self { _dir: dir, source }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.source.worktree().join(name)
    }

    async fn git(&self, args: &[&str]) -> String {
        git::run(&self.source.worktree(), args).await.unwrap()
    }

    async fn commit(&self) -> Result<(String, bool), CommitError> {
        let [name, email] = ["Bob", "bob@localhost"].map(str::to_owned);
        let author =
            Signature { name, email, date: "1700000000 +0100".to_owned(), committer: None };
        let (source, mark) = (self.source.clone(), "provost 1".to_owned());
        let (message, signing) = ("Work\n\nAgent: fake\n".to_owned(), Arc::default());
        commit(&Commit { source, message, author, signing, mark }).await
    }

    fn admin(&self) -> PathBuf {
        let link = fs::read_to_string(self.path(".git")).unwrap();
        PathBuf::from(link.strip_prefix("gitdir: ").unwrap().trim_end())
    }

    fn is_unlocked(&self) {
        for name in ["index.lock", "provost.index.provost-1"] {
            assert!(!self.admin().join(name).exists(), "{name}");
        }
    }
}

#[tokio::test]
async fn everything_but_what_is_ignored_is_committed_once() {
    let scene = Scene::new().await;
    let base = scene.git(&["rev-parse", "HEAD"]).await;
    assert_eq!(scene.commit().await.unwrap(), (base.clone(), false));
    fs::write(scene.path("a"), "changed\n").unwrap();
    fs::remove_file(scene.path("b")).unwrap();
    fs::create_dir(scene.path("d")).unwrap();
    fs::write(scene.path("d/new"), "new\n").unwrap();
    fs::write(scene.path("ignored"), "ignored\n").unwrap();
    scene.git(&["add", "d"]).await;
    let (commit, is_new) = scene.commit().await.unwrap();
    assert!(is_new);
    assert_eq!(scene.git(&["status", "--porcelain"]).await, "");
    assert_eq!(scene.git(&["rev-parse", "provost/x", "HEAD"]).await, format!("{commit}\n{commit}"));
    let names = scene.git(&["show", "--name-status", "--format=%P %an %cn %at%n%B", "HEAD"]).await;
    let expected =
        format!("{base} Bob Bob 1700000000\nWork\n\nAgent: fake\n\nM\ta\nD\tb\nA\td/new");
    assert_eq!(
        names.split('\n').filter(|it| !it.is_empty()).collect::<Vec<_>>(),
        expected.split('\n').filter(|it| !it.is_empty()).collect::<Vec<_>>()
    );
    assert!(scene.path("ignored").exists());
    assert_eq!(scene.commit().await.unwrap(), (commit, false));
    scene.is_unlocked();
}

#[tokio::test]
async fn a_commit_that_was_cut_off_is_completed() {
    for is_moved in [false, true] {
        let scene = Scene::new().await;
        fs::write(scene.path("a"), "changed\n").unwrap();
        let index = fs::read(scene.admin().join("index")).unwrap();
        let (commit, _) = scene.commit().await.unwrap();
        // As it was before the index followed.
        fs::write(scene.admin().join("index"), index).unwrap();
        fs::write(scene.admin().join("index.lock"), "provost 1").unwrap();
        if !is_moved {
            scene.git(&["update-ref", "refs/heads/provost/x", "HEAD~1"]).await;
        }
        assert_eq!(scene.commit().await.unwrap(), (commit.clone(), !is_moved));
        assert_eq!(scene.git(&["status", "--porcelain"]).await, "");
        assert_eq!(scene.git(&["rev-parse", "HEAD"]).await, commit);
        scene.is_unlocked();
    }
}

#[tokio::test]
async fn a_worktree_that_is_not_on_its_branch_or_in_the_middle_of_something_is_left_alone() {
    let scene = Scene::new().await;
    fs::write(scene.path("a"), "changed\n").unwrap();
    let lock = scene.admin().join("index.lock");
    fs::write(&lock, "").unwrap();
    assert!(matches!(scene.commit().await, Err(CommitError::Locked)));
    fs::remove_file(&lock).unwrap();
    let head = scene.admin().join("MERGE_HEAD");
    fs::write(&head, "").unwrap();
    assert!(matches!(scene.commit().await, Err(CommitError::UnderWay("MERGE_HEAD"))));
    fs::remove_file(head).unwrap();
    scene.git(&["commit", "--quiet", "--allow-empty", "--message=on the branch"]).await;
    scene.git(&["checkout", "--quiet", "--detach", "main"]).await;
    let error = scene.commit().await.unwrap_err().to_string();
    assert!(error.contains("provost/x") && error.contains("a commit"), "{error}");
    assert_eq!(scene.git(&["status", "--porcelain"]).await, " M a");
}

#[tokio::test]
async fn a_branch_that_the_agent_renamed_or_left_is_where_its_work_is() {
    for leave in [
        &["branch", "--move", "mine"][..],
        &["checkout", "--quiet", "--detach"],
        &["checkout", "--quiet", "-b", "other"],
    ] {
        let scene = Scene::new().await;
        scene.git(leave).await;
        fs::write(scene.path("a"), "changed\n").unwrap();
        let (commit, is_new) = scene.commit().await.unwrap();
        assert!(is_new);
        assert_eq!(scene.git(&["rev-parse", "HEAD"]).await, commit);
        let persons = git::branch_tip(&scene.source.repo, "provost/x").await.unwrap();
        assert_eq!(persons, Some(commit), "{leave:?}");
        assert_eq!(scene.git(&["status", "--porcelain"]).await, "");
    }
}

#[tokio::test]
async fn what_is_withheld_is_in_no_commit_and_found_in_those_of_others() {
    let mut scene = Scene::new().await;
    scene.source.withheld = vec![".env".to_owned(), "app/[id]/.env".to_owned()];
    fs::create_dir_all(scene.path("app/[id]")).unwrap();
    for path in [".env", "app/[id]/.env", "new"] {
        fs::write(scene.path(path), "A=1").unwrap();
    }
    // One is staged, the other one only untracked.
    scene.git(&["add", ".env"]).await;
    let (commit, is_new) = scene.commit().await.unwrap();
    assert!(is_new);
    let listed = scene.git(&["ls-tree", "-r", "--name-only", "HEAD"]).await;
    assert_eq!(listed, ".gitignore\na\nb\nnew");
    assert_eq!(scene.git(&["rev-parse", "HEAD"]).await, commit);
    assert!(!scene.commit().await.unwrap().1, "nothing is left to commit");
    scene.git(&["add", "--all"]).await;
    scene.git(&["commit", "--quiet", "--message=by the agent"]).await;
    let agents = scene.git(&["rev-parse", "HEAD"]).await;
    scene.git(&["rm", "-r", "--quiet", "--cached", ".env", "app"]).await;
    scene.git(&["commit", "--quiet", "--message=deleted"]).await;
    let deleted = scene.git(&["rev-parse", "HEAD"]).await;
    let refused = scene.commit().await.unwrap_err();
    assert!(
        matches!(&refused, CommitError::Credentials(found) if [&agents, &deleted].contains(&found)),
        "{refused}"
    );
    scene.is_unlocked();
}
