//! What attackers try on a face that lets them in: floods, slow readers, escapes, and markup in
//! whatever agents and files say.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::harness::{PLAIN, Provost, Web, eventually};

/// An agent whose prompt is a shell script.
const SHELL: &str = "exec sh -c \"$(cat)\" 2>&1";

#[test]
fn five_hundred_streams_leave_the_face_alive() {
    let provost = Provost::running();
    let board = provost.board();
    let web = Web::of(&provost);
    let request = format!(
        "GET /events HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\n\r\n",
        web.address,
        web.bearer()
    );
    let mut streams = Vec::new();
    let mut served = 0;
    for _ in 0..500 {
        let mut stream = web.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        let status = std::str::from_utf8(&head[9..]).unwrap().to_owned();
        assert!(["200", "503"].contains(&status.as_str()), "{status}");
        served += usize::from(status == "200");
        streams.push(stream);
    }
    // The Unix socket and the bridges have room of their own, and so have further connections.
    let task = board.task("made meanwhile");
    assert!((1..500).contains(&served), "{served} of 500 are served, the others refused");
    assert_eq!(web.call("get_task", &json!({"task_id": task})).status, 200);
    drop(streams);
    // Their places are free again.
    eventually("a stream begins", || web.events(None).until(|data| *data == json!({})));
}

#[test]
fn unauthenticated_clients_with_half_a_head_and_users_with_half_a_body_hold_up_no_one() {
    let provost = Provost::running();
    let web = Web::of(&provost);
    let mut unauthenticated: Vec<_> = (0..400).map(|_| web.connect()).collect();
    for stream in &mut unauthenticated {
        // The oldest are cut off.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: ");
    }
    assert_eq!(web.call("list_projects", &json!({})).status, 200);
    let cut = |stream: &mut TcpStream| match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(cut(&mut unauthenticated[0]), "the oldest has an answer");
    let page = web.send(
        "POST /api/v1/list_projects",
        &[("authorization", &web.bearer()), ("content-length", "100")],
        "",
    );
    assert_eq!(page.status, 408, "{page:?}");
    assert!(unauthenticated.iter_mut().all(cut), "no head is waited for for long");
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_one() {
    let provost = Provost::new().executor("sh", PLAIN, SHELL).started();
    let board = provost.board();
    let web = Web::of(&provost);
    let attempt =
        board.start("sh", "yes 0123456789012345678901234567890123456789 | head -n 200000");
    attempt.settled();
    let body =
        json!({"attempt_id": attempt.id, "channel": "raw", "limit": 1000, "max_bytes": 1_048_576});
    let body = body.to_string();
    let request = format!(
        "POST /api/v1/tail_attempt_logs HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        web.address,
        web.bearer(),
        body.len()
    );
    let mut silent: Vec<_> = (0..20).map(|_| web.connect()).collect();
    for stream in &mut silent {
        // As many requests as it takes, without reading an answer.
        stream.set_nonblocking(true).unwrap();
        for _ in 0..50 {
            let _ = stream.write(request.as_bytes());
        }
    }
    assert_eq!(web.call("list_projects", &json!({})).status, 200);
    assert_eq!(attempt.status()["phase"], "settled");
}

#[test]
fn paths_lead_nowhere_else() {
    let provost = Provost::running();
    let web = Web::of(&provost);
    for path in [
        "/assets/../../../../etc/passwd",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets/%2e%2e/http-token",
        "/assets//etc/passwd",
        "/../http-token",
        "/attempts/..%2f..%2fhttp-token",
        "/attempts/%00",
    ] {
        let page = web.get(path);
        assert!((400..500).contains(&page.status), "{path}: {page:?}");
        assert!(!page.body.contains("root:"), "{path}");
        assert!(!page.body.contains(&web.token), "{path}");
    }
    let far = web.get("/attempts/0192f0c1-2345-7abc-8def-0123456789ab");
    assert_eq!(far.status, 404, "{far:?}");
}

#[test]
fn nothing_that_agents_or_files_say_is_markup() {
    const SCRIPT: &str = "<script>alert(1)</script>";
    const IMAGE: &str = "<img src=x onerror=alert(1)>";
    let provost = Provost::new().executor("sh", PLAIN, SHELL).started();
    let board = provost.board();
    let task = board.task(&format!("{SCRIPT} {IMAGE}"));
    let script = format!(
        "echo '{SCRIPT}{IMAGE}'; printf '\\033[31m{IMAGE}\\033[0m\\n'; \
         echo '{SCRIPT}' > 'a{IMAGE}.md'; echo '<svg onload=alert(1)></svg>' > x.svg; \
         printf '[x](javascript:alert(1)) {IMAGE}\\n'; exit 3"
    );
    let attempt = board.start_at(&task, "sh", &json!({"prompt": script}));
    attempt.settled();
    let web = Web::of(&provost);
    for path in [
        "/".to_owned(),
        "/board".to_owned(),
        format!("/tasks/{task}"),
        format!("/compare/{task}"),
        format!("/attempts/{}", attempt.id),
        format!("/attempts/{}/review", attempt.id),
        "/usage".to_owned(),
        "/settings".to_owned(),
    ] {
        let page = web.get(&path);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        for bad in
            ["<script>", "<img src=x", "onerror=alert(1)>", "href=\"javascript:", "<svg onload"]
        {
            assert!(!page.body.contains(bad), "{path} has {bad}: {}", page.body);
        }
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(!page.body.contains(" style=\"") && !page.body.contains(" onclick"), "{path}");
    }
}
