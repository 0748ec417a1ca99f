//! The first line of a connection to the daemon's socket, and the daemon's answer. Lines of MCP follow. Only
//! `Hello::of_process` reads the process's environment.

use serde::{Deserialize, Serialize};

use crate::role::{Access, Role};

/// The version of the hello. A client refuses a daemon of another version. The daemon does not compare it.
pub const VERSION: u32 = 1;

/// The kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// `provost mcp`, for an MCP client.
    Bridge,
    /// A command of `provost`, which may call the `provost/…` methods.
    Cli,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tag {
    #[default]
    Hello,
}

/// The first line of a client. The daemon believes it only as far as the kernel shows the client's process
/// outside of all attempts (`domain/callers.rs`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    provost: Tag,
    pub v: u32,
    /// `None`: the daemon decides by `attempt_id` and `cwd`.
    pub role: Option<Role>,
    pub client: Peer,
    /// The attempt that the client's environment names.
    pub attempt_id: Option<String>,
    /// The client's working directory, if it is UTF-8.
    pub cwd: Option<String>,
    /// A random id of this client process: limits and leases know the client by it.
    pub agent: Option<String>,
    /// `None`: the default of its role.
    pub access: Option<Access>,
}

impl Hello {
    /// The hello of this process.
    pub fn of_process(client: Peer, role: Option<Role>) -> Self {
        let cwd = std::env::current_dir().ok();
        Self {
            provost: Tag::Hello,
            v: VERSION,
            role,
            client,
            attempt_id: crate::home::surrounding_attempt(),
            cwd: cwd.and_then(|path| path.into_os_string().into_string().ok()),
            agent: Some(uuid::Uuid::now_v7().to_string()),
            access: None,
        }
    }
}

/// The daemon's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    provost: Tag,
    pub v: u32,
    /// The daemon's version.
    pub version: String,
    pub pid: u32,
}

impl Welcome {
    /// The answer of this process, as the daemon.
    pub fn of_process() -> Self {
        Self {
            provost: Tag::Hello,
            v: VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hello_has_its_agreed_form() {
        let hello = Hello {
            provost: Tag::Hello,
            v: 1,
            role: Some(Role::All),
            client: Peer::Cli,
            attempt_id: None,
            cwd: None,
            agent: Some("a".to_owned()),
            access: None,
        };
        assert_eq!(
            serde_json::to_value(&hello).unwrap(),
            json!({"provost": "hello", "v": 1, "role": "all", "client": "cli",
                "attempt_id": null, "cwd": null, "agent": "a", "access": null})
        );
        let least = r#"{"provost":"hello","v":1,"role":null,"client":"bridge"}"#;
        assert_eq!(serde_json::from_str::<Hello>(least).unwrap().role, None);
    }

    #[test]
    fn other_first_lines_are_no_hello() {
        for line in [r#"{"jsonrpc":"2.0"}"#, r#"{"provost":"bye","v":1,"version":"","pid":1}"#] {
            assert!(serde_json::from_str::<Welcome>(line).is_err());
        }
    }
}
