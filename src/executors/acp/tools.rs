//! The tool calls of a turn. The updates of a call become one `tool_use`, as soon as they say what the
//! call does, and one `tool_result` when it ends. The memory for calls is bounded, however many an agent
//! begins.

use std::collections::VecDeque;

use agent_client_protocol_schema::v1::{ToolCallStatus, ToolCallUpdate};

use super::call::Call;
use super::conversation::Quirks;
use crate::executors::prelude::*;

/// Most calls without a result; also most ids that are remembered of calls with one.
pub const CALLS_MAX: usize = 1000;
/// Most bytes that are kept of calls without a result; a single call may have more.
const KEPT_MAX: usize = 4 * 1024 * 1024;
/// The longest id that is remembered of a call with a result, in bytes.
const ID_MAX: usize = 1024;

/// The tool calls of a turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Calls {
    /// Calls without a result, in the order in which they began.
    open: VecDeque<Call>,
    /// Ids of the newest calls with a result; later updates of these calls are ignored.
    done: VecDeque<String>,
}

impl Calls {
    /// Takes an update, with which the agent begins a call or reports on one.
    pub fn update(&mut self, update: ToolCallUpdate, quirks: &Quirks, out: &mut Out) {
        let id = update.tool_call_id.to_string();
        if self.done.contains(&id) {
            return;
        }
        let (call, is_new) = self.call(&update);
        call.merge(update);
        let status = call.known.status;
        let ended = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
        if ended || call.is_clear(is_new) {
            out.extend(call.report(quirks).map(Observed::Entry));
        }
        if ended {
            out.push(Observed::Entry(call.result()));
            self.open.retain(|call| !call.is(&id));
            self.is_done(id);
        }
        self.give_up_oldest(quirks, out);
    }

    /// The agent asks for permission, in the request with this id: what the person gets to decide. `context`
    /// is what the answer will need.
    pub fn asks(
        &mut self,
        id: &Value,
        context: Value,
        update: &ToolCallUpdate,
        quirks: &Quirks,
        out: &mut Out,
    ) -> Request {
        let (call, is_new) = self.call(update);
        if is_new {
            call.merge(update.clone());
        }
        call.ask(&update.fields);
        out.extend(call.report(quirks).map(Observed::Entry));
        let action = call.action(quirks);
        let request = Request {
            key: id.to_string(),
            tool_call_id: Some(update.tool_call_id.to_string()),
            tool_name: call.name.clone(),
            // One line, because places that show only the first would hide the rest from the person who
            // decides.
            text: call.text(&action).trim().lines().collect::<Vec<_>>().join(" ⏎ "),
            action,
            question: None,
            context,
        };
        self.give_up_oldest(quirks, out);
        request
    }

    /// A permission was given without asking a person, so the call can't count as denied.
    pub fn allowed(&mut self, id: &str) {
        if let Some(call) = self.open.iter_mut().find(|call| call.is(id)) {
            call.heard = true;
        }
    }

    /// Reports the calls that were still being prepared.
    pub fn report(&mut self, quirks: &Quirks, out: &mut Out) {
        let reports = self.open.iter_mut().filter_map(|call| call.report(quirks));
        out.extend(reports.map(Observed::Entry));
    }

    /// The turn has ended, and was not interrupted. A call for which permission was asked, and which was not
    /// reported on since, was denied; the others get no result.
    pub fn end(&mut self, quirks: &Quirks, out: &mut Out) {
        self.report(quirks, out);
        for call in std::mem::take(&mut self.open) {
            if call.asked && !call.heard {
                out.push(Observed::Entry(Event::ToolResult {
                    text: String::new(),
                    tool_call_id: call.known.tool_call_id.to_string(),
                    status: ToolStatus::Denied,
                    exit_code: None,
                }));
            }
        }
        self.done.clear();
    }

    /// The open call that an update is about, and whether it is new.
    fn call(&mut self, update: &ToolCallUpdate) -> (&mut Call, bool) {
        let known = self.open.iter().position(|call| call.is(&update.tool_call_id.0));
        let at = known.unwrap_or_else(|| {
            self.open.push_back(Call::new(update));
            self.open.len() - 1
        });
        (&mut self.open[at], known.is_none())
    }

    /// Closes the oldest calls as unfinished while too many are open, or take too much memory.
    fn give_up_oldest(&mut self, quirks: &Quirks, out: &mut Out) {
        let is_too_much = |open: &VecDeque<Call>| {
            let kept = || open.iter().map(Call::weight).sum::<usize>();
            open.len() > CALLS_MAX || open.len() > 1 && kept() > KEPT_MAX
        };
        while is_too_much(&self.open)
            && let Some(mut oldest) = self.open.pop_front()
        {
            out.extend(oldest.report(quirks).map(Observed::Entry));
            let id = oldest.known.tool_call_id.to_string();
            let text = format!(
                "the call {} of {} is closed as unfinished: too many calls have no result",
                &id[..id.floor_char_boundary(ID_MAX)],
                oldest.name
            );
            out.push(system(text));
            self.is_done(id);
        }
    }

    fn is_done(&mut self, id: String) {
        if id.len() <= ID_MAX {
            self.done.push_back(id);
        }
        if self.done.len() > CALLS_MAX {
            self.done.pop_front();
        }
    }
}
