//! One role of the database for each host: what a gateway and a worker do with theirs, what they can't
//! do, and TLS. They need a server, which `.ci/postgres COMMAND` gives them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::harness::postgres::{Server, database, rows, run};
use crate::harness::{Board, PLAIN, Provost, needs, processes, program, run_until, wait_until};
use crate::pushed::with_remote;
use crate::worker::inbox::{UNKNOWN, agent};

/// The owner of a board. Its roles are dropped with it.
struct Owner {
    provost: Provost,
    hosts: Vec<String>,
}

impl Owner {
    fn new(url: &str) -> Self {
        let engine = format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n");
        Self { provost: Provost::new().config(&engine), hosts: Vec::new() }
    }

    /// Gives a host a role, and returns the URL for that.
    fn role(&mut self, host: &str, kind: &str) -> String {
        self.hosts.push(host.to_owned());
        let args = ["cluster", "role", host, "--role", kind, "--no-password", "--json"];
        let made = self.provost.verb(args);
        assert_eq!(made.code, 0, "{made:?}");
        let made = made.json();
        assert_eq!(made["role"], json!(format!("provost_{host}")));
        made["url"].as_str().unwrap().to_owned()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        for host in &self.hosts {
            let dropped = self.provost.verb(["cluster", "role", host, "--drop", "--json"]);
            if !std::thread::panicking() {
                assert_eq!(dropped.json()["is_dropped"], true, "{dropped:?}");
            }
        }
    }
}

/// A host with a role of its own.
fn host(url: &str, name: &str, kind: &str) -> Provost {
    // Its own task is the third.
    let calls = [
        ("getNextTask", json!({"claim": true})),
        ("askQuestion", json!({"question": UNKNOWN})),
        ("reportObservation", json!({"observation": "it is slow", "category": "optimization"})),
        ("reportIssue", json!({"issue_description": "it is wrong", "severity": 3})),
        ("reportTaskStatus", json!({"task_id": "TASK-003", "status": "in_progress"})),
        (
            "reportTestFailure",
            json!({"taskId": "TASK-003", "testName": "adds", "testFile": "a.test",
                   "failureDetails": {"error": "1 is not 2", "expectedValue": 2, "actualValue": 1},
                   "previousStatus": "flaky", "needsInvestigation": true, "actionNeeded": "none"}),
        ),
    ];
    let asks = agent(env!("CARGO_BIN_EXE_provost"), &calls);
    let config = format!(
        "[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"{name}\"\n\
         role = \"{kind}\"\nlease_secs = 3\n"
    );
    // A worker pushes what its turns leave, and writes that down.
    let config = config.replace("[host]", "snapshot_remote = \"origin\"\n[host]");
    Provost::new().executor("asker", PLAIN, &asks).config(&config)
}

/// Ends the machine of a host.
fn lose(host: &Provost, board: &Board) {
    host.kill();
    processes::kill_all_with("PROVOST_HOME", &host.home().to_string_lossy());
    processes::kill_all_below(host.home());
    let _ = fs::remove_dir_all(host.home().join("worktrees"));
    board.repo().git(&["worktree", "prune", "--expire=now"]);
}

#[test]
fn a_gateway_and_workers_with_roles_of_their_own_run_what_is_started() {
    let Some(url) = database("rights_runs") else { return };
    let mut owner = Owner::new(&url);
    let names = ["rights-front", "rights-one", "rights-two"];
    let kinds = ["gateway", "worker", "worker"];
    let urls: Vec<String> = names.iter().zip(kinds).map(|(n, kind)| owner.role(n, kind)).collect();
    let make = |n: usize| host(&urls[n], names[n], kinds[n]).started();
    let (front, one) = (make(0), make(1));
    let (board, _remote) = with_remote(&front);
    let attempt = board.start("fake", "say hello\nwrite made.txt text");
    let status = attempt.settled();
    assert_eq!((&status["state"], &status["host"]), (&json!("completed"), &json!("rights-one")));
    assert!(attempt.said("assistant_message").iter().any(|it| it.contains("hello")));
    attempt.saved(1);
    wait_until("it is pushed", || rows(&url, "SELECT pushed FROM turn_bundles") == ["there"]);
    let more = json!({"attempt_id": attempt.id, "action": "send", "prompt": "say more"});
    let sent = front.call("follow_up", &more);
    assert_eq!(sent["queue"]["status"], "started", "{sent}");
    attempt.until("the second turn has ended", |status| {
        status["phase"] == "settled" && attempt.said("assistant_message").concat().contains("more")
    });
    attempt.saved(2);
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "request_id": "m"});
    let done = front.call("finish_attempt", &merge);
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(board.repo().git(&["show", "main:made.txt"]).trim(), "text");
    assert_eq!(front.call("finish_attempt", &merge)["finish_id"], done["finish_id"]);

    // The tools of an agent.
    board.task("for an agent");
    let asker = board.start("asker", "x");
    assert_eq!(asker.settled()["state"], "completed");
    let said = asker.lines("stdout").concat();
    assert!(said.contains("Q-001") && !said.contains("\"error\":{"), "{said}");
    let reported = rows(&url, "SELECT tool FROM reports");
    for tool in ["reportObservation", "reportIssue", "reportTaskStatus", "reportTestFailure"] {
        assert!(reported.iter().any(|it| it == tool), "{tool}: {reported:?}");
    }
    front.call("answer_question", &json!({"question_id": "Q-001", "answer": "GSAP"}));
    wait_until("the answer is its next turn", || {
        rows(&url, "SELECT prompt FROM processes").iter().any(|prompt| prompt.contains("GSAP"))
    });
    asker.settled();
    asker.saved(2);

    // What runs on a host that is lost begins anew on another one.
    let gate = front.path("gate");
    let runs = board.start("fake", &format!("say up\n{}\nsay end", run_until(&gate)));
    runs.has_said("up");
    let two = make(2);
    lose(&one, &board);
    runs.until("it runs on the other worker", |status| {
        status["host"] == "rights-two" && status["phase"] == "running"
    });
    fs::write(&gate, "").unwrap();
    assert_eq!(runs.settled()["state"], "completed");
    // What was at rest there goes on here.
    let again = json!({"attempt_id": asker.id, "action": "send", "prompt": "y"});
    let sent = front.call("follow_up", &again);
    assert_eq!(sent["queue"]["status"], "started", "{sent}");
    let status = asker.until("it has moved", |status| status["phase"] == "settled");
    assert_eq!(status["host"], "rights-two", "{status}");
    for daemon in [&front, &two] {
        let said = daemon.said();
        assert!(!said.contains("permission denied") && !said.contains("row-level"), "{said}");
    }
}

#[test]
fn workers_with_roles_of_their_own_apply_trust_and_collect_for_a_gateway() {
    let Some(url) = database("rights_across") else { return };
    let mut owner = Owner::new(&url);
    let host = |url: &str, name: &str, kind: &str| {
        let config = format!(
            "[engine]\nurl = \"{url}\"\ndurability = \"single\"\n[host]\nname = \"{name}\"\n\
             role = \"{kind}\"\n[daemon]\nmax_running_attempts = 1\n"
        );
        Provost::new().config(&config).started()
    };
    let front = host(&owner.role("rights-gate", "gateway"), "rights-gate", "gateway");
    let workers = ["rights-left", "rights-right"];
    let workers = workers.map(|name| host(&owner.role(name, "worker"), name, "worker"));
    let board = front.board();
    let gate = front.path("gate");
    // Each has room for one.
    let prompt = |file: &str| format!("say up\n{}\nwrite {file} text", run_until(&gate));
    let both = ["one.txt", "other.txt"].map(|file| board.start("fake", &prompt(file)));
    for attempt in &both {
        attempt.has_said("up");
    }
    fs::write(&gate, "").unwrap();
    let hosts = both.each_ref().map(|attempt| attempt.settled()["host"].clone());
    assert_ne!(hosts[0], hosts[1]);
    for attempt in &both {
        attempt.saved(1);
    }
    let [one, other] = &both;
    let apply = json!({"attempt_id": one.id, "action": "apply_to", "into": other.id,
                       "request_id": "r"});
    let done = front.call("finish_attempt", &apply);
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(front.call("finish_attempt", &apply)["finish_id"], done["finish_id"]);
    let branch = other.started["workspace_branch"].as_str().unwrap();
    assert_eq!(board.repo().git(&["show", &format!("{branch}:one.txt")]).trim(), "text");

    board.repo().commit("provost.toml", "[setup]\nrun = 'echo made > made.txt'\n");
    let waiting = [(); 2].map(|()| board.start("fake", "run cat made.txt"));
    for attempt in &waiting {
        attempt.in_phase("waiting");
    }
    let trusted = front.verb(["trust", &waiting[0].id, "--yes", "--json"]).json();
    assert_eq!(trusted["released"].as_array().unwrap().len(), 2, "{trusted}");
    for attempt in &waiting {
        assert_eq!(attempt.settled()["state"], "completed");
    }
    let removed = front.verb(["project", "rm", "scratch", "--yes", "--json"]).json();
    assert_eq!((&removed["removed"], &removed["left"]), (&json!(true), &json!([])), "{removed}");
    for worker in &workers {
        assert_eq!(fs::read_dir(worker.home().join("worktrees")).unwrap().count(), 0);
    }
    for daemon in workers.iter().chain([&front]) {
        let said = daemon.said();
        assert!(!said.contains("permission denied") && !said.contains("row-level"), "{said}");
    }
}

/// What a statement does: how many rows, or why it is refused.
fn does(url: &str, sql: &str) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
        let done = done.map(|it| it.rows_affected()).map_err(|error| error.to_string());
        connection.close().await.unwrap();
        done
    })
}

/// What a worker sees of a table: nothing, its own rows and those of its projects, or all.
const SEES: &[(&str, &str)] = &[
    ("_sqlx_migrations", "all"),
    ("approvals", "own"),
    ("attempt_repos", "own"),
    ("attempts", "own"),
    ("base_bundles", "own"),
    ("bundle_parts", "own"),
    ("changes", "all"),
    ("check_runs", "own"),
    ("cluster", "all"),
    ("comments", "own"),
    ("failures", "own"),
    ("finishes", "own"),
    ("follow_ups", "own"),
    ("handles", "own"),
    ("host_calls", "own"),
    ("host_homes", "own"),
    ("host_projects", "nothing"),
    ("host_roles", "own"),
    ("hosts", "all"),
    ("leases", "own"),
    ("log_chunks", "own"),
    ("login_links", "nothing"),
    ("logins", "nothing"),
    ("notes", "own"),
    ("plan_documents", "own"),
    ("plan_passages", "own"),
    ("plan_sections", "own"),
    ("plans", "own"),
    ("ports", "all"),
    ("probes", "own"),
    ("processes", "own"),
    ("projects", "own"),
    ("question_askers", "own"),
    ("questions", "own"),
    ("receipts", "own"),
    ("remotes", "own"),
    ("repo_hosts", "own"),
    ("reports", "own"),
    ("repos", "own"),
    ("requests", "own"),
    ("reviews", "own"),
    ("sessions", "own"),
    ("shipped_logs", "own"),
    ("task_dependencies", "own"),
    ("tasks", "own"),
    ("tickets", "own"),
    ("trust", "own"),
    ("turn_bundles", "own"),
    ("turn_snapshots", "own"),
    ("users", "nothing"),
];

/// The columns of each table: their names, types, and whether each is of the key.
fn columns(url: &str) -> BTreeMap<String, Vec<(String, String, bool)>> {
    let sql = "SELECT concat_ws('|', c.relname, a.attname, format_type(a.atttypid, NULL),
                EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary
                        AND a.attnum = ANY (i.indkey)))
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE c.relkind = 'r' AND c.relnamespace = CAST('public' AS regnamespace)
           AND a.attnum > 0 AND NOT a.attisdropped
           AND (a.attnotnull OR a.attname = 'sha256') ORDER BY c.relname, a.attnum";
    let mut found: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for line in rows(url, sql) {
        let words: Vec<&str> = line.split('|').collect();
        let [table, column, kind, is_key] = words[..] else { panic!("{line}") };
        let column = (column.to_owned(), kind.to_owned(), is_key == "t");
        found.entry(table.to_owned()).or_default().push(column);
    }
    found
}

/// The value of a column in the row of a host: 1, the worker; 2, another one.
fn value(table: &str, column: &str, kind: &str, of: u8) -> String {
    let host = if of == 1 { "rights-own" } else { "rights-other" };
    match (table, column, kind) {
        ("plan_passages", "rowid", _) => (u32::from(of) * 64).to_string(),
        (_, _, "bigint") => of.to_string(),
        (_, _, "tsvector") => "''".to_owned(),
        (_, "host" | "host_id", _) => format!("'{host}'"),
        ("host_calls", "call", _) | ("finishes", "request", _) => "'{}'".to_owned(),
        ("hosts", "labels", _) => "'[]'".to_owned(),
        ("users", "access", _) => "'read'".to_owned(),
        ("host_roles", "kind", _) => "'worker'".to_owned(),
        ("host_roles", "role", _) => format!("'provost_{host}'"),
        ("users", "name", _) => format!("'user{of}'"),
        ("trust", "repo", _) => format!("'path{of}'"),
        _ => format!("'{column}{of}'"),
    }
}

fn key(table: &str, columns: &[(String, String, bool)], of: u8) -> String {
    let of_key = columns.iter().filter(|(.., is_key)| *is_key);
    let equal =
        of_key.map(|(name, kind, _)| format!("\"{name}\" = {}", value(table, name, kind, of)));
    equal.collect::<Vec<_>>().join(" AND ")
}

#[test]
fn a_worker_reads_and_changes_only_what_it_runs() {
    let Some(url) = database("rights_rows") else { return };
    let mut owner = Owner::new(&url);
    let worker = owner.role("rights-own", "worker");
    let tables = columns(&url);
    let decided: Vec<&str> = SEES.iter().map(|(table, _)| *table).collect();
    assert_eq!(
        tables.keys().collect::<Vec<_>>(),
        decided,
        "what does a worker see of a new table?"
    );
    let mut fill = vec!["SET session_replication_role = replica".to_owned()];
    for (table, columns) in &tables {
        if ["_sqlx_migrations", "cluster"].contains(&table.as_str()) {
            continue;
        }
        for of in [1, 2] {
            let names: Vec<String> = columns.iter().map(|it| format!("\"{}\"", it.0)).collect();
            let values: Vec<String> =
                columns.iter().map(|it| value(table, &it.0, &it.1, of)).collect();
            fill.push(format!(
                "INSERT INTO {table} ({}) VALUES ({}) ON CONFLICT DO NOTHING",
                names.join(", "),
                values.join(", ")
            ));
        }
    }
    run(&url, &fill.join(";\n"));
    for (table, sees) in SEES {
        let columns = &tables[*table];
        let rows_of = |of| {
            let key = key(table, columns, of);
            does(&worker, &format!("SELECT 1 FROM {table} WHERE {key}"))
        };
        if !["_sqlx_migrations", "cluster"].contains(table) {
            let (own, other) = (rows_of(1), rows_of(2));
            match *sees {
                "nothing" => assert!(own.unwrap_err().contains("permission denied"), "{table}"),
                "own" => assert_eq!((own, other), (Ok(1), Ok(0)), "{table}"),
                _ => assert_eq!((own, other), (Ok(1), Ok(1)), "{table}"),
            }
        }
        // Nothing of another host is written, whatever is seen of it.
        let (column, key) = (&columns[0].0, key(table, columns, 2));
        let update = format!("UPDATE {table} SET \"{column}\" = \"{column}\" WHERE {key}");
        for sql in [update, format!("DELETE FROM {table} WHERE {key}")] {
            match does(&worker, &sql) {
                Ok(count) => assert_eq!(count, 0, "{sql}"),
                Err(why) => assert!(why.contains("permission denied"), "{sql}: {why}"),
            }
        }
    }
    let views = "SELECT relname FROM pg_class WHERE relkind = 'v'
         AND relnamespace = CAST('public' AS regnamespace)
         AND NOT coalesce('security_invoker=true' = ANY (reloptions), false)";
    // A view shows what its owner sees: of this one, hosts and executors.
    assert_eq!(rows(&url, views), ["running_attempts"]);
    let unbound = "SELECT relname FROM pg_class c WHERE relkind = 'r' AND NOT relrowsecurity
         AND relnamespace = CAST('public' AS regnamespace)
         AND has_table_privilege('provost_rights-own', c.oid, 'SELECT') ORDER BY relname";
    assert_eq!(rows(&url, unbound), ["_sqlx_migrations"]);
}

#[test]
fn a_worker_does_nothing_for_another_host_and_a_gateway_owns_nothing() {
    let Some(url) = database("rights_deeds") else { return };
    let mut owner = Owner::new(&url);
    let worker = owner.role("rights-w", "worker");
    let gateway = owner.role("rights-g", "gateway");
    let host = |name: &str| {
        format!(
            "INSERT INTO hosts (host_id, incarnation, labels, slots, memory, version, state,
                                registered_at, renewed_at, lease_until)
             VALUES ('{name}', 1, '[]', 1, 1, '1', 'active', 1, 1, 9000000000000000);
             INSERT INTO host_homes VALUES ('{name}', 's');"
        )
    };
    let attempt = |id: &str, host: &str, phase: &str| {
        format!(
            "INSERT INTO attempts (attempt_id, task_id, branch, folder, executor, phase, state, epoch,
                                   created_at, updated_at, host)
             VALUES ('{id}', 't', 'b', 'f', 'e', '{phase}', 'running', 1, 1, 1, '{host}');
             INSERT INTO sessions VALUES ('s-{id}', '{id}', 'e', NULL, 1);"
        )
    };
    let named = "00000000-0000-0000-0000-000000000001";
    let hosts = ["rights-w", "rights-g", "rights-x"].map(host).concat();
    let attempts = [
        attempt("mine", "rights-w", "running"),
        attempt("theirs", "rights-x", "running"),
        attempt(named, "rights-x", "settled"),
    ]
    .concat();
    let board = "INSERT INTO projects VALUES ('p', 'p', 1, 1), ('q', 'q', 1, 1);
         INSERT INTO tasks (task_id, project_id, title, status, priority, created_at, updated_at)
         VALUES ('t', 'p', 't', 'todo', 'high', 1, 1), ('u', 'q', 'u', 'todo', 'high', 1, 1);
         INSERT INTO repos VALUES ('r', 'p', 'r', '/r', 'main', 1);";
    run(&url, &format!("{hosts}{board}{attempts}"));
    let count = |sql: &str| does(&worker, sql);
    // The row of an attempt at a task of its project is there; what it holds is not.
    assert_eq!(count("SELECT 1 FROM attempts WHERE attempt_id = 'theirs'"), Ok(1));
    assert_eq!(count("SELECT 1 FROM sessions WHERE attempt_id = 'theirs'"), Ok(0));
    let call = |host: &str, tool: &str, arguments: &str| {
        format!(
            "INSERT INTO host_calls VALUES ('{host}{tool}', '{host}', 'rights-w', '{{\"tool\": \"{tool}\", \"arguments\": {arguments}}}', 1, 1)"
        )
    };
    let of_another = json!({"attempt_id": named}).to_string();
    let no_rows = [
        "UPDATE attempts SET phase = 'settled' WHERE attempt_id = 'theirs'",
        "UPDATE attempts SET host = 'rights-w' WHERE attempt_id = 'theirs'",
        "UPDATE hosts SET fenced_at = 1 WHERE host_id <> 'rights-w'",
        "SELECT 1 FROM host_homes WHERE host_id <> 'rights-w'",
        "SELECT 1 FROM projects WHERE project_id = 'q'",
        &format!("UPDATE attempts SET host = 'rights-w' WHERE attempt_id = '{named}'"),
    ];
    for sql in no_rows {
        assert_eq!(count(sql), Ok(0), "{sql}");
    }
    let refused = [
        "INSERT INTO finishes VALUES ('f', 'theirs', '{}', 'open', '{}', NULL, 1, NULL)",
        "INSERT INTO sessions VALUES ('s', 'theirs', 'e', NULL, 1)",
        "UPDATE attempts SET host = 'rights-x' WHERE attempt_id = 'mine'",
        "UPDATE attempts SET task_id = 'u' WHERE attempt_id = 'mine'",
        "UPDATE tasks SET project_id = 'q' WHERE task_id = 't'",
        "UPDATE cluster SET generation = 7",
        "UPDATE host_calls SET call = '{}'",
        "UPDATE finishes SET request = '{}'",
        "INSERT INTO users VALUES ('me', 'admin', 'h', 1, NULL)",
        "UPDATE host_roles SET kind = 'gateway'",
        "INSERT INTO trust VALUES ('/r', 'h', '[]', 1, 'me')",
        "INSERT INTO hosts SELECT * FROM hosts WHERE host_id = 'rights-x'",
        "CREATE TABLE mine (x BIGINT)",
        "ALTER TABLE hosts DISABLE ROW LEVEL SECURITY",
        "DROP POLICY worker ON tasks",
        "SET ROLE provost",
        &call("rights-x", "stop_attempt", "{}"),
        &call("rights-x", "provost/base", r#"{"repo_id": "other"}"#),
        &call("rights-w", "follow_up", &of_another),
    ];
    for sql in refused {
        let why = count(sql).expect_err(sql);
        let is_so = ["permission denied", "row-level security", "must be owner"];
        assert!(is_so.iter().any(|it| why.contains(it)), "{sql}: {why}");
    }
    // A call that it may write gives it nothing, and one of a gateway does.
    let base = json!({"repo_id": "r", "attempt_id": named}).to_string();
    assert_eq!(count(&call("rights-w", "provost/base", &base)), Ok(1));
    let take = format!("UPDATE attempts SET host = 'rights-w' WHERE attempt_id = '{named}'");
    assert_eq!(count(&take), Ok(0));
    let sent = call("rights-w", "follow_up", &of_another);
    run(&url, &sent.replace("'rights-w', 'rights-w'", "'rights-w', 'rights-g'"));
    assert_eq!(count(&take), Ok(1));
    assert_eq!(count("SELECT 1 FROM attempts WHERE host = 'rights-w'"), Ok(2));

    for sql in [
        "CREATE TABLE theirs (x BIGINT)",
        "UPDATE host_roles SET kind = 'gateway'",
        "DELETE FROM _sqlx_migrations",
        "ALTER TABLE hosts DISABLE ROW LEVEL SECURITY",
    ] {
        assert!(does(&gateway, sql).is_err(), "{sql}");
    }
    let others = "SELECT 1 FROM host_homes WHERE host_id <> 'rights-g'";
    assert_eq!(does(&gateway, others), Ok(0));
    assert_eq!(does(&gateway, "SELECT 1 FROM projects"), Ok(2));
    assert_eq!(does(&gateway, "UPDATE hosts SET fenced_at = 1 WHERE host_id = 'rights-x'"), Ok(1));
}

#[test]
fn a_role_is_of_one_host_and_its_daemon_changes_no_schema() {
    let Some(url) = database("rights_role") else { return };
    let mut owner = Owner::new(&url);
    let worker = owner.role("rights-r", "worker");
    for bad in ["a b", "a\"b", ""] {
        let refused = owner.provost.verb(["cluster", "role", bad]);
        assert!(refused.code != 0 && refused.stderr.contains("can't be the name"), "{refused:?}");
    }
    // Again, with a password of a file.
    let file = owner.provost.path("password");
    fs::write(&file, "it's \\ one\n").unwrap();
    let again = owner.provost.verb([
        "cluster",
        "role",
        "rights-r",
        "--password-file",
        file.to_str().unwrap(),
    ]);
    for told in
        ["[engine]", "url = \"postgres://provost_rights-r@", "role = \"worker\"", "up to date"]
    {
        assert!(again.stdout.contains(told), "{told}: {again:?}");
    }
    owner.hosts.push("rights-p".to_owned());
    let new = owner.provost.verb(["cluster", "role", "rights-p", "--json"]).json();
    assert!(new["password"].as_str().is_some_and(|it| it.len() > 30), "{new}");
    run(&url, "CREATE ROLE \"provost_rights-super\" SUPERUSER");
    let refused = owner.provost.verb(["cluster", "role", "rights-super"]);
    run(&url, "DROP ROLE \"provost_rights-super\"");
    assert!(refused.stderr.contains("may do more than a host"), "{refused:?}");
    let refused = owner.provost.verb(["cluster", "role", "rights-none", "--drop"]);
    assert!(refused.stderr.contains("has no role on this board"), "{refused:?}");

    let fails = |name: &str, kind: &str, told: &str| {
        let refused = host(&worker, name, kind).fails_to_start();
        assert!(refused.code == 1 && refused.stderr.contains(told), "{told}: {refused:?}");
    };
    fails("rights-s", "worker", "is that of host rights-r, and this is host rights-s");
    fails("rights-r", "all", "is that of a worker");
    run(
        &url,
        "CREATE TABLE kept AS SELECT * FROM _sqlx_migrations ORDER BY version DESC LIMIT 1;
               DELETE FROM _sqlx_migrations WHERE version IN (SELECT version FROM kept)",
    );
    fails("rights-r", "worker", "provost cluster migrate");
    run(
        &url,
        "INSERT INTO _sqlx_migrations SELECT * FROM kept;
               UPDATE kept SET version = 9999;
               INSERT INTO _sqlx_migrations SELECT * FROM kept",
    );
    fails("rights-r", "worker", "of a newer version");
    run(&url, "DELETE FROM _sqlx_migrations WHERE version = 9999; DROP TABLE kept");
    let migrated = owner.provost.verb(["cluster", "migrate"]);
    assert_eq!(migrated.code, 0, "{migrated:?}");
    host(&worker, "rights-r", "worker").started();
}

/// A program that has to succeed, in a folder.
fn openssl(folder: &Path, args: &str) {
    let done = program("openssl").args(args.split(' ')).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{args}: {done:?}");
}

#[test]
fn a_server_is_who_it_says_by_tls() {
    if !needs(&[("openssl", "openssl")]) {
        return;
    }
    let Some(server) = Server::new() else { return };
    let keys = tempfile::tempdir().unwrap();
    let folder = keys.path();
    for name in ["ca", "other"] {
        openssl(
            folder,
            &format!(
                "req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.crt -subj /CN={name} \
                 -days 3 -addext basicConstraints=critical,CA:TRUE"
            ),
        );
    }
    openssl(
        folder,
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost",
    );
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl(
        folder,
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 3 \
         -extfile names",
    );
    let port = server.listen(&folder.join("server.crt"), &folder.join("server.key"));
    let on = |host: &str, authority: &str| {
        let root = folder.join(authority);
        let url = format!(
            "postgres://provost@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={}",
            root.display()
        );
        let engine = format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n");
        Provost::new().config(&engine)
    };
    for (host, authority) in [("localhost", "other.crt"), ("127.0.0.1", "ca.crt")] {
        let refused = on(host, authority).fails_to_start();
        assert_eq!(refused.code, 1, "{refused:?}");
        for told in ["can't be reached", "certificate"] {
            assert!(refused.stderr.contains(told), "{told}: {refused:?}");
        }
    }
    let provost = on("localhost", "ca.crt").started();
    let attempt = provost.board().start("fake", "say hello");
    assert_eq!(attempt.settled()["state"], "completed");
    let by_tls = "SELECT CAST(count(*) AS text) FROM pg_stat_ssl s
         JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'provost' AND NOT s.ssl";
    assert_eq!(rows(&format!("{}&port={port}", server.url()), by_tls), ["0"]);
}
