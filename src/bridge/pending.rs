//! The state of a bridged session: the requests that wait for an answer, and the handshake that opens a new
//! connection. Pure.
//!
//! ```text
//!  client_says(request) ──▶ waiting ──daemon_says(its answer)──────▶ removed
//!                             │  │ ───client_says(cancelled)───────▶ removed
//!                             │  └──── give_up: refused ───────────▶ removed
//!                             └─ resend, at each new connection: stays waiting
//! ```

use provost_actors::refusal::{Code, Refusal};
use uuid::Uuid;

use super::frame::{self, Frame, Id};

/// The most requests in flight at once. The daemon's own limit is lower, so this only bounds memory.
const MAX_WAITING: usize = 4096;

/// The most bytes of all requests in flight together: the bridge keeps them to send them again.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The id of the `initialize` that opens a new connection. The client's own id could be that of another
/// request by now.
const REPLAY_ID: &str = "provost/replay";

/// What the bridge has to do with a line from the client.
#[derive(Debug, PartialEq, Eq)]
pub enum LineVerdict {
    /// Send this line to the daemon.
    Forward(Vec<u8>),
    /// Send this answer to the client.
    Answer(Vec<u8>),
    /// Do nothing now: the line is kept for the next connection, or dropped.
    Nothing,
}

/// A request without an answer.
struct Waiting {
    id: Id,
    kind: RequestKind,
    /// The request is of the protocol's version 2026-07-28, whose results have a `resultType`.
    modern: bool,
    line: Vec<u8>,
}

/// How the bridge treats a request: whether it gets an id of the bridge, and in which form it is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    ToolCall,
    Initialize,
    /// `subscriptions/listen`: it stays open as long as the session, so it does not count as waiting.
    Listen,
    /// A method of the worker API, called without MCP: its name has no `/`.
    Bare,
    Other,
}

/// The state of the session.
#[derive(Default)]
pub struct PendingRequests {
    /// In the order of arrival.
    waiting: Vec<Waiting>,
    /// The client's `initialize`, once the daemon has accepted it.
    initialize: Option<Vec<u8>>,
    /// The client's `notifications/initialized`.
    initialized: Option<Vec<u8>>,
}

impl PendingRequests {
    /// Takes a line from the client, without its line feed. `connected`: whether there is a connection to
    /// write it to. A request is kept until it is answered. Without a connection, a malformed line is
    /// answered at once, and any other line is dropped; `initialized` is kept for the next handshake in any
    /// case.
    pub fn client_says(&mut self, line: Vec<u8>, connected: bool) -> LineVerdict {
        match Frame::read(&line) {
            Frame::Request { id, method, modern } => {
                let kind = match method.as_ref() {
                    "tools/call" => RequestKind::ToolCall,
                    "initialize" => RequestKind::Initialize,
                    "subscriptions/listen" => RequestKind::Listen,
                    "ping" => RequestKind::Other,
                    method if method.contains('/') => RequestKind::Other,
                    _ => RequestKind::Bare,
                };
                self.request(Waiting { id, kind, modern, line }, connected)
            }
            Frame::Notification { method, params } => {
                match method.as_ref() {
                    "notifications/initialized" => self.initialized = Some(line.clone()),
                    "notifications/cancelled" => {
                        frame::cancelled_id(params).and_then(|id| self.remove(&id));
                    }
                    _ => {}
                }
                if connected { LineVerdict::Forward(line) } else { LineVerdict::Nothing }
            }
            Frame::Response { .. } | Frame::Other if connected => LineVerdict::Forward(line),
            Frame::Response { .. } => LineVerdict::Nothing,
            Frame::Other => LineVerdict::Answer(frame::malformed(&line)),
        }
    }

    /// Keeps a request, with an id of the bridge if it is a tool call. Refuses an id that is in flight, and
    /// requests beyond the limits.
    fn request(&mut self, mut request: Waiting, connected: bool) -> LineVerdict {
        if self.waiting.iter().any(|waiting| waiting.id == request.id) {
            let message = "Invalid request: a request with this id is in flight";
            return LineVerdict::Answer(frame::error(Some(&request.id), -32600, message, None));
        }
        let kept: usize = self.waiting.iter().map(|waiting| waiting.line.len()).sum();
        if self.waiting.len() >= MAX_WAITING || kept + request.line.len() > MAX_KEPT_BYTES {
            let refusal = Refusal::new(Code::RateLimited, "Too many calls are in flight.");
            return LineVerdict::Answer(answer(&request, &refusal));
        }
        if matches!(request.kind, RequestKind::ToolCall | RequestKind::Bare)
            && let Some(line) = frame::with_call_id(&request.line, &Uuid::now_v7().to_string())
        {
            request.line = line;
        }
        let line = request.line.clone();
        self.waiting.push(request);
        if connected { LineVerdict::Forward(line) } else { LineVerdict::Nothing }
    }

    /// Removes the request that a line from the daemon answers. The caller sends every line to the client.
    pub fn daemon_says(&mut self, line: &[u8]) {
        let Frame::Response { id, failed } = Frame::read(line) else { return };
        if let Some(Waiting { kind: RequestKind::Initialize, line, .. }) = self.remove(&id)
            && !failed
        {
            self.initialize = Some(line);
        }
    }

    fn remove(&mut self, id: &Id) -> Option<Waiting> {
        let place = self.waiting.iter().position(|waiting| waiting.id == *id)?;
        Some(self.waiting.remove(place))
    }

    /// Whether the client waits for an answer, so that a connection is needed.
    pub fn waits(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.kind != RequestKind::Listen)
    }

    /// The lines that bring a new connection to the state of the old one: an `initialize`, whose answer
    /// [`is_replayed`] recognises, and the `initialized` after it, if the client has sent one. `None`: the
    /// daemon has not accepted an `initialize` yet; the client's own one is then among the waiting requests.
    pub fn handshake(&self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let initialize = frame::with_id(self.initialize.as_ref()?, REPLAY_ID)?;
        Some((initialize, self.initialized.clone()))
    }

    /// The requests to send over a new connection, oldest first. They stay waiting.
    pub fn resend(&self) -> Vec<Vec<u8>> {
        self.waiting.iter().map(|waiting| waiting.line.clone()).collect()
    }

    /// Removes all waiting requests, and returns a refusal for each: the daemon does not come back. `why`
    /// is a detail of the refusals.
    pub fn give_up(&mut self, why: &str) -> Vec<Vec<u8>> {
        let message = "The daemon went away before it answered this call.";
        let refusal = Refusal::new(Code::DaemonRestarting, message).detail("reason", why);
        self.waiting.drain(..).map(|waiting| answer(&waiting, &refusal)).collect()
    }
}

/// The refusal of a request, in the form that its kind has.
fn answer(request: &Waiting, refusal: &Refusal) -> Vec<u8> {
    match request.kind {
        RequestKind::ToolCall => frame::refused_call(&request.id, request.modern, refusal),
        _ => frame::refused_request(&request.id, refusal),
    }
}

/// Whether a line from the daemon answers the handshake's `initialize`.
pub fn is_replayed(line: &[u8]) -> bool {
    let replayed = Id::read(&REPLAY_ID.into());
    matches!(Frame::read(line), Frame::Response { id, .. } if Some(&id) == replayed.as_ref())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn call(id: u64) -> Vec<u8> {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}})
            .to_string()
            .into_bytes()
    }

    fn result(id: u64) -> Vec<u8> {
        json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string().into_bytes()
    }

    fn json(line: &[u8]) -> Value {
        serde_json::from_slice(line).unwrap()
    }

    fn forwarded(verdict: LineVerdict) -> Vec<u8> {
        let LineVerdict::Forward(line) = verdict else { panic!("{verdict:?}") };
        line
    }

    #[test]
    fn a_call_is_sent_again_with_the_stamp_of_its_first_sending() {
        let mut pending = PendingRequests::default();
        let sent = forwarded(pending.client_says(call(1), true));
        assert!(json(&sent)["params"]["_meta"][frame::CALL_ID].is_string());
        assert_eq!(pending.resend(), [sent]);
        pending.daemon_says(&result(1));
        assert!(pending.resend().is_empty() && !pending.waits());
    }

    #[test]
    fn an_id_can_be_used_again_once_answered_and_not_before() {
        let mut pending = PendingRequests::default();
        forwarded(pending.client_says(call(1), true));
        let LineVerdict::Answer(refused) = pending.client_says(call(1), true) else { panic!() };
        assert_eq!(json(&refused)["error"]["code"], -32600);
        pending.daemon_says(&result(1));
        forwarded(pending.client_says(call(1), true));
    }

    #[test]
    fn an_answered_initialize_is_replayed_under_another_id() {
        let mut pending = PendingRequests::default();
        let initialize = json!({"id": 0, "method": "initialize", "params": {"a": 1}}).to_string();
        forwarded(pending.client_says(initialize.clone().into_bytes(), true));
        assert_eq!(pending.handshake(), None);
        assert_eq!(pending.resend(), [initialize.into_bytes()]);
        pending.daemon_says(&result(0));
        let initialized = br#"{"method":"notifications/initialized"}"#.to_vec();
        forwarded(pending.client_says(initialized.clone(), true));
        let (replayed, after) = pending.handshake().unwrap();
        assert_eq!(json(&replayed)["params"], json!({"a": 1}));
        assert_eq!(after, Some(initialized));
        let id = &json(&replayed)["id"];
        assert!(is_replayed(json!({"id": id, "result": {}}).to_string().as_bytes()));
        assert!(!is_replayed(&result(0)));
        assert!(pending.resend().is_empty());
    }

    #[test]
    fn a_refused_initialize_is_not_replayed() {
        let mut pending = PendingRequests::default();
        forwarded(pending.client_says(br#"{"id":0,"method":"initialize"}"#.to_vec(), true));
        pending.daemon_says(br#"{"id":0,"error":{"code":1,"message":""}}"#);
        assert_eq!(pending.handshake(), None);
    }

    #[test]
    fn a_cancelled_call_is_not_sent_again() {
        let mut pending = PendingRequests::default();
        forwarded(pending.client_says(call(1), true));
        let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 1}});
        forwarded(pending.client_says(cancel.to_string().into_bytes(), true));
        assert!(!pending.waits() && pending.resend().is_empty());
    }

    #[test]
    fn without_a_daemon_requests_are_held_and_malformed_lines_answered() {
        let mut pending = PendingRequests::default();
        assert_eq!(pending.client_says(call(1), false), LineVerdict::Nothing);
        let LineVerdict::Answer(parse_error) = pending.client_says(b"{".to_vec(), false) else {
            panic!()
        };
        assert_eq!(json(&parse_error)["error"]["code"], -32700);
        assert_eq!(pending.client_says(br#"{"method":"x"}"#.to_vec(), false), LineVerdict::Nothing);
        assert_eq!(pending.resend().len(), 1);
        assert_eq!(forwarded(pending.client_says(b"{".to_vec(), true)), b"{");
    }

    #[test]
    fn giving_up_answers_each_in_its_own_form() {
        let mut pending = PendingRequests::default();
        pending.client_says(call(1), false);
        pending.client_says(br#"{"id":"l","method":"tools/list"}"#.to_vec(), false);
        let answers: Vec<Value> =
            pending.give_up("no daemon").iter().map(|line| json(line)).collect();
        assert_eq!(answers[0]["id"], 1);
        assert_eq!(answers[0]["result"]["structuredContent"]["code"], "daemon_restarting");
        assert_eq!(answers[1]["id"], "l");
        assert_eq!(answers[1]["error"]["data"]["code"], "daemon_restarting");
        assert!(!pending.waits() && pending.give_up("").is_empty());
    }

    #[test]
    fn a_subscription_does_not_wait_and_is_opened_again() {
        let mut pending = PendingRequests::default();
        pending.client_says(br#"{"id":1,"method":"subscriptions/listen"}"#.to_vec(), true);
        assert!(!pending.waits());
        assert_eq!(pending.resend().len(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut pending = PendingRequests::default();
        let big = |id: u64| {
            let padding = "x".repeat(MAX_KEPT_BYTES / 2);
            json!({"id": id, "method": "m", "params": {"p": padding}}).to_string().into_bytes()
        };
        forwarded(pending.client_says(big(1), true));
        let LineVerdict::Answer(refused) = pending.client_says(big(2), true) else { panic!() };
        assert_eq!(json(&refused)["error"]["data"]["code"], "rate_limited");
        pending.daemon_says(&result(1));
        for id in 10..10 + MAX_WAITING as u64 {
            forwarded(pending.client_says(call(id), true));
        }
        let LineVerdict::Answer(refused) = pending.client_says(call(1), true) else { panic!() };
        assert_eq!(json(&refused)["result"]["structuredContent"]["code"], "rate_limited");
    }

    proptest! {
        #[test]
        fn every_request_is_answered_once_whatever_happens(
            steps in prop::collection::vec((0..3u8, 0..6u64, any::<bool>()), 0..60)
        ) {
            let mut pending = PendingRequests::default();
            let mut open: Vec<u64> = Vec::new();
            for (step, id, connected) in steps {
                match step {
                    0 => {
                        let verdict = pending.client_says(call(id), connected);
                        if open.contains(&id) {
                            prop_assert!(matches!(verdict, LineVerdict::Answer(_)));
                        } else {
                            open.push(id);
                        }
                    }
                    1 => {
                        pending.daemon_says(&result(id));
                        open.retain(|other| *other != id);
                    }
                    _ => {
                        let answered: Vec<Value> =
                            pending.give_up("").iter().map(|line| json(line)["id"].clone()).collect();
                        let expected: Vec<Value> = open.drain(..).map(Value::from).collect();
                        prop_assert_eq!(answered, expected);
                    }
                }
                prop_assert_eq!(pending.resend().len(), open.len());
            }
        }
    }
}
