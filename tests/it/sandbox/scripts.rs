//! What scripts and checks in a box have: the variables that a person gives them, the certificates of
//! the machine, and the word of what the box hides from package managers.

use std::fs;

use serde_json::json;

use super::{can_hold, provost};
use crate::harness::get;

const SECRET: &str = "a-value-that-no-file-may-hold";

#[test]
fn a_setup_a_dev_server_and_a_check_get_what_a_person_gives_and_say_what_is_hidden() {
    if !can_hold() {
        return;
    }
    let provost = provost();
    let certificate = provost.path("person/authority.pem");
    fs::write(&certificate, "an authority").unwrap();
    fs::write(provost.path("person/.npmrc"), "registry=https://npm.corp.example/\n").unwrap();
    let serve = "exec python3 -c 'import http.server, os\n\
         class Answer(http.server.BaseHTTPRequestHandler):\n\
         \x20   def do_GET(self):\n\
         \x20       self.send_response(200)\n\
         \x20       self.end_headers()\n\
         \x20       self.wfile.write(os.environ[\"SERVED\"].encode())\n\
         http.server.HTTPServer((\"127.0.0.1\", int(os.environ[\"WEB_PORT\"])), Answer).serve_forever()'";
    let config = format!(
        "[projects.scratch]\nchecks_env_pass = ['CHECK_TOKEN']\n\
         [projects.scratch.checks]\ngiven = 'test \"$CHECK_TOKEN\" = {SECRET} -a -z \"$SETUP_TOKEN\"'\n\
         [projects.scratch.repos.app.setup]\nenv = {{ REGISTRY = 'npm.corp.example' }}\n\
         env_pass = ['SETUP_*']\n\
         run = 'echo registry $REGISTRY; echo token $SETUP_TOKEN; cat $SSL_CERT_FILE; cat ~/.npmrc || true'\n\
         [projects.scratch.repos.app.ports]\nnames = ['WEB_PORT']\n\
         [projects.scratch.repos.app.dev_server]\nrun = \"\"\"{serve}\"\"\"\n\
         port = 'WEB_PORT'\nready = 'http://127.0.0.1:$WEB_PORT/'\nenv = {{ SERVED = 'given' }}\n"
    );
    let provost = provost
        .config(&config)
        .variable("SETUP_TOKEN", SECRET)
        .variable("CHECK_TOKEN", SECRET)
        .variable("SSL_CERT_FILE", certificate.to_str().unwrap())
        .started();
    let board = provost.board();
    let attempt = board.start("boxed", "write new.txt new\nrun env");
    attempt.settled();
    let entries = attempt.normalized();
    let log = serde_json::to_string(&entries).unwrap();
    assert!(log.contains("registry npm.corp.example") && log.contains("an authority"), "{log}");
    assert!(!log.contains(SECRET) && !log.contains("SETUP_TOKEN="), "{log}");
    let notices = attempt.said("system_message").concat();
    assert!(notices.contains("It can't read ~/.npmrc, which package managers"), "{notices}");
    let preview = json!({"attempt_id": attempt.id, "action": "preview"});
    let preview = &provost.call("follow_up", &preview)["preview"];
    let served = get(preview["url"].as_str().unwrap()).unwrap();
    assert!(served.ends_with("given"), "{served}");
    provost.call("follow_up", &json!({"attempt_id": attempt.id, "action": "end_preview"}));
    let merge = json!({"attempt_id": attempt.id, "action": "merge", "timeout_ms": 60_000});
    let merged = provost.call("finish_attempt", &merge);
    assert_eq!(merged["state"], "done", "{merged}");
    let check = &merged["checks"][0];
    assert_eq!(check["sandbox"]["hidden"], json!(["~/.npmrc"]), "{check}");
    for file in ["provision.json", "manifest.json"] {
        let text = fs::read_to_string(attempt.dir().parent().unwrap().join(file));
        assert!(!text.unwrap_or_default().contains(SECRET), "{file}");
    }
}
