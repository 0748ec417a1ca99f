-- The schema of a board in a file. migrations/postgres has the same for a server.

CREATE TABLE projects (
    project_id TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- When a person removed the project. Its rows stay: its attempts stay readable.
    deleted_at INTEGER
) STRICT;

CREATE TABLE repos (
    repo_id               TEXT PRIMARY KEY,
    project_id            TEXT NOT NULL REFERENCES projects (project_id),
    name                  TEXT NOT NULL,
    path                  TEXT NOT NULL,
    default_target_branch TEXT NOT NULL,
    created_at            INTEGER NOT NULL,
    UNIQUE (project_id, name)
) STRICT;

CREATE TABLE tasks (
    task_id     TEXT PRIMARY KEY,
    project_id  TEXT NOT NULL REFERENCES projects (project_id),
    title       TEXT NOT NULL,
    description TEXT,
    status      TEXT NOT NULL,
    priority    TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    -- A deleted task's attempts stay readable, so its row stays.
    deleted_at  INTEGER,
    -- What people and workers call it: `TASK-001`, unique in its project.
    handle      TEXT,
    -- 'work', 'verification', 'investigation', or 'answer' (a question put to an executor).
    kind        TEXT NOT NULL DEFAULT 'work',
    -- The task that this one verifies or investigates.
    about       TEXT REFERENCES tasks (task_id),
    -- Why a report made it.
    reason      TEXT,
    -- What is to be known to do it, as JSON.
    brief       TEXT,
    -- What the last report made of it: 'reported' (its checks run), 'verified', 'rework',
    -- 'failed', 'blocked' or 'paused'; NULL: nothing that the status does not say.
    standing    TEXT,
    blocked_reason TEXT,
    -- Percent.
    progress    INTEGER,
    -- The newest revision of all attempts when a start or a follow-up made the task
    -- 'inprogress'; NULL: somebody else has set its status since.
    begun_revision INTEGER
) STRICT;
CREATE INDEX tasks_by_project ON tasks (project_id, task_id);
CREATE UNIQUE INDEX tasks_by_handle ON tasks (project_id, handle);
-- What the queue looks at.
CREATE INDEX open_tasks ON tasks (project_id, task_id)
WHERE status NOT IN ('done', 'cancelled') AND deleted_at IS NULL;
CREATE INDEX tasks_about ON tasks (about) WHERE about IS NOT NULL;
CREATE INDEX closed_tasks ON tasks (updated_at, project_id, kind, status, standing)
WHERE status IN ('done', 'cancelled') AND deleted_at IS NULL;
CREATE INDEX verified_tasks ON tasks (project_id, task_id)
WHERE status = 'done' AND standing = 'verified' AND deleted_at IS NULL;

CREATE TABLE task_dependencies (
    task_id    TEXT NOT NULL REFERENCES tasks (task_id),
    depends_on TEXT NOT NULL REFERENCES tasks (task_id),
    PRIMARY KEY (task_id, depends_on)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_dependents ON task_dependencies (depends_on);

CREATE TABLE attempts (
    attempt_id TEXT PRIMARY KEY,
    task_id    TEXT NOT NULL REFERENCES tasks (task_id),
    branch     TEXT NOT NULL,
    folder     TEXT NOT NULL,
    executor   TEXT NOT NULL,
    phase      TEXT NOT NULL,
    state      TEXT NOT NULL,
    -- Counts the starts; every change is conditional on it.
    epoch      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- 1: a stop holds the queue; the next send or queue lets it go on.
    queue_held INTEGER NOT NULL DEFAULT 0,
    -- One count over all attempts: the number of the change that a row holds. What
    -- has a larger one than a waiter has seen is news to it.
    revision   INTEGER NOT NULL DEFAULT 0,
    -- The change by which nothing was running or waiting any more; 0: it never was so.
    settled_revision INTEGER NOT NULL DEFAULT 0,
    -- The attempt inside which the start was asked for; NULL: outside of all.
    parent_id  TEXT REFERENCES attempts (attempt_id),
    -- The attempt, and its turn, whose snapshot this one began from.
    forked_from TEXT REFERENCES attempts (attempt_id),
    forked_turn INTEGER,
    -- The host that owns the attempt: its worktrees and processes are there. '': it waits in the queue
    -- until a host with a free slot claims it.
    host       TEXT NOT NULL DEFAULT 'local',
    -- What its executor asks of a host: JSON, an array of labels.
    labels     TEXT NOT NULL DEFAULT '[]',
    -- The epoch in which the attempt came to its host; 0: it has always been there. Worktrees that
    -- were made there before are not those of the attempt any more.
    placed_epoch INTEGER NOT NULL DEFAULT 0,
    -- Bytes of its host's memory that an attempt asks for; 0: it is not counted.
    memory     INTEGER NOT NULL DEFAULT 0,
    -- The epoch in which it was let begin under the limit of its executor: it counts as running, also while
    -- it still waits for a slot.
    admitted_epoch INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX attempts_by_task ON attempts (task_id, created_at);
CREATE INDEX attempts_by_phase ON attempts (phase);
CREATE INDEX attempts_by_revision ON attempts (revision);
CREATE INDEX attempts_by_parent ON attempts (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX unplaced_attempts ON attempts (created_at) WHERE host = '';

CREATE TABLE attempt_repos (
    attempt_id    TEXT NOT NULL REFERENCES attempts (attempt_id),
    position      INTEGER NOT NULL,
    repo_id       TEXT NOT NULL REFERENCES repos (repo_id),
    name          TEXT NOT NULL,
    path          TEXT NOT NULL,
    target_branch TEXT NOT NULL,
    base_commit   TEXT NOT NULL,
    PRIMARY KEY (attempt_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    session_id          TEXT PRIMARY KEY,
    attempt_id          TEXT NOT NULL REFERENCES attempts (attempt_id),
    executor            TEXT NOT NULL,
    -- The executor's own id of the conversation, once it was seen.
    executor_session_id TEXT,
    created_at          INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_attempt ON sessions (attempt_id, session_id);

CREATE TABLE processes (
    process_id      TEXT PRIMARY KEY,
    session_id      TEXT NOT NULL REFERENCES sessions (session_id),
    attempt_id      TEXT NOT NULL REFERENCES attempts (attempt_id),
    run_reason      TEXT NOT NULL,
    turn            INTEGER NOT NULL,
    prompt          TEXT NOT NULL,
    variant         TEXT,
    status          TEXT NOT NULL,
    -- Identity: a pid means nothing without its start time and boot.
    pid             INTEGER,
    start_time      INTEGER,
    boot_id         TEXT,
    exit_code       INTEGER,
    exit_signal     INTEGER,
    failure_summary TEXT,
    final_message   TEXT,
    usage           TEXT,
    created_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    -- 1: nothing of it is alive and its log is whole; it needs no owner any more.
    closed          INTEGER NOT NULL DEFAULT 0,
    -- How each limit of a process is held, as JSON; null before its start.
    limits          TEXT,
    -- A rate limit ended the turn: 'ask' (somebody is to resume it) or 'auto'.
    quota           TEXT,
    -- When that limit is over, if the executor told.
    resume_at       INTEGER,
    -- 1: the turn has ended, and its snapshot is still to be made.
    snapshot_due    INTEGER NOT NULL DEFAULT 0,
    -- The follow-up whose prompt it runs; NULL: it is an attempt's first turn.
    queue_id        TEXT,
    -- What holds a process, as its shim set it: JSON. NULL: it has no box.
    sandbox         TEXT,
    -- The host that was lost with this turn.
    lost_host       TEXT,
    -- Why the snapshot of a turn that is due can't be made now: the turn counts as settled all the same.
    snapshot_failed TEXT,
    -- Of the error that a turn failed by.
    error_type      TEXT
) STRICT;
CREATE INDEX processes_by_attempt ON processes (attempt_id, process_id);
-- Turns order the processes of an attempt; a clock that was set back does not.
CREATE INDEX processes_by_turn ON processes (attempt_id, turn, process_id);
CREATE INDEX resumable_processes ON processes (resume_at) WHERE quota = 'auto';
CREATE INDEX due_snapshots ON processes (attempt_id, turn) WHERE snapshot_due = 1;
CREATE INDEX processes_by_follow_up ON processes (queue_id) WHERE queue_id IS NOT NULL;
CREATE INDEX turns_by_end ON processes (ended_at) WHERE run_reason = 'coding_agent';

CREATE TABLE requests (
    tool         TEXT NOT NULL,
    request_id   TEXT NOT NULL,
    payload_hash TEXT NOT NULL,
    -- NULL: an intent whose effect lies outside the database and is not known yet.
    answer       TEXT,
    created_at   INTEGER NOT NULL,
    -- What an intent without an answer is to bring about, as JSON: enough to do so
    -- when nobody asks again.
    intent       TEXT,
    -- What the payload came to, with all defaults: other words may mean the same call.
    resolved_hash TEXT,
    -- The host whose daemon keeps the answer.
    host         TEXT NOT NULL DEFAULT 'local',
    PRIMARY KEY (tool, request_id)
) STRICT, WITHOUT ROWID;

-- Follow-ups that wait for the running turn to end, first in, first out.
CREATE TABLE follow_ups (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    queue_id   TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL REFERENCES sessions (session_id),
    prompt     TEXT NOT NULL,
    variant    TEXT,
    queued_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX follow_ups_by_session ON follow_ups (session_id, position);

CREATE TABLE approvals (
    approval_id TEXT PRIMARY KEY,
    attempt_id  TEXT NOT NULL REFERENCES attempts (attempt_id),
    process_id  TEXT NOT NULL REFERENCES processes (process_id),
    -- The protocol's own id of the request.
    request_key TEXT NOT NULL,
    request     TEXT NOT NULL,
    status      TEXT NOT NULL,
    reason      TEXT,
    asked_at    INTEGER NOT NULL,
    -- Denied then, if nobody has answered; NULL: it waits as long as it takes.
    expires_at  INTEGER,
    decided_at  INTEGER,
    -- 1: it is about the attempt, such as a host that its sandbox is to let through. It outlives the turn
    -- that asked, which does not wait for it.
    of_attempt  INTEGER NOT NULL DEFAULT 0,
    UNIQUE (process_id, request_key)
) STRICT;
CREATE INDEX approvals_by_attempt ON approvals (attempt_id, approval_id);
CREATE INDEX pending_approvals ON approvals (attempt_id, approval_id) WHERE status = 'pending';
CREATE UNIQUE INDEX approvals_of_attempts ON approvals (attempt_id, request_key)
    WHERE of_attempt = 1;

-- How many of each kind a project has given a handle: TASK, OBS, TK, ….
CREATE TABLE handles (
    project_id TEXT NOT NULL REFERENCES projects (project_id),
    prefix     TEXT NOT NULL,
    last       INTEGER NOT NULL,
    PRIMARY KEY (project_id, prefix)
) STRICT, WITHOUT ROWID;

-- Who took a task from the queue. It lives with the attempt, or until it expires.
CREATE TABLE leases (
    task_id    TEXT PRIMARY KEY REFERENCES tasks (task_id),
    agent      TEXT NOT NULL,
    attempt_id TEXT REFERENCES attempts (attempt_id),
    taken_at   INTEGER NOT NULL,
    -- NULL: it lives as long as the attempt does something.
    expires_at INTEGER
) STRICT;
CREATE INDEX leases_by_attempt ON leases (attempt_id) WHERE attempt_id IS NOT NULL;

-- Every report as it was given.
CREATE TABLE reports (
    report_id   TEXT PRIMARY KEY,
    project_id  TEXT NOT NULL REFERENCES projects (project_id),
    task_id     TEXT REFERENCES tasks (task_id),
    attempt_id  TEXT REFERENCES attempts (attempt_id),
    agent       TEXT NOT NULL,
    tool        TEXT NOT NULL,
    -- What it says of the task, in the tool's own word.
    status      TEXT,
    body        TEXT NOT NULL,
    -- What is odd about it, as a JSON array of sentences.
    warnings    TEXT,
    reported_at INTEGER NOT NULL
) STRICT;
CREATE INDEX reports_by_task ON reports (task_id, report_id) WHERE task_id IS NOT NULL;

-- What somebody has to see to.
CREATE TABLE tickets (
    ticket_id      TEXT PRIMARY KEY,
    project_id     TEXT NOT NULL REFERENCES projects (project_id),
    handle         TEXT NOT NULL,
    -- 'ticket', 'investigation', 'blocker' or 'alert' (a person is to see it).
    kind           TEXT NOT NULL,
    title          TEXT NOT NULL,
    description    TEXT,
    priority       TEXT NOT NULL,
    status         TEXT NOT NULL,
    -- The task whose doing resolves it.
    task_id        TEXT REFERENCES tasks (task_id),
    -- The task that waits for it.
    blocks_task_id TEXT REFERENCES tasks (task_id),
    attempt_id     TEXT REFERENCES attempts (attempt_id),
    agent          TEXT NOT NULL,
    resolution     TEXT,
    -- Who resolved it: 'person' or 'orchestrator'; NULL where a task did.
    resolved_by    TEXT,
    opened_at      INTEGER NOT NULL,
    resolved_at    INTEGER,
    UNIQUE (project_id, handle)
) STRICT;
CREATE INDEX open_tickets ON tickets (project_id, ticket_id) WHERE status = 'open';
CREATE INDEX tickets_resolved_by ON tickets (task_id) WHERE status = 'open';
CREATE INDEX blocking_tickets ON tickets (blocks_task_id) WHERE status = 'open';

CREATE TABLE notes (
    note_id    TEXT PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (project_id),
    handle     TEXT NOT NULL,
    -- 'observation' or 'issue'.
    kind       TEXT NOT NULL,
    -- The task in which it was found.
    task_id    TEXT REFERENCES tasks (task_id),
    text       TEXT NOT NULL,
    -- The worker's word for what it is.
    category   TEXT,
    severity   TEXT NOT NULL,
    -- All that was said of it.
    report_id  TEXT REFERENCES reports (report_id),
    -- The task that was made of it.
    new_task   TEXT REFERENCES tasks (task_id),
    -- The alert that it raised.
    alert      TEXT REFERENCES tickets (ticket_id),
    noted_at   INTEGER NOT NULL,
    UNIQUE (project_id, handle)
) STRICT;
CREATE INDEX notes_by_task ON notes (task_id) WHERE task_id IS NOT NULL;
-- What was kept of a report under a handle.
CREATE INDEX notes_by_report ON notes (report_id) WHERE report_id IS NOT NULL;

CREATE TABLE failures (
    failure_id    TEXT PRIMARY KEY,
    project_id    TEXT NOT NULL REFERENCES projects (project_id),
    handle        TEXT NOT NULL,
    -- The task in which it failed.
    task_id       TEXT NOT NULL REFERENCES tasks (task_id),
    report_id     TEXT NOT NULL REFERENCES reports (report_id),
    test_name     TEXT NOT NULL,
    test_file     TEXT NOT NULL,
    -- The error without what differs from run to run.
    signature     TEXT NOT NULL,
    -- The task that finds out why, once there is one.
    investigation TEXT REFERENCES tasks (task_id),
    failed_at     INTEGER NOT NULL,
    -- The alert that a test failure raised.
    alert         TEXT REFERENCES tickets (ticket_id),
    UNIQUE (project_id, handle)
) STRICT;
CREATE INDEX failures_by_test ON failures (project_id, test_file, test_name);
CREATE INDEX failures_by_signature ON failures (project_id, signature);
CREATE INDEX failures_by_report ON failures (report_id);
CREATE INDEX failures_by_alert ON failures (alert) WHERE alert IS NOT NULL;

CREATE TABLE check_runs (
    -- In the order of the reports.
    run_id        TEXT PRIMARY KEY,
    task_id       TEXT NOT NULL REFERENCES tasks (task_id),
    -- From within which it was reported: it is told of checks that did not pass.
    attempt_id    TEXT REFERENCES attempts (attempt_id),
    -- The commits and the checks to be run on them, as JSON arrays.
    repos         TEXT NOT NULL,
    checks        TEXT NOT NULL,
    -- 1: nothing is other than at the merge base; NULL: it is not known.
    is_empty_diff INTEGER,
    -- 1: the report says that its tests passed.
    claims_passed INTEGER NOT NULL,
    -- 'verified', 'rework', or 'overruled' (the task was changed meanwhile).
    verdict       TEXT,
    planned_at    INTEGER NOT NULL,
    -- NULL: something is left to be done.
    closed_at     INTEGER,
    -- The finish whose result is checked. Such a run touches no task.
    finish_id     TEXT REFERENCES finishes (finish_id),
    -- The host that the repositories are on: its daemon takes the run up.
    host          TEXT NOT NULL DEFAULT 'local'
) STRICT;
CREATE INDEX check_runs_by_task ON check_runs (task_id, run_id);
CREATE INDEX open_check_runs ON check_runs (run_id) WHERE closed_at IS NULL;
CREATE INDEX check_runs_by_attempt ON check_runs (attempt_id, run_id) WHERE attempt_id IS NOT NULL;

CREATE TABLE receipts (
    run_id      TEXT NOT NULL REFERENCES check_runs (run_id),
    -- The check's.
    name        TEXT NOT NULL,
    command     TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    reason      TEXT,
    exit_code   INTEGER,
    exit_signal INTEGER,
    duration_ms INTEGER NOT NULL,
    -- The folder of its output.
    log         TEXT,
    ended_at    INTEGER NOT NULL,
    -- What held a check, as its shim set it: JSON. NULL: it had no box, or was not run.
    sandbox     TEXT,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE plans (
    plan_id      INTEGER PRIMARY KEY,
    project_id   TEXT NOT NULL REFERENCES projects (project_id),
    name         TEXT NOT NULL,
    version      TEXT NOT NULL,
    -- Of all documents: the same plan again changes nothing.
    content_hash TEXT NOT NULL,
    sections     INTEGER NOT NULL,
    added_at     INTEGER NOT NULL,
    -- Which version of the indexing made the plan's index; an older one is made anew.
    index_version INTEGER NOT NULL DEFAULT 0,
    UNIQUE (project_id, name, version)
) STRICT;

CREATE TABLE plan_documents (
    document_id INTEGER PRIMARY KEY,
    plan_id     INTEGER NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    -- Its path, as it is told to those who ask.
    source      TEXT NOT NULL,
    content     TEXT NOT NULL,
    UNIQUE (plan_id, source)
) STRICT;

CREATE TABLE plan_sections (
    section_id  INTEGER PRIMARY KEY,
    plan_id     INTEGER NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    document_id INTEGER NOT NULL REFERENCES plan_documents (document_id) ON DELETE CASCADE,
    breadcrumb  TEXT NOT NULL,
    heading     TEXT NOT NULL,
    above       TEXT NOT NULL,
    -- What can be quoted, with its lines, as JSON; a quote is left out where it is that
    -- of the passage before.
    passages    TEXT NOT NULL
) STRICT;
CREATE INDEX plan_sections_by_plan ON plan_sections (plan_id, section_id);
CREATE INDEX plan_sections_by_document ON plan_sections (document_id);

CREATE TABLE questions (
    question_id TEXT PRIMARY KEY,
    project_id  TEXT NOT NULL REFERENCES projects (project_id),
    handle      TEXT NOT NULL,
    question    TEXT NOT NULL,
    -- Its words alone: the same question is known again by them.
    normal      TEXT NOT NULL,
    -- What the asker told beside it, as JSON.
    context     TEXT,
    priority    TEXT NOT NULL,
    -- 'open' or 'answered'.
    status      TEXT NOT NULL,
    answer      TEXT,
    -- 'person', 'orchestrator', or the executor that was asked.
    answered_by TEXT,
    -- The task by which an executor is asked.
    answer_task TEXT REFERENCES tasks (task_id),
    asked_at    INTEGER NOT NULL,
    answered_at INTEGER,
    -- The host whose daemon took the call that asked it.
    host        TEXT NOT NULL DEFAULT 'local',
    UNIQUE (project_id, handle)
) STRICT;
CREATE INDEX questions_by_text ON questions (project_id, normal);
CREATE INDEX open_questions ON questions (project_id, question_id) WHERE status = 'open';
CREATE INDEX questions_by_answer_task ON questions (answer_task) WHERE answer_task IS NOT NULL;

-- Who asked, and whether the answer has come to them.
CREATE TABLE question_askers (
    question_id TEXT NOT NULL REFERENCES questions (question_id),
    agent       TEXT NOT NULL,
    attempt_id  TEXT REFERENCES attempts (attempt_id),
    task_id     TEXT REFERENCES tasks (task_id),
    -- 'due'; 'sending': a follow-up carries it; 'told'.
    delivery    TEXT NOT NULL,
    -- Until then a call of theirs waits for it; milliseconds since 1970.
    waits_until INTEGER,
    PRIMARY KEY (question_id, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX due_answers ON question_askers (agent) WHERE delivery <> 'told';

-- A row is section_id * 64 + the passage's number in its section. `plan` holds `p` and the
-- plan's id; `place` holds the words of the headings above.
CREATE VIRTUAL TABLE plan_passages USING fts5 (
    plan, place, said,
    content = '', contentless_delete = 1, detail = full,
    tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE finishes (
    finish_id  TEXT PRIMARY KEY,
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- What is to be done, with every default resolved, as JSON.
    request    TEXT NOT NULL,
    -- 'open', 'done', 'conflicts', 'checks_failed', or 'refused'.
    state      TEXT NOT NULL,
    -- What has been done so far, as JSON: a finish that was cut off goes on from here.
    receipt    TEXT NOT NULL,
    -- Why it was refused, as JSON.
    error      TEXT,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    -- A finish that applies work to an attempt of another host: the host that does so, once it has begun, and
    -- when it had done its part. Then the host of the finished attempt ends it.
    applied_by TEXT,
    applied_at INTEGER
) STRICT;
CREATE UNIQUE INDEX open_finishes ON finishes (attempt_id) WHERE state = 'open';
CREATE INDEX finishes_by_attempt ON finishes (attempt_id);

CREATE TABLE turn_snapshots (
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    turn       INTEGER NOT NULL,
    -- The repository's name in the attempt.
    repo       TEXT NOT NULL,
    commit_id  TEXT NOT NULL,
    tree_id    TEXT NOT NULL,
    -- The merge base with the target branch at that time: "turn 0".
    base_id    TEXT NOT NULL,
    made_at    INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, turn, repo)
) STRICT, WITHOUT ROWID;

-- Whether the newest snapshots of two attempts, or of one and its target branch, merge.
CREATE TABLE probes (
    attempt_id   TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- The other attempt, whose id is the larger one of the two; '': the target branch.
    other_id     TEXT NOT NULL,
    -- The repository's path.
    repo         TEXT NOT NULL,
    commit_id    TEXT NOT NULL,
    other_commit TEXT NOT NULL,
    -- The merged tree; with conflict markers where there are conflicts.
    tree_id      TEXT NOT NULL,
    -- The first paths in conflict, as a JSON array, and how many there are; 0: they merge.
    paths        TEXT NOT NULL,
    path_count   INTEGER NOT NULL,
    PRIMARY KEY (attempt_id, other_id, repo)
) STRICT, WITHOUT ROWID;
CREATE INDEX probes_by_other ON probes (other_id);

CREATE TABLE ports (
    -- The first port of the block.
    first_port INTEGER PRIMARY KEY,
    attempt_id TEXT NOT NULL UNIQUE REFERENCES attempts (attempt_id),
    taken_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE trust (
    -- The repository's path.
    repo        TEXT NOT NULL,
    -- Of all commands of its provost.toml.
    hash        TEXT NOT NULL,
    -- The commands, as they were shown.
    commands    TEXT NOT NULL,
    approved_at INTEGER NOT NULL,
    approved_by TEXT NOT NULL,
    PRIMARY KEY (repo, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE remotes (
    repo_id TEXT NOT NULL REFERENCES repos (repo_id),
    name    TEXT NOT NULL,
    url     TEXT NOT NULL,
    PRIMARY KEY (repo_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE reviews (
    review_id    TEXT PRIMARY KEY,
    attempt_id   TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- The follow-up: it has a row of follow_ups while it waits, and then a process.
    queue_id     TEXT NOT NULL UNIQUE,
    message      TEXT,
    submitted_at INTEGER NOT NULL
) STRICT;
CREATE INDEX reviews_by_attempt ON reviews (attempt_id, review_id);

CREATE TABLE comments (
    comment_id TEXT PRIMARY KEY,
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- The repository's name in the attempt.
    repo       TEXT NOT NULL,
    -- <repo>/<path>, as the change is listed.
    path       TEXT NOT NULL,
    -- The same of the version that is commented on, which a rename gave another name.
    file       TEXT NOT NULL,
    side       TEXT NOT NULL,
    first_line INTEGER NOT NULL,
    last_line  INTEGER NOT NULL,
    -- The turn whose snapshot has the change.
    turn       INTEGER NOT NULL,
    blob_id    TEXT NOT NULL,
    -- The text of the lines, cut.
    quoted     TEXT NOT NULL,
    text       TEXT NOT NULL,
    -- draft, sent or resolved. What came after sent is seen by the follow-up and the snapshots.
    state      TEXT NOT NULL,
    -- Counts the changes of a draft.
    version    INTEGER NOT NULL,
    review_id  TEXT REFERENCES reviews (review_id),
    author     TEXT NOT NULL,
    -- The attempt inside which it was written.
    author_id  TEXT REFERENCES attempts (attempt_id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX comments_by_attempt ON comments (attempt_id, comment_id);
CREATE INDEX comments_by_review ON comments (review_id) WHERE review_id IS NOT NULL;

CREATE TABLE users (
    name       TEXT PRIMARY KEY,
    access     TEXT NOT NULL CHECK (access IN ('read', 'write', 'admin')),
    -- SHA-256 of the token, in base64url: the token itself is nowhere.
    token_hash TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

-- Links that log a browser in, once.
CREATE TABLE login_links (
    code_hash  TEXT PRIMARY KEY,
    user       TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Browsers that are logged in.
CREATE TABLE logins (
    cookie_hash TEXT PRIMARY KEY,
    user        TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The last change of each object that a page shows, by one sequence of numbers. Triggers write
-- it, so that no change lacks its number and none has one before it is committed. An object that
-- is deleted keeps its row.
CREATE TABLE changes (
    topic  TEXT NOT NULL,
    id     TEXT NOT NULL,
    number INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (topic, id)
) STRICT, WITHOUT ROWID;

-- The machines that attempts run on, each with a daemon that has registered it.
CREATE TABLE hosts (
    host_id       TEXT PRIMARY KEY,
    -- Counts its registrations.
    incarnation   INTEGER NOT NULL,
    -- JSON: an array of words.
    labels        TEXT NOT NULL,
    -- Attempts that it runs at once.
    slots         INTEGER NOT NULL,
    -- Of the machine, in bytes.
    memory        INTEGER NOT NULL,
    version       TEXT NOT NULL,
    -- 'active', or 'draining': nothing new begins on it.
    state         TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    renewed_at    INTEGER NOT NULL,
    -- NULL: its home's own lock is the lease, and nothing is renewed.
    lease_until   INTEGER,
    -- When another daemon has given this host's attempts away, because its lease was over: nothing of
    -- this incarnation may write any more. The next registration clears it.
    fenced_at     INTEGER,
    -- 'all', 'gateway': it runs no attempts, or 'worker': it serves its own attempts alone.
    role          TEXT NOT NULL DEFAULT 'all',
    -- When the daemon of the host ended with nothing running; its next registration clears it.
    ended_at      INTEGER
) STRICT;

-- Calls that the daemon of one host has the daemon of another one carry out. A row is deleted once
-- its answer is old.
CREATE TABLE host_calls (
    call_id     TEXT PRIMARY KEY,
    -- The host that carries it out, and the one whose daemon waits for the answer.
    host        TEXT NOT NULL,
    asked_by    TEXT NOT NULL,
    -- JSON: the tool or method, the caller as the asking daemon knows it, the arguments and the
    -- client's id of the call.
    call        TEXT NOT NULL,
    asked_at    INTEGER NOT NULL,
    -- It is not taken after that.
    deadline    INTEGER NOT NULL,
    -- The incarnation of the host that has taken it: a later one takes it again.
    taken_by    INTEGER,
    -- JSON.
    answer      TEXT,
    answered_at INTEGER
) STRICT;
CREATE INDEX open_host_calls ON host_calls (host) WHERE answered_at IS NULL;

-- What the daemons of a board have in common: one row.
CREATE TABLE cluster (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    -- Made once, so that a home knows its board again.
    board_id        TEXT NOT NULL,
    -- Counts the restorations of the board from a backup.
    generation      INTEGER NOT NULL,
    -- When a host renewed its lease last: a gap shows that the engine was away.
    seen_at         INTEGER NOT NULL,
    -- No host counts as lost before that: after a gap, each host gets the time to renew its lease.
    no_sweep_before INTEGER NOT NULL
) STRICT;
INSERT INTO cluster (one, board_id, generation, seen_at, no_sweep_before)
VALUES (1, lower(hex(randomblob(16))), 1, 0, 0);

CREATE TABLE repo_hosts (
    repo_id TEXT NOT NULL REFERENCES repos (repo_id),
    host    TEXT NOT NULL,
    PRIMARY KEY (repo_id, host)
) STRICT, WITHOUT ROWID;

-- The snapshot of an attempt's newest turn, with all commits since the attempt's base commit.
CREATE TABLE turn_bundles (
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- The repository's name in the attempt.
    repo       TEXT NOT NULL,
    turn       INTEGER NOT NULL,
    commit_id  TEXT NOT NULL,
    -- The commit that a repository has to have before; NULL: it holds the whole history.
    needs      TEXT,
    -- Of the content; NULL: it has more bytes than are kept.
    sha256     TEXT,
    bytes      INTEGER NOT NULL,
    -- What a remote has of the snapshots of turns.
    -- 'due': nothing yet; 'failed': nothing yet, and the attempt's log says why; 'there'; 'unwanted': it is to
    -- be removed there; 'removed'.
    pushed     TEXT NOT NULL DEFAULT 'due',
    -- The remote's name, once a push has begun.
    remote     TEXT,
    PRIMARY KEY (attempt_id, repo)
) STRICT, WITHOUT ROWID;
CREATE INDEX pushes ON turn_bundles (pushed);

-- Commits that attempts begin from and that no remote has.
CREATE TABLE base_bundles (
    repo_id    TEXT NOT NULL REFERENCES repos (repo_id),
    commit_id  TEXT NOT NULL,
    needs      TEXT,
    sha256     TEXT,
    bytes      INTEGER NOT NULL,
    made_at    INTEGER NOT NULL,
    PRIMARY KEY (repo_id, commit_id)
) STRICT, WITHOUT ROWID;

-- The contents, in base64 and in parts, so that none is held in memory whole.
CREATE TABLE bundle_parts (
    sha256  TEXT NOT NULL,
    part    INTEGER NOT NULL,
    content TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (sha256, part)
) STRICT, WITHOUT ROWID;

-- The copies of attempts' logs, of a board that hosts share: what a host has shipped outlives it. A
-- file's board has none. No trigger counts changes of these tables.
CREATE TABLE shipped_logs (
    attempt_id       TEXT NOT NULL REFERENCES attempts (attempt_id),
    -- 'normalized' or 'raw'.
    channel          TEXT NOT NULL,
    -- The host whose log it is of, and what proves its home: host_homes.secret.
    host             TEXT NOT NULL,
    home             TEXT NOT NULL,
    -- The entries that it has: from this one on, to before the next.
    oldest           INTEGER NOT NULL,
    next_entry       INTEGER NOT NULL,
    -- Bytes of text before that.
    next_offset      INTEGER NOT NULL,
    last_activity_at INTEGER,
    shipped_at       INTEGER NOT NULL,
    -- 1: the copy has been cut down to its end since the last shipment, because it was old.
    trimmed          INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (attempt_id, channel)
) STRICT;
CREATE INDEX untrimmed_logs ON shipped_logs (shipped_at) WHERE trimmed = 0;

-- Runs of entries, as they are on file at their host.
CREATE TABLE log_chunks (
    attempt_id   TEXT NOT NULL,
    channel      TEXT NOT NULL,
    first_entry  INTEGER NOT NULL,
    first_offset INTEGER NOT NULL,
    entries      INTEGER NOT NULL,
    -- Length of the text.
    bytes        INTEGER NOT NULL,
    -- The text: a frame of zstd in base64.
    data         TEXT NOT NULL,
    PRIMARY KEY (attempt_id, channel, first_entry)
) STRICT;

-- What proves that a registration comes from the same home.
CREATE TABLE host_homes (
    host_id TEXT PRIMARY KEY REFERENCES hosts (host_id) ON DELETE CASCADE,
    -- Hash of what the home holds.
    secret  TEXT NOT NULL
) STRICT;

-- Who has a task in hand now: a live lease, or a live attempt of the task itself.
CREATE VIEW task_holders AS
SELECT l.task_id, l.agent, l.attempt_id
FROM leases l LEFT JOIN attempts a ON a.attempt_id = l.attempt_id
WHERE a.phase IN ('queued', 'preparing', 'running', 'stopping')
   OR (l.attempt_id IS NULL AND l.expires_at > unixepoch('subsec') * 1000)
UNION
SELECT task_id, attempt_id, attempt_id FROM attempts
WHERE phase IN ('queued', 'preparing', 'running', 'stopping');

-- A task that is on the board, with its latest attempt and that one's session.
CREATE VIEW task_overview AS
SELECT t.task_id, t.project_id, t.handle, t.title, t.description, t.status, t.priority, t.kind,
       t.brief, t.standing, t.created_at, t.updated_at, a.attempt_id, a.branch, a.state,
       s.session_id, s.executor AS session_executor,
       EXISTS (SELECT 1 FROM attempts r
               WHERE r.task_id = t.task_id AND r.state = 'running') AS in_progress
FROM tasks t
LEFT JOIN attempts a ON a.attempt_id = (
    SELECT attempt_id FROM attempts WHERE task_id = t.task_id
    ORDER BY created_at DESC, attempt_id ASC LIMIT 1)
LEFT JOIN sessions s ON s.session_id = (
    SELECT session_id FROM sessions WHERE attempt_id = a.attempt_id
    ORDER BY session_id DESC LIMIT 1)
WHERE t.deleted_at IS NULL;

-- The newest snapshots of the attempts whose work is still to be merged: their tasks are open, and
-- they were not merged or discarded since their last turn.
CREATE VIEW contestants AS
SELECT n.attempt_id, n.commit_id, n.base_id, n.made_at, a.folder, r.path, r.name AS repo_name, r.position,
       r.target_branch
FROM turn_snapshots n
JOIN attempts a ON a.attempt_id = n.attempt_id
JOIN tasks t ON t.task_id = a.task_id
JOIN attempt_repos r ON r.attempt_id = n.attempt_id AND r.name = n.repo
WHERE n.turn = (SELECT max(m.turn) FROM turn_snapshots m WHERE m.attempt_id = n.attempt_id)
  AND t.deleted_at IS NULL AND t.status NOT IN ('done', 'cancelled') AND t.kind <> 'answer'
  AND NOT EXISTS (
      SELECT 1 FROM finishes f
      WHERE f.attempt_id = n.attempt_id AND f.state = 'done'
        AND f.request ->> 'action' IN ('merge', 'discard')
        AND f.created_at >= (SELECT coalesce(max(x.ended_at), 0) FROM processes x
                             WHERE x.attempt_id = n.attempt_id
                               AND x.run_reason = 'coding_agent'));

-- An attempt with what it belongs to, its latest session, its latest process
-- (`x`: begun, or about to be), its latest turn (`n`: also one that waits for a
-- slot) and the latest turn that has ended (`f`). Scripts are no turns. It waits for
-- no approval that is of the attempt.
CREATE VIEW attempt_overview AS
SELECT a.attempt_id, a.task_id, t.title, t.project_id, p.name AS project_name, a.branch,
       a.executor, a.state, a.phase, a.created_at, a.updated_at, a.revision, a.settled_revision,
       a.queue_held, a.host,
       (SELECT count(*) FROM follow_ups q WHERE q.session_id = s.session_id) AS queued_follow_ups,
       (SELECT count(*) FROM approvals v
        WHERE v.attempt_id = a.attempt_id AND v.status = 'pending' AND v.of_attempt = 0)
           AS pending_approvals,
       CASE WHEN a.phase = 'settled' THEN f.quota END AS quota,
       CASE WHEN a.phase = 'settled' THEN f.resume_at END AS resume_at,
       s.session_id, s.executor AS session_executor,
       n.variant, x.process_id, x.exit_code, x.exit_signal, x.failure_summary, f.final_message,
       coalesce(x.usage, f.usage) AS usage, x.limits
FROM attempts a
JOIN tasks t ON t.task_id = a.task_id
JOIN projects p ON p.project_id = t.project_id
LEFT JOIN sessions s ON s.session_id = (
    SELECT session_id FROM sessions WHERE attempt_id = a.attempt_id
    ORDER BY session_id DESC LIMIT 1)
LEFT JOIN processes n ON n.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
    ORDER BY turn DESC, process_id DESC LIMIT 1)
LEFT JOIN processes x ON x.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent'
      AND (status <> 'planned' OR a.phase IN ('preparing', 'running', 'stopping'))
    ORDER BY turn DESC, process_id DESC LIMIT 1)
LEFT JOIN processes f ON f.process_id = (
    SELECT process_id FROM processes
    WHERE attempt_id = a.attempt_id AND run_reason = 'coding_agent' AND ended_at IS NOT NULL
    ORDER BY turn DESC, process_id DESC LIMIT 1);

-- What runs, on all hosts, of the executors of work.
CREATE VIEW running_attempts AS
    SELECT a.host, a.executor
    FROM attempts a JOIN tasks t ON t.task_id = a.task_id
    WHERE a.phase IN ('queued', 'preparing', 'running', 'stopping') AND a.host <> ''
      AND (a.phase <> 'queued' OR a.admitted_epoch = a.epoch) AND t.kind <> 'answer';

CREATE TRIGGER projects_insert_changes_project AFTER INSERT ON projects BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', NEW.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER projects_update_changes_project AFTER UPDATE ON projects BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', NEW.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER projects_delete_changes_project AFTER DELETE ON projects BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', OLD.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER repos_insert_changes_project AFTER INSERT ON repos BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', NEW.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER repos_update_changes_project AFTER UPDATE ON repos BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', NEW.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER repos_delete_changes_project AFTER DELETE ON repos BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'project', OLD.project_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tasks_insert_changes_task AFTER INSERT ON tasks BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tasks_update_changes_task AFTER UPDATE ON tasks BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tasks_delete_changes_task AFTER DELETE ON tasks BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', OLD.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER task_dependencies_insert_changes_task AFTER INSERT ON task_dependencies BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER task_dependencies_delete_changes_task AFTER DELETE ON task_dependencies BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', OLD.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER attempts_insert_changes_attempt AFTER INSERT ON attempts BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER attempts_update_changes_attempt AFTER UPDATE ON attempts BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER attempts_delete_changes_attempt AFTER DELETE ON attempts BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', OLD.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER turn_snapshots_insert_changes_attempt AFTER INSERT ON turn_snapshots BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER finishes_insert_changes_attempt AFTER INSERT ON finishes BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER finishes_update_changes_attempt AFTER UPDATE ON finishes BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER check_runs_insert_changes_task AFTER INSERT ON check_runs BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER check_runs_update_changes_task AFTER UPDATE ON check_runs BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'task', NEW.task_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER approvals_insert_changes_inbox AFTER INSERT ON approvals BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.approval_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER approvals_update_changes_inbox AFTER UPDATE ON approvals BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.approval_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER questions_insert_changes_inbox AFTER INSERT ON questions BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.question_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER questions_update_changes_inbox AFTER UPDATE ON questions BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.question_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tickets_insert_changes_inbox AFTER INSERT ON tickets BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.ticket_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER tickets_update_changes_inbox AFTER UPDATE ON tickets BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.ticket_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER notes_insert_changes_inbox AFTER INSERT ON notes BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.note_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER failures_insert_changes_inbox AFTER INSERT ON failures BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'inbox', NEW.failure_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

-- A comment is a part of its attempt.
CREATE TRIGGER comments_insert_changes_attempt AFTER INSERT ON comments BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER comments_update_changes_attempt AFTER UPDATE ON comments BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', NEW.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER comments_delete_changes_attempt AFTER DELETE ON comments BEGIN
    INSERT INTO changes (topic, id, number)
    SELECT 'attempt', OLD.attempt_id, 1 + coalesce(max(number), 0) FROM changes WHERE true
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
END;

CREATE TRIGGER attempts_placed AFTER UPDATE OF host ON attempts WHEN NEW.host <> OLD.host BEGIN
    UPDATE attempts SET placed_epoch = NEW.epoch WHERE attempt_id = NEW.attempt_id;
END;
