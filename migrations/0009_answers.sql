-- What questions are answered from, and the questions that it does not answer.

CREATE TABLE plans (
    plan_id      INTEGER PRIMARY KEY,
    project_id   TEXT NOT NULL REFERENCES projects (project_id),
    name         TEXT NOT NULL,
    version      TEXT NOT NULL,
    -- Of all documents: the same plan again changes nothing.
    content_hash TEXT NOT NULL,
    sections     INTEGER NOT NULL,
    added_at     INTEGER NOT NULL,
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

-- In how many sections of a plan a stem stands.
CREATE TABLE plan_stems (
    plan_id  INTEGER NOT NULL REFERENCES plans (plan_id) ON DELETE CASCADE,
    stem     TEXT NOT NULL,
    sections INTEGER NOT NULL,
    PRIMARY KEY (plan_id, stem)
) STRICT, WITHOUT ROWID;

-- The stems of each section, by its id. `plan` holds `p` and the plan's id, so that
-- one plan is searched alone.
CREATE VIRTUAL TABLE plan_words USING fts5 (
    plan, heading, body,
    content = '', contentless_delete = 1, detail = full,
    tokenize = 'unicode61 remove_diacritics 0'
);

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
