//! A server of a board that is reached by TLS. It needs PostgreSQL, which `.ci/postgres COMMAND` gives.

use std::fs;
use std::path::Path;

use crate::harness::postgres::{Server, rows};
use crate::harness::{Provost, needs, program};

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
            "postgres://provost:sesame@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={}",
            root.display()
        );
        let engine = format!("[engine]\nurl = \"{url}\"\ndurability = \"single\"\n");
        Provost::new().config(&engine)
    };
    for (host, authority) in [("localhost", "other.crt"), ("127.0.0.1", "ca.crt")] {
        let refused = on(host, authority).fails_to_start();
        assert_eq!(refused.code, 1, "{refused:?}");
        for expected in ["can't be reached", "certificate"] {
            assert!(refused.stderr.contains(expected), "{expected}: {refused:?}");
        }
    }
    let provost = on("localhost", "ca.crt").started();
    let attempt = provost.board().start("fake", "say hello");
    assert_eq!(attempt.settled()["state"], "completed");
    let by_tls = "SELECT CAST(count(*) AS text) FROM pg_stat_ssl s
         JOIN pg_stat_activity a USING (pid) WHERE a.application_name LIKE 'provost%' AND NOT s.ssl";
    assert_eq!(rows(&format!("{}&port={port}", server.url()), by_tls), ["0"]);
}
