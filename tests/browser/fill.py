"""Gives 999 more tasks of a home, whose daemon does not run, a copy of the one attempt that is there."""

import os
import sqlite3
import sys
import uuid

database = sqlite3.connect(os.path.join(sys.argv[1], "provost.db"))
database.row_factory = sqlite3.Row
database.execute("PRAGMA foreign_keys = OFF")


def fresh(number):
    """A UUIDv7: in the order of the numbers."""
    moment = 1_700_000_000_000 + number
    value = (moment << 80) | (7 << 76) | (uuid.uuid4().int & ((1 << 76) - 1))
    return str(uuid.UUID(int=(value & ~(3 << 62)) | (2 << 62)))


def insert(table, row):
    names = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))


def rows(table, attempt):
    found = database.execute(f"SELECT * FROM {table} WHERE attempt_id = ?", (attempt,))
    return [dict(row) for row in found]


(model,) = database.execute("SELECT * FROM attempts").fetchall()
model_id = model["attempt_id"]
copied = {name: rows(name, model_id) for name in ("attempt_repos", "sessions", "processes", "turn_snapshots")}
free = database.execute(
    "SELECT task_id FROM tasks WHERE task_id <> ? ORDER BY task_id LIMIT 999", (model["task_id"],)
).fetchall()
for number, (task,) in enumerate(free):
    ids = {}

    def renamed(row):
        own = {}
        for name, value in row.items():
            if name in ("session_id", "process_id"):
                value = ids.setdefault(value, fresh(number))
            own[name] = value
        return own | {"attempt_id": attempt}

    attempt = fresh(number)
    state = "failed" if number % 10 == 0 else "completed"
    insert("attempts", dict(model) | {"attempt_id": attempt, "task_id": task, "folder": attempt, "state": state})
    for table, found in copied.items():
        for row in found:
            insert(table, renamed(row))
    database.execute("UPDATE tasks SET status = 'inreview' WHERE task_id = ?", (task,))
database.commit()
