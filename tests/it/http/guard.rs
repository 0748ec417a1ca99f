//! Who gets in: tokens, links, cookies, names, origins and roles.

use std::thread;

use serde_json::json;

use crate::harness::{PLAIN, Provost, Web, eventually};

const LIST: &str = "POST /api/v1/list_projects";

#[test]
fn without_a_token_that_holds_nothing_is_answered() {
    let provost = Provost::running();
    let web = Web::of(&provost);
    for path in ["/", "/board", "/events", "/api/v1/openapi.json", "/settings", "/attempts/x"] {
        for wrong in ["", "Bearer", "Bearer x", "Basic x"] {
            let page = web.send(&format!("GET {path}"), &[("authorization", wrong)], "");
            assert_eq!(page.status, 401, "{path} {wrong}: {page:?}");
            assert_eq!(page.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(web.send("POST /mcp", &[], "{}").status, 401);
    assert_eq!(web.call("list_projects", &json!({})).status, 200);
    // An old token: renewed, or revoked.
    let given =
        |action: &str, name: &str| provost.verb(["user", action, name]).stdout.trim().to_owned();
    let of = |token: String| Web { token, address: web.address.clone() };
    let ana = of(provost.verb(["user", "add", "ana", "--access", "read"]).stdout.trim().to_owned());
    assert_eq!(ana.call("list_projects", &json!({})).status, 200);
    let newer = of(given("renew", "ana"));
    assert_eq!(ana.call("list_projects", &json!({})).status, 401);
    assert_eq!(newer.call("list_projects", &json!({})).status, 200);
    assert_eq!(newer.call("create_project", &json!({"name": "x", "repos": []})).status, 403);
    provost.verb(["user", "revoke", "ana"]);
    assert_eq!(newer.call("list_projects", &json!({})).status, 401);
    given("renew", "owner");
    assert_eq!(web.call("list_projects", &json!({})).status, 401);
    assert_eq!(Web::of(&provost).call("list_projects", &json!({})).status, 200);
    assert_ne!(provost.verb(["user", "revoke", "owner"]).code, 0);
}

#[test]
fn what_a_user_has_open_ends_with_the_token() {
    let provost = Provost::running();
    let board = provost.board();
    let hangs = board.start("fake", "hang");
    let web = Web::of(&provost);
    let given = |args: &[&str]| {
        let done = Provost::done(provost.command(&[&["user"], args].concat()));
        let token = done.stdout.trim().to_owned();
        Web { token, address: web.address.clone() }
    };
    let ends = |user: &Web, action: &dyn Fn()| {
        let mut events = user.events(None);
        let mut own = web.events(None);
        // What is changed before they begin is not in them.
        events.begin();
        own.begin();
        board.task("before");
        assert!(events.until(|event| event["topic"] == "task").is_some());
        let waiting = thread::scope(|scope| {
            let input = json!({"attempt_ids": [hangs.id], "timeout_ms": 300_000});
            let waiting = scope.spawn(move || user.call("wait_for_attempts", &input));
            action();
            waiting.join().unwrap()
        });
        assert_eq!(waiting.status, 401, "{waiting:?}");
        // No change wakes a stream up: it ends by itself.
        assert_eq!(events.until(|_| false), None);
        let after = board.task("after");
        assert!(own.until(|event| event["id"] == after.as_str()).is_some());
    };
    let ana = given(&["add", "ana", "--access", "read"]);
    ends(&ana, &|| _ = given(&["renew", "ana"]));
    let ana = given(&["renew", "ana"]);
    ends(&ana, &|| _ = given(&["revoke", "ana"]));
}

#[test]
fn answers_to_calls_that_a_rate_limits_say_what_is_left() {
    let provost = Provost::running();
    provost.board();
    let web = Web::of(&provost);
    let token = provost.verb(["user", "add", "ana", "--access", "write"]).stdout;
    let ana = Web { token: token.trim().to_owned(), address: web.address.clone() };
    let left = |tool: &str| {
        let page = ana.call(tool, &json!({}));
        let number = |name: &str| page.header(name)?.parse::<u64>().ok();
        let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
        names.map(number)
    };
    assert_eq!(left("list_projects"), [None; 3], "no rate is for it");
    let [Some(limit), Some(first), Some(_)] = left("getNextTask") else { panic!() };
    assert_eq!(first, limit - 1);
    let [_, Some(second), _] = left("getNextTask") else { panic!() };
    assert!(second <= first, "{first} {second}");
}

#[test]
fn a_link_works_once_and_its_cookie_until_the_browser_leaves() {
    let provost = Provost::running();
    let web = Web::of(&provost);
    let link = provost.verb(["open", "--print", "--json"]).json()["url"].clone();
    let path = link.as_str().unwrap().split_once(&web.address).unwrap().1.to_owned();
    let first = web.send(&format!("GET {path}"), &[], "");
    let cookie = first.header("set-cookie").unwrap();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let again = web.send(&format!("GET {path}"), &[], "");
    assert_eq!((again.status, again.header("set-cookie")), (403, None), "{again:?}");
    let get = || web.send("GET /", &[("cookie", cookie)], "").status;
    assert_eq!(get(), 200);
    provost.kill();
    provost.start();
    assert_eq!(get(), 200, "a restart logs no browser out");
    let own = ("origin", format!("http://{}", web.address));
    let leave = [("cookie", cookie), (own.0, own.1.as_str())];
    assert_eq!(web.send("POST /logout", &leave, "").status, 200);
    assert_eq!(get(), 401);
    assert_eq!(web.send("GET /login?code=guessed", &[], "").status, 403);
}

#[test]
fn foreign_pages_and_rebound_names_get_nothing() {
    let provost = Provost::running();
    let web = Web::of(&provost);
    let cookie = web.log_in(&provost);
    let json_type = ("content-type", "application/json");
    let proofs = [("cookie", cookie), ("authorization", web.bearer())];
    for (name, value) in &proofs {
        let proof = (*name, value.as_str());
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:1"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("host", "evil.example"),
            ("host", "127.0.0.1"),
        ] {
            let given = [proof, json_type, foreign];
            for line in [LIST, "GET /events", "POST /mcp", "GET /board", "POST /do/create_project"]
            {
                assert_eq!(web.send(line, &given, "{}").status, 403, "{line} {foreign:?}");
            }
        }
    }
    // A form of another site, whose browser sends neither of these, has no cookie; one that has
    // it anyway does not pass without the browser's word.
    let cookie = (proofs[0].0, proofs[0].1.as_str());
    let form = ("content-type", "application/x-www-form-urlencoded");
    let page = web.send("POST /do/create_project", &[cookie, form], "name=x");
    assert_eq!(page.status, 403, "{page:?}");
    let plain =
        web.send(LIST, &[("authorization", &web.bearer()), ("content-type", "text/plain")], "{}");
    assert_eq!(plain.status, 400, "only JSON is a call: {plain:?}");
    assert_eq!(provost.call("list_projects", &json!({}))["projects"], json!([]));
}

#[test]
fn an_agent_gets_nowhere_with_the_token_of_its_user() {
    let provost = Provost::new().executor("sh", PLAIN, "exec sh -c \"$(cat)\" 2>&1").started();
    let board = provost.board();
    let web = Web::of(&provost);
    let (address, home) = (&web.address, provost.home().display());
    let (host, port) = address.split_once(':').unwrap();
    // A shell with a socket: what it prints is the answer.
    let request = format!(
        "POST /api/v1/list_projects HTTP/1.1\\r\\nhost: {address}\\r\\nconnection: close\\r\\n\
         authorization: Bearer $(cat {home}/http-token)\\r\\n\\r\\n"
    );
    let script =
        format!("exec bash -c 'exec 3<>/dev/tcp/{host}/{port}; printf \"{request}\" >&3; cat <&3'");
    let attempt = board.start("sh", &script);
    attempt.settled();
    let said = attempt.lines("stdout").join("\n");
    assert!(said.contains("403 Forbidden"), "{said}");
    assert!(said.contains("outside of attempts"), "{said}");
    assert_eq!(eventually("from outside", || Some(web.get("/"))).status, 200);
}
