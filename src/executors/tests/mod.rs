//! What the tests of all protocols share.

pub mod transcripts;

use std::path::Path;

use provost_actors::executor::{McpServer, Stdin, Turn};
use serde_json::json;

use super::call::Call;
use super::*;

/// A first turn with this prompt.
pub fn turn(prompt: &str) -> Turn {
    let mcp = McpServer {
        name: "provost",
        command: "/usr/bin/provost".into(),
        args: vec!["mcp".into(), "--role".into(), "worker".into()],
        env: BTreeMap::from([("PROVOST_ATTEMPT_ID".into(), "0190".into())]),
    };
    let (cwd, scratch) = ("/w".into(), "/s".into());
    Turn { prompt: prompt.to_owned(), cwd, scratch, mcp, ..Turn::default() }
}

/// How a protocol launches its program with these options: a first turn, and
/// one that goes on with the conversation `c1`.
pub fn launches(protocol: Protocol, options: &[(&str, &str)]) -> [Value; 2] {
    let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let call = Call {
        program: "/bin/agent".into(),
        args: vec!["--own".to_owned()],
        env: BTreeMap::new(),
        options: options.collect(),
        prompt: config::PromptVia::Stdin,
        supports_mcp: true,
    };
    let first = turn("do it");
    let next = Turn { executor_session_id: Some("c1".into()), ..turn("go on") };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    [first, next].map(|turn| {
        let launch = match protocol {
            Protocol::Claude => claude::launch(&turn, call.clone()),
            Protocol::Codex => codex::launch(&turn, call.clone()).unwrap(),
            _ => acp::launch(&turn, call.clone()).unwrap(),
        };
        let stdin = match &launch.stdin {
            Stdin::Bytes(bytes) => text(bytes),
            other => format!("{other:?}"),
        };
        let files = launch.files.iter().map(|(name, bytes)| (name.clone(), text(bytes)));
        json!({
            "args": launch.args, "env": launch.env, "stdin": stdin,
            "files": files.collect::<BTreeMap<_, _>>(), "dialogue": launch.dialogue,
        })
    })
}

#[test]
fn what_comes_with_provost_opens_nothing_beyond_another_executor() {
    let registry =
        Registry::new(&Config::load(Path::new("/nowhere"), &[]).unwrap(), Machine::default());
    let all = registry.all();
    assert!(all.len() > 5);
    let own: Vec<_> = all.iter().map(|it| it.sandbox(None)).collect();
    assert!(own.iter().any(|it| !it.read.is_empty() && !it.hosts.is_empty()));
    for (one, other) in own.iter().flat_map(|one| own.iter().map(move |other| (one, other))) {
        assert_eq!(one.beyond(other, None), [] as [&str; 0]);
    }
}
