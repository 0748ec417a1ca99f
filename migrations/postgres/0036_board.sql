-- The schema of a board on a server: that of a file, whose migration says what each column holds. Later
-- migrations come in pairs, one for each engine under the same number.
--
-- What SQLite has as INTEGER is a BIGINT, also where it is 0 or 1, so that the statements are one
-- text for both. Texts are compared byte by byte, as SQLite does.

CREATE TABLE projects (
    project_id TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);

CREATE TABLE repos (
    repo_id               TEXT COLLATE "C" PRIMARY KEY,
    project_id            TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    name                  TEXT COLLATE "C" NOT NULL,
    path                  TEXT COLLATE "C" NOT NULL,
    default_target_branch TEXT COLLATE "C" NOT NULL,
    created_at            BIGINT NOT NULL,
    UNIQUE (project_id, name)
);

CREATE TABLE tasks (
    task_id        TEXT COLLATE "C" PRIMARY KEY,
    project_id     TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    title          TEXT COLLATE "C" NOT NULL,
    description    TEXT COLLATE "C",
    status         TEXT COLLATE "C" NOT NULL,
    priority       TEXT COLLATE "C" NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    deleted_at     BIGINT,
    handle         TEXT COLLATE "C",
    kind           TEXT COLLATE "C" NOT NULL DEFAULT 'work',
    about          TEXT COLLATE "C" REFERENCES tasks (task_id),
    reason         TEXT COLLATE "C",
    brief          TEXT COLLATE "C",
    standing       TEXT COLLATE "C",
    blocked_reason TEXT COLLATE "C",
    progress       BIGINT,
    begun_revision BIGINT
);
CREATE INDEX tasks_by_project ON tasks (project_id, task_id);
CREATE UNIQUE INDEX tasks_by_handle ON tasks (project_id, handle);
CREATE INDEX open_tasks ON tasks (project_id, task_id)
WHERE status NOT IN ('done', 'cancelled') AND deleted_at IS NULL;
CREATE INDEX tasks_about ON tasks (about) WHERE about IS NOT NULL;
CREATE INDEX closed_tasks ON tasks (updated_at, project_id, kind, status, standing)
WHERE status IN ('done', 'cancelled') AND deleted_at IS NULL;
CREATE INDEX verified_tasks ON tasks (project_id, task_id)
WHERE status = 'done' AND standing = 'verified' AND deleted_at IS NULL;

CREATE TABLE task_dependencies (
    task_id    TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id),
    depends_on TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id),
    PRIMARY KEY (task_id, depends_on)
);
CREATE INDEX task_dependents ON task_dependencies (depends_on);

CREATE TABLE attempts (
    attempt_id       TEXT COLLATE "C" PRIMARY KEY,
    task_id          TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id),
    branch           TEXT COLLATE "C" NOT NULL,
    folder           TEXT COLLATE "C" NOT NULL,
    executor         TEXT COLLATE "C" NOT NULL,
    phase            TEXT COLLATE "C" NOT NULL,
    state            TEXT COLLATE "C" NOT NULL,
    epoch            BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    queue_held       BIGINT NOT NULL DEFAULT 0,
    revision         BIGINT NOT NULL DEFAULT 0,
    settled_revision BIGINT NOT NULL DEFAULT 0,
    parent_id        TEXT COLLATE "C" REFERENCES attempts (attempt_id),
    forked_from      TEXT COLLATE "C" REFERENCES attempts (attempt_id),
    forked_turn      BIGINT,
    host             TEXT NOT NULL DEFAULT 'local',
    labels           TEXT NOT NULL DEFAULT '[]',
    placed_epoch     BIGINT NOT NULL DEFAULT 0,
    memory           BIGINT NOT NULL DEFAULT 0,
    admitted_epoch   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX attempts_by_task ON attempts (task_id, created_at);
CREATE INDEX attempts_by_phase ON attempts (phase);
CREATE INDEX attempts_by_revision ON attempts (revision);
CREATE INDEX attempts_by_parent ON attempts (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX unplaced_attempts ON attempts (created_at) WHERE host = '';

CREATE TABLE attempt_repos (
    attempt_id    TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    position      BIGINT NOT NULL,
    repo_id       TEXT COLLATE "C" NOT NULL REFERENCES repos (repo_id),
    name          TEXT COLLATE "C" NOT NULL,
    path          TEXT COLLATE "C" NOT NULL,
    target_branch TEXT COLLATE "C" NOT NULL,
    base_commit   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (attempt_id, position)
);

CREATE TABLE sessions (
    session_id          TEXT COLLATE "C" PRIMARY KEY,
    attempt_id          TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    executor            TEXT COLLATE "C" NOT NULL,
    executor_session_id TEXT COLLATE "C",
    created_at          BIGINT NOT NULL
);
CREATE INDEX sessions_by_attempt ON sessions (attempt_id, session_id);

CREATE TABLE processes (
    process_id      TEXT COLLATE "C" PRIMARY KEY,
    session_id      TEXT COLLATE "C" NOT NULL REFERENCES sessions (session_id),
    attempt_id      TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    run_reason      TEXT COLLATE "C" NOT NULL,
    turn            BIGINT NOT NULL,
    prompt          TEXT COLLATE "C" NOT NULL,
    variant         TEXT COLLATE "C",
    status          TEXT COLLATE "C" NOT NULL,
    pid             BIGINT,
    start_time      BIGINT,
    boot_id         TEXT COLLATE "C",
    exit_code       BIGINT,
    exit_signal     BIGINT,
    failure_summary TEXT COLLATE "C",
    final_message   TEXT COLLATE "C",
    usage           TEXT COLLATE "C",
    created_at      BIGINT NOT NULL,
    ended_at        BIGINT,
    closed          BIGINT NOT NULL DEFAULT 0,
    limits          TEXT COLLATE "C",
    quota           TEXT COLLATE "C",
    resume_at       BIGINT,
    snapshot_due    BIGINT NOT NULL DEFAULT 0,
    queue_id        TEXT COLLATE "C",
    sandbox         TEXT COLLATE "C",
    lost_host       TEXT,
    snapshot_failed TEXT,
    error_type      TEXT
);
CREATE INDEX processes_by_attempt ON processes (attempt_id, process_id);
CREATE INDEX processes_by_turn ON processes (attempt_id, turn, process_id);
CREATE INDEX resumable_processes ON processes (resume_at) WHERE quota = 'auto';
CREATE INDEX due_snapshots ON processes (attempt_id, turn) WHERE snapshot_due = 1;
CREATE INDEX processes_by_follow_up ON processes (queue_id) WHERE queue_id IS NOT NULL;
CREATE INDEX turns_by_end ON processes (ended_at) WHERE run_reason = 'coding_agent';

CREATE TABLE requests (
    tool          TEXT COLLATE "C" NOT NULL,
    request_id    TEXT COLLATE "C" NOT NULL,
    payload_hash  TEXT COLLATE "C" NOT NULL,
    answer        TEXT COLLATE "C",
    created_at    BIGINT NOT NULL,
    intent        TEXT COLLATE "C",
    resolved_hash TEXT COLLATE "C",
    host          TEXT NOT NULL DEFAULT 'local',
    PRIMARY KEY (tool, request_id)
);

CREATE TABLE follow_ups (
    position   BIGINT PRIMARY KEY,
    queue_id   TEXT COLLATE "C" NOT NULL UNIQUE,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (session_id),
    prompt     TEXT COLLATE "C" NOT NULL,
    variant    TEXT COLLATE "C",
    queued_at  BIGINT NOT NULL
);
CREATE INDEX follow_ups_by_session ON follow_ups (session_id, position);

CREATE TABLE approvals (
    approval_id TEXT COLLATE "C" PRIMARY KEY,
    attempt_id  TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    process_id  TEXT COLLATE "C" NOT NULL REFERENCES processes (process_id),
    request_key TEXT COLLATE "C" NOT NULL,
    request     TEXT COLLATE "C" NOT NULL,
    status      TEXT COLLATE "C" NOT NULL,
    reason      TEXT COLLATE "C",
    asked_at    BIGINT NOT NULL,
    expires_at  BIGINT,
    decided_at  BIGINT,
    of_attempt  BIGINT NOT NULL DEFAULT 0,
    UNIQUE (process_id, request_key)
);
CREATE INDEX approvals_by_attempt ON approvals (attempt_id, approval_id);
CREATE INDEX pending_approvals ON approvals (attempt_id, approval_id) WHERE status = 'pending';
CREATE UNIQUE INDEX approvals_of_attempts ON approvals (attempt_id, request_key)
    WHERE of_attempt = 1;

CREATE TABLE handles (
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    prefix     TEXT COLLATE "C" NOT NULL,
    last       BIGINT NOT NULL,
    PRIMARY KEY (project_id, prefix)
);

CREATE TABLE leases (
    task_id    TEXT COLLATE "C" PRIMARY KEY REFERENCES tasks (task_id),
    agent      TEXT COLLATE "C" NOT NULL,
    attempt_id TEXT COLLATE "C" REFERENCES attempts (attempt_id),
    taken_at   BIGINT NOT NULL,
    expires_at BIGINT
);
CREATE INDEX leases_by_attempt ON leases (attempt_id) WHERE attempt_id IS NOT NULL;

CREATE TABLE reports (
    report_id   TEXT COLLATE "C" PRIMARY KEY,
    project_id  TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    task_id     TEXT COLLATE "C" REFERENCES tasks (task_id),
    attempt_id  TEXT COLLATE "C" REFERENCES attempts (attempt_id),
    agent       TEXT COLLATE "C" NOT NULL,
    tool        TEXT COLLATE "C" NOT NULL,
    status      TEXT COLLATE "C",
    body        TEXT COLLATE "C" NOT NULL,
    warnings    TEXT COLLATE "C",
    reported_at BIGINT NOT NULL
);
CREATE INDEX reports_by_task ON reports (task_id, report_id) WHERE task_id IS NOT NULL;

CREATE TABLE tickets (
    ticket_id      TEXT COLLATE "C" PRIMARY KEY,
    project_id     TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    handle         TEXT COLLATE "C" NOT NULL,
    kind           TEXT COLLATE "C" NOT NULL,
    title          TEXT COLLATE "C" NOT NULL,
    description    TEXT COLLATE "C",
    priority       TEXT COLLATE "C" NOT NULL,
    status         TEXT COLLATE "C" NOT NULL,
    task_id        TEXT COLLATE "C" REFERENCES tasks (task_id),
    blocks_task_id TEXT COLLATE "C" REFERENCES tasks (task_id),
    attempt_id     TEXT COLLATE "C" REFERENCES attempts (attempt_id),
    agent          TEXT COLLATE "C" NOT NULL,
    resolution     TEXT COLLATE "C",
    resolved_by    TEXT COLLATE "C",
    opened_at      BIGINT NOT NULL,
    resolved_at    BIGINT,
    UNIQUE (project_id, handle)
);
CREATE INDEX open_tickets ON tickets (project_id, ticket_id) WHERE status = 'open';
CREATE INDEX tickets_resolved_by ON tickets (task_id) WHERE status = 'open';
CREATE INDEX blocking_tickets ON tickets (blocks_task_id) WHERE status = 'open';

CREATE TABLE notes (
    note_id    TEXT COLLATE "C" PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    handle     TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    task_id    TEXT COLLATE "C" REFERENCES tasks (task_id),
    text       TEXT COLLATE "C" NOT NULL,
    category   TEXT COLLATE "C",
    severity   TEXT COLLATE "C" NOT NULL,
    report_id  TEXT COLLATE "C" REFERENCES reports (report_id),
    new_task   TEXT COLLATE "C" REFERENCES tasks (task_id),
    alert      TEXT COLLATE "C" REFERENCES tickets (ticket_id),
    noted_at   BIGINT NOT NULL,
    UNIQUE (project_id, handle)
);
CREATE INDEX notes_by_task ON notes (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX notes_by_report ON notes (report_id) WHERE report_id IS NOT NULL;

CREATE TABLE failures (
    failure_id    TEXT COLLATE "C" PRIMARY KEY,
    project_id    TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    handle        TEXT COLLATE "C" NOT NULL,
    task_id       TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id),
    report_id     TEXT COLLATE "C" NOT NULL REFERENCES reports (report_id),
    test_name     TEXT COLLATE "C" NOT NULL,
    test_file     TEXT COLLATE "C" NOT NULL,
    signature     TEXT COLLATE "C" NOT NULL,
    investigation TEXT COLLATE "C" REFERENCES tasks (task_id),
    failed_at     BIGINT NOT NULL,
    alert         TEXT COLLATE "C" REFERENCES tickets (ticket_id),
    UNIQUE (project_id, handle)
);
CREATE INDEX failures_by_test ON failures (project_id, test_file, test_name);
CREATE INDEX failures_by_signature ON failures (project_id, signature);
CREATE INDEX failures_by_report ON failures (report_id);
CREATE INDEX failures_by_alert ON failures (alert) WHERE alert IS NOT NULL;

CREATE TABLE plans (
    plan_id       BIGINT PRIMARY KEY,
    project_id    TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    name          TEXT COLLATE "C" NOT NULL,
    version       TEXT COLLATE "C" NOT NULL,
    content_hash  TEXT COLLATE "C" NOT NULL,
    sections      BIGINT NOT NULL,
    added_at      BIGINT NOT NULL,
    index_version BIGINT NOT NULL DEFAULT 0,
    UNIQUE (project_id, name, version)
);

CREATE TABLE plan_documents (
    document_id BIGINT PRIMARY KEY,
    plan_id     BIGINT NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    source      TEXT COLLATE "C" NOT NULL,
    content     TEXT COLLATE "C" NOT NULL,
    UNIQUE (plan_id, source)
);

CREATE TABLE plan_sections (
    section_id  BIGINT PRIMARY KEY,
    plan_id     BIGINT NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    document_id BIGINT NOT NULL REFERENCES plan_documents (document_id) ON DELETE CASCADE,
    breadcrumb  TEXT COLLATE "C" NOT NULL,
    heading     TEXT COLLATE "C" NOT NULL,
    above       TEXT COLLATE "C" NOT NULL,
    passages    TEXT COLLATE "C" NOT NULL
);
CREATE INDEX plan_sections_by_plan ON plan_sections (plan_id, section_id);
CREATE INDEX plan_sections_by_document ON plan_sections (document_id);

CREATE TABLE questions (
    question_id TEXT COLLATE "C" PRIMARY KEY,
    project_id  TEXT COLLATE "C" NOT NULL REFERENCES projects (project_id),
    handle      TEXT COLLATE "C" NOT NULL,
    question    TEXT COLLATE "C" NOT NULL,
    normal      TEXT COLLATE "C" NOT NULL,
    context     TEXT COLLATE "C",
    priority    TEXT COLLATE "C" NOT NULL,
    status      TEXT COLLATE "C" NOT NULL,
    answer      TEXT COLLATE "C",
    answered_by TEXT COLLATE "C",
    answer_task TEXT COLLATE "C" REFERENCES tasks (task_id),
    asked_at    BIGINT NOT NULL,
    answered_at BIGINT,
    host        TEXT NOT NULL DEFAULT 'local',
    UNIQUE (project_id, handle)
);
CREATE INDEX questions_by_text ON questions (project_id, normal);
CREATE INDEX open_questions ON questions (project_id, question_id) WHERE status = 'open';
CREATE INDEX questions_by_answer_task ON questions (answer_task) WHERE answer_task IS NOT NULL;

CREATE TABLE question_askers (
    question_id TEXT COLLATE "C" NOT NULL REFERENCES questions (question_id),
    agent       TEXT COLLATE "C" NOT NULL,
    attempt_id  TEXT COLLATE "C" REFERENCES attempts (attempt_id),
    task_id     TEXT COLLATE "C" REFERENCES tasks (task_id),
    delivery    TEXT COLLATE "C" NOT NULL,
    waits_until BIGINT,
    PRIMARY KEY (question_id, agent)
);
CREATE INDEX due_answers ON question_askers (agent) WHERE delivery <> 'told';

CREATE TABLE finishes (
    finish_id  TEXT COLLATE "C" PRIMARY KEY,
    attempt_id TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    request    TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL,
    receipt    TEXT COLLATE "C" NOT NULL,
    error      TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    ended_at   BIGINT,
    applied_by TEXT COLLATE "C",
    applied_at BIGINT
);
CREATE UNIQUE INDEX open_finishes ON finishes (attempt_id) WHERE state = 'open';
CREATE INDEX finishes_by_attempt ON finishes (attempt_id);

CREATE TABLE check_runs (
    run_id        TEXT COLLATE "C" PRIMARY KEY,
    task_id       TEXT COLLATE "C" NOT NULL REFERENCES tasks (task_id),
    attempt_id    TEXT COLLATE "C" REFERENCES attempts (attempt_id),
    repos         TEXT COLLATE "C" NOT NULL,
    checks        TEXT COLLATE "C" NOT NULL,
    is_empty_diff BIGINT,
    claims_passed BIGINT NOT NULL,
    verdict       TEXT COLLATE "C",
    planned_at    BIGINT NOT NULL,
    closed_at     BIGINT,
    finish_id     TEXT COLLATE "C" REFERENCES finishes (finish_id),
    host          TEXT NOT NULL DEFAULT 'local'
);
CREATE INDEX check_runs_by_task ON check_runs (task_id, run_id);
CREATE INDEX open_check_runs ON check_runs (run_id) WHERE closed_at IS NULL;
CREATE INDEX check_runs_by_attempt ON check_runs (attempt_id, run_id) WHERE attempt_id IS NOT NULL;

CREATE TABLE receipts (
    run_id      TEXT COLLATE "C" NOT NULL REFERENCES check_runs (run_id),
    name        TEXT COLLATE "C" NOT NULL,
    command     TEXT COLLATE "C" NOT NULL,
    outcome     TEXT COLLATE "C" NOT NULL,
    reason      TEXT COLLATE "C",
    exit_code   BIGINT,
    exit_signal BIGINT,
    duration_ms BIGINT NOT NULL,
    log         TEXT COLLATE "C",
    ended_at    BIGINT NOT NULL,
    sandbox     TEXT COLLATE "C",
    PRIMARY KEY (run_id, name)
);

CREATE TABLE turn_snapshots (
    attempt_id TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    turn       BIGINT NOT NULL,
    repo       TEXT COLLATE "C" NOT NULL,
    commit_id  TEXT COLLATE "C" NOT NULL,
    tree_id    TEXT COLLATE "C" NOT NULL,
    base_id    TEXT COLLATE "C" NOT NULL,
    made_at    BIGINT NOT NULL,
    PRIMARY KEY (attempt_id, turn, repo)
);

CREATE TABLE probes (
    attempt_id   TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    other_id     TEXT COLLATE "C" NOT NULL,
    repo         TEXT COLLATE "C" NOT NULL,
    commit_id    TEXT COLLATE "C" NOT NULL,
    other_commit TEXT COLLATE "C" NOT NULL,
    tree_id      TEXT COLLATE "C" NOT NULL,
    paths        TEXT COLLATE "C" NOT NULL,
    path_count   BIGINT NOT NULL,
    PRIMARY KEY (attempt_id, other_id, repo)
);
CREATE INDEX probes_by_other ON probes (other_id);

CREATE TABLE ports (
    first_port BIGINT PRIMARY KEY,
    attempt_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES attempts (attempt_id),
    taken_at   BIGINT NOT NULL
);

CREATE TABLE trust (
    repo        TEXT COLLATE "C" NOT NULL,
    hash        TEXT COLLATE "C" NOT NULL,
    commands    TEXT COLLATE "C" NOT NULL,
    approved_at BIGINT NOT NULL,
    approved_by TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (repo, hash)
);

CREATE TABLE remotes (
    repo_id TEXT COLLATE "C" NOT NULL REFERENCES repos (repo_id),
    name    TEXT COLLATE "C" NOT NULL,
    url     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (repo_id, name)
);

CREATE TABLE reviews (
    review_id    TEXT COLLATE "C" PRIMARY KEY,
    attempt_id   TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    queue_id     TEXT COLLATE "C" NOT NULL UNIQUE,
    message      TEXT COLLATE "C",
    submitted_at BIGINT NOT NULL
);
CREATE INDEX reviews_by_attempt ON reviews (attempt_id, review_id);

CREATE TABLE comments (
    comment_id TEXT COLLATE "C" PRIMARY KEY,
    attempt_id TEXT COLLATE "C" NOT NULL REFERENCES attempts (attempt_id),
    repo       TEXT COLLATE "C" NOT NULL,
    path       TEXT COLLATE "C" NOT NULL,
    file       TEXT COLLATE "C" NOT NULL,
    side       TEXT COLLATE "C" NOT NULL,
    first_line BIGINT NOT NULL,
    last_line  BIGINT NOT NULL,
    turn       BIGINT NOT NULL,
    blob_id    TEXT COLLATE "C" NOT NULL,
    quoted     TEXT COLLATE "C" NOT NULL,
    text       TEXT COLLATE "C" NOT NULL,
    state      TEXT COLLATE "C" NOT NULL,
    version    BIGINT NOT NULL,
    review_id  TEXT COLLATE "C" REFERENCES reviews (review_id),
    author     TEXT COLLATE "C" NOT NULL,
    author_id  TEXT COLLATE "C" REFERENCES attempts (attempt_id),
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX comments_by_attempt ON comments (attempt_id, comment_id);
CREATE INDEX comments_by_review ON comments (review_id) WHERE review_id IS NOT NULL;

CREATE TABLE users (
    name       TEXT COLLATE "C" PRIMARY KEY,
    access     TEXT COLLATE "C" NOT NULL
        CHECK (access IN ('read', 'write', 'admin')),
    token_hash TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE TABLE login_links (
    code_hash  TEXT COLLATE "C" PRIMARY KEY,
    "user"     TEXT COLLATE "C" NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    expires_at BIGINT NOT NULL
);

CREATE TABLE logins (
    cookie_hash TEXT COLLATE "C" PRIMARY KEY,
    "user"      TEXT COLLATE "C" NOT NULL REFERENCES users (name) ON DELETE CASCADE,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL
);

CREATE TABLE changes (
    topic  TEXT COLLATE "C" NOT NULL,
    id     TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL UNIQUE,
    PRIMARY KEY (topic, id)
);

CREATE TABLE hosts (
    host_id       TEXT PRIMARY KEY,
    incarnation   BIGINT NOT NULL,
    labels        TEXT NOT NULL,
    slots         BIGINT NOT NULL,
    memory        BIGINT NOT NULL,
    version       TEXT NOT NULL,
    state         TEXT NOT NULL,
    registered_at BIGINT NOT NULL,
    renewed_at    BIGINT NOT NULL,
    lease_until   BIGINT,
    fenced_at     BIGINT,
    role          TEXT NOT NULL DEFAULT 'all',
    ended_at      BIGINT
);

CREATE TABLE host_homes (
    host_id TEXT PRIMARY KEY REFERENCES hosts (host_id) ON DELETE CASCADE,
    secret  TEXT NOT NULL
);

CREATE TABLE host_calls (
    call_id     TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    asked_by    TEXT NOT NULL,
    call        TEXT NOT NULL,
    asked_at    BIGINT NOT NULL,
    deadline    BIGINT NOT NULL,
    taken_by    BIGINT,
    answer      TEXT,
    answered_at BIGINT
);
CREATE INDEX open_host_calls ON host_calls (host) WHERE answered_at IS NULL;

CREATE TABLE cluster (
    one             BIGINT PRIMARY KEY CHECK (one = 1),
    board_id        TEXT NOT NULL,
    generation      BIGINT NOT NULL,
    seen_at         BIGINT NOT NULL,
    no_sweep_before BIGINT NOT NULL
);
INSERT INTO cluster (one, board_id, generation, seen_at, no_sweep_before)
VALUES (1, replace(CAST(gen_random_uuid() AS text), '-', ''), 1, 0, 0);

CREATE TABLE repo_hosts (
    repo_id TEXT NOT NULL REFERENCES repos (repo_id),
    host    TEXT NOT NULL,
    PRIMARY KEY (repo_id, host)
);

CREATE TABLE turn_bundles (
    attempt_id TEXT NOT NULL REFERENCES attempts (attempt_id),
    repo       TEXT NOT NULL,
    turn       BIGINT NOT NULL,
    commit_id  TEXT NOT NULL,
    needs      TEXT,
    sha256     TEXT,
    bytes      BIGINT NOT NULL,
    pushed     TEXT NOT NULL DEFAULT 'due',
    remote     TEXT,
    PRIMARY KEY (attempt_id, repo)
);
CREATE INDEX pushes ON turn_bundles (pushed);

CREATE TABLE base_bundles (
    repo_id   TEXT NOT NULL REFERENCES repos (repo_id),
    commit_id TEXT NOT NULL,
    needs     TEXT,
    sha256    TEXT,
    bytes     BIGINT NOT NULL,
    made_at   BIGINT NOT NULL,
    PRIMARY KEY (repo_id, commit_id)
);

CREATE TABLE bundle_parts (
    sha256  TEXT NOT NULL,
    part    BIGINT NOT NULL,
    content TEXT NOT NULL,
    made_at BIGINT NOT NULL,
    PRIMARY KEY (sha256, part)
);

CREATE TABLE shipped_logs (
    attempt_id       TEXT NOT NULL REFERENCES attempts (attempt_id),
    channel          TEXT NOT NULL,
    host             TEXT NOT NULL,
    home             TEXT NOT NULL,
    oldest           BIGINT NOT NULL,
    next_entry       BIGINT NOT NULL,
    next_offset      BIGINT NOT NULL,
    last_activity_at BIGINT,
    shipped_at       BIGINT NOT NULL,
    trimmed          BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (attempt_id, channel)
);
CREATE INDEX untrimmed_logs ON shipped_logs (shipped_at) WHERE trimmed = 0;

CREATE TABLE log_chunks (
    attempt_id   TEXT NOT NULL,
    channel      TEXT NOT NULL,
    first_entry  BIGINT NOT NULL,
    first_offset BIGINT NOT NULL,
    entries      BIGINT NOT NULL,
    bytes        BIGINT NOT NULL,
    data         TEXT NOT NULL,
    PRIMARY KEY (attempt_id, channel, first_entry)
);
-- It is compressed already.
ALTER TABLE log_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- A row is section_id * 64 + the passage's number in its section. The plan's word has the weight C
-- there, the words of the headings above B, and those of the passage A.
CREATE TABLE plan_passages (
    rowid BIGINT PRIMARY KEY,
    words tsvector NOT NULL,
    -- How many words there are.
    size  BIGINT NOT NULL
);
CREATE INDEX plan_passages_by_word ON plan_passages USING gin (words);

-- The stems that SQLite makes of words, too; every word is one that says something.
CREATE TEXT SEARCH DICTIONARY stems (TEMPLATE = pg_catalog.snowball, LANGUAGE = porter);
CREATE TEXT SEARCH CONFIGURATION words (PARSER = pg_catalog.default);
ALTER TEXT SEARCH CONFIGURATION words ADD MAPPING FOR
    asciiword, word, numword, asciihword, hword, numhword, hword_asciipart, hword_part,
    hword_numpart, email, protocol, url, host, url_path, file, sfloat, float, int, uint, version,
    tag, entity
    WITH stems;

-- Words without diacritics.
CREATE FUNCTION plain(words TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN regexp_replace(normalize(translate(words, '.,;:/\-_@#~%+=', '              '), NFD),
                      '[\u0300-\u036f]+', '', 'g');

-- What the statements take from SQLite, by the same names, or by the names that they get for
-- PostgreSQL.

CREATE FUNCTION iif(condition BOOLEAN, yes TEXT, no TEXT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN condition THEN yes ELSE no END;

-- A document without the escape of U+0000, which no text here can hold.
CREATE FUNCTION json_of(document TEXT) RETURNS JSONB LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN position('\u0000' IN document) = 0 THEN document::JSONB
            ELSE regexp_replace(document, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::JSONB END;

-- `key` or `$.key.key`.
CREATE FUNCTION json_at(path TEXT) RETURNS TEXT[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN path LIKE '$.%' THEN string_to_array(substr(path, 3), '.') ELSE ARRAY[path] END;

CREATE FUNCTION json_text(document TEXT, path TEXT) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN json_of(document) #>> json_at(path);

CREATE OPERATOR ->> (LEFTARG = TEXT, RIGHTARG = TEXT, FUNCTION = json_text);

CREATE FUNCTION json_items(document TEXT, OUT key BIGINT, OUT value TEXT) RETURNS SETOF RECORD
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    SELECT i.number - 1, i.value
    FROM jsonb_array_elements_text(json_of(document)) WITH ORDINALITY AS i (value, number);
END;

CREATE FUNCTION json_items(document TEXT, path TEXT, OUT key BIGINT, OUT value TEXT)
RETURNS SETOF RECORD LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
    SELECT i.number - 1, i.value
    FROM jsonb_array_elements_text(
             CASE WHEN jsonb_typeof(json_of(document) #> json_at(path)) = 'array'
                  THEN json_of(document) #> json_at(path) END)
         WITH ORDINALITY AS i (value, number);
END;

CREATE VIEW task_holders AS
SELECT l.task_id, l.agent, l.attempt_id
FROM leases l LEFT JOIN attempts a ON a.attempt_id = l.attempt_id
WHERE a.phase IN ('queued', 'preparing', 'running', 'stopping')
   OR (l.attempt_id IS NULL AND l.expires_at > extract(epoch FROM clock_timestamp()) * 1000)
UNION
SELECT task_id, attempt_id, attempt_id FROM attempts
WHERE phase IN ('queued', 'preparing', 'running', 'stopping');

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

CREATE VIEW running_attempts AS
    SELECT a.host, a.executor
    FROM attempts a JOIN tasks t ON t.task_id = a.task_id
    WHERE a.phase IN ('queued', 'preparing', 'running', 'stopping') AND a.host <> ''
      AND (a.phase <> 'queued' OR a.admitted_epoch = a.epoch) AND t.kind <> 'answer';

-- The last change of each object that a page shows. The first argument of the trigger is the topic,
-- the second the column with the object's id.
CREATE FUNCTION note_change() RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE
    changed TEXT;
BEGIN
    IF TG_OP = 'DELETE' THEN
        EXECUTE format('SELECT ($1).%I', TG_ARGV[1]) INTO changed USING OLD;
    ELSE
        EXECUTE format('SELECT ($1).%I', TG_ARGV[1]) INTO changed USING NEW;
    END IF;
    INSERT INTO changes (topic, id, number)
    SELECT TG_ARGV[0], changed, 1 + coalesce(max(c.number), 0) FROM changes c
    ON CONFLICT (topic, id) DO UPDATE SET number = excluded.number;
    RETURN NULL;
END;
$$;

CREATE TRIGGER projects_insert_changes_project AFTER INSERT ON projects
    FOR EACH ROW EXECUTE FUNCTION note_change('project', 'project_id');
CREATE TRIGGER projects_update_changes_project AFTER UPDATE ON projects
    FOR EACH ROW EXECUTE FUNCTION note_change('project', 'project_id');
CREATE TRIGGER projects_delete_changes_project AFTER DELETE ON projects
    FOR EACH ROW EXECUTE FUNCTION note_change('project', 'project_id');
CREATE TRIGGER repos_insert_changes_project AFTER INSERT ON repos
    FOR EACH ROW EXECUTE FUNCTION note_change('project', 'project_id');
CREATE TRIGGER repos_update_changes_project AFTER UPDATE ON repos
    FOR EACH ROW EXECUTE FUNCTION note_change('project', 'project_id');
CREATE TRIGGER repos_delete_changes_project AFTER DELETE ON repos
    FOR EACH ROW EXECUTE FUNCTION note_change('project', 'project_id');
CREATE TRIGGER tasks_insert_changes_task AFTER INSERT ON tasks
    FOR EACH ROW EXECUTE FUNCTION note_change('task', 'task_id');
CREATE TRIGGER tasks_update_changes_task AFTER UPDATE ON tasks
    FOR EACH ROW EXECUTE FUNCTION note_change('task', 'task_id');
CREATE TRIGGER tasks_delete_changes_task AFTER DELETE ON tasks
    FOR EACH ROW EXECUTE FUNCTION note_change('task', 'task_id');
CREATE TRIGGER task_dependencies_insert_changes_task AFTER INSERT ON task_dependencies
    FOR EACH ROW EXECUTE FUNCTION note_change('task', 'task_id');
CREATE TRIGGER task_dependencies_delete_changes_task AFTER DELETE ON task_dependencies
    FOR EACH ROW EXECUTE FUNCTION note_change('task', 'task_id');
CREATE TRIGGER attempts_insert_changes_attempt AFTER INSERT ON attempts
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');
CREATE TRIGGER attempts_update_changes_attempt AFTER UPDATE ON attempts
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');
CREATE TRIGGER attempts_delete_changes_attempt AFTER DELETE ON attempts
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');
CREATE TRIGGER turn_snapshots_insert_changes_attempt AFTER INSERT ON turn_snapshots
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');
CREATE TRIGGER finishes_insert_changes_attempt AFTER INSERT ON finishes
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');
CREATE TRIGGER finishes_update_changes_attempt AFTER UPDATE ON finishes
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');
CREATE TRIGGER check_runs_insert_changes_task AFTER INSERT ON check_runs
    FOR EACH ROW EXECUTE FUNCTION note_change('task', 'task_id');
CREATE TRIGGER check_runs_update_changes_task AFTER UPDATE ON check_runs
    FOR EACH ROW EXECUTE FUNCTION note_change('task', 'task_id');
CREATE TRIGGER approvals_insert_changes_inbox AFTER INSERT ON approvals
    FOR EACH ROW EXECUTE FUNCTION note_change('inbox', 'approval_id');
CREATE TRIGGER approvals_update_changes_inbox AFTER UPDATE ON approvals
    FOR EACH ROW EXECUTE FUNCTION note_change('inbox', 'approval_id');
CREATE TRIGGER questions_insert_changes_inbox AFTER INSERT ON questions
    FOR EACH ROW EXECUTE FUNCTION note_change('inbox', 'question_id');
CREATE TRIGGER questions_update_changes_inbox AFTER UPDATE ON questions
    FOR EACH ROW EXECUTE FUNCTION note_change('inbox', 'question_id');
CREATE TRIGGER tickets_insert_changes_inbox AFTER INSERT ON tickets
    FOR EACH ROW EXECUTE FUNCTION note_change('inbox', 'ticket_id');
CREATE TRIGGER tickets_update_changes_inbox AFTER UPDATE ON tickets
    FOR EACH ROW EXECUTE FUNCTION note_change('inbox', 'ticket_id');
CREATE TRIGGER notes_insert_changes_inbox AFTER INSERT ON notes
    FOR EACH ROW EXECUTE FUNCTION note_change('inbox', 'note_id');
CREATE TRIGGER failures_insert_changes_inbox AFTER INSERT ON failures
    FOR EACH ROW EXECUTE FUNCTION note_change('inbox', 'failure_id');
CREATE TRIGGER comments_insert_changes_attempt AFTER INSERT ON comments
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');
CREATE TRIGGER comments_update_changes_attempt AFTER UPDATE ON comments
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');
CREATE TRIGGER comments_delete_changes_attempt AFTER DELETE ON comments
    FOR EACH ROW EXECUTE FUNCTION note_change('attempt', 'attempt_id');

CREATE FUNCTION note_place() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    NEW.placed_epoch := NEW.epoch;
    RETURN NEW;
END;
$$;
CREATE TRIGGER attempts_placed BEFORE UPDATE OF host ON attempts
    FOR EACH ROW WHEN (NEW.host <> OLD.host) EXECUTE FUNCTION note_place();
