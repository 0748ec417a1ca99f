//! The tool calls of a turn: what an agent tells of one bit by bit becomes one
//! `tool_use`, as soon as it tells what it does, and one `tool_result`, when it is
//! done. However many an agent begins, what is kept of them is bounded.

use std::collections::VecDeque;

use agent_client_protocol_schema::v1::{ToolCallStatus, ToolCallUpdate};
use provost_actors::event::{Action, Event, ToolStatus};
use serde::{Deserialize, Serialize};

use super::call::Call;
use super::conversation::Quirks;

/// Most calls without a result, and most ids of calls with one.
pub const CALLS_MAX: usize = 1000;
/// Most bytes of what is kept of calls without a result, the newest apart.
const KEPT_MAX: usize = 4 * 1024 * 1024;
/// The longest id that is remembered of a call with a result, in bytes.
const ID_MAX: usize = 1024;

/// The tool calls of a turn.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Calls {
    /// Those without a result, in the order they began.
    open: VecDeque<Call>,
    /// The newest of those with one: what is told of them later is not told again.
    done: VecDeque<String>,
}

/// What a permission is asked for.
pub struct Asked {
    pub id: String,
    pub name: String,
    pub text: String,
    pub action: Action,
}

impl Calls {
    /// What the agent tells of a call: a new one, or more of one.
    pub fn update(&mut self, update: ToolCallUpdate, quirks: &Quirks, out: &mut Vec<Event>) {
        let id = update.tool_call_id.to_string();
        if self.done.contains(&id) {
            return;
        }
        let is_new = !self.open.iter().any(|call| call.is(&id));
        let call = self.call(&update);
        call.merge(update);
        let status = call.told_of.status;
        let ended = matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
        if ended || call.tells_enough(is_new) {
            out.extend(call.tell(quirks));
        }
        if ended {
            out.push(call.result());
            self.open.retain(|call| !call.is(&id));
            self.is_done(id);
        }
        self.give_up_oldest(quirks, out);
    }

    /// The agent waits for a permission for a call. What it does.
    pub fn asks(
        &mut self,
        update: &ToolCallUpdate,
        quirks: &Quirks,
        out: &mut Vec<Event>,
    ) -> Asked {
        let call = self.call(update);
        call.ask(&update.fields);
        out.extend(call.tell(quirks));
        let action = call.action(quirks);
        let (text, name) = (call.text(&action), call.name.clone());
        self.give_up_oldest(quirks, out);
        Asked { id: update.tool_call_id.to_string(), name, text, action }
    }

    /// A permission was given without asking anyone.
    pub fn allowed(&mut self, id: &str) {
        if let Some(call) = self.open.iter_mut().find(|call| call.is(id)) {
            call.heard = true;
        }
    }

    /// Those that were only being prepared.
    pub fn tell(&mut self, quirks: &Quirks, out: &mut Vec<Event>) {
        out.extend(self.open.iter_mut().filter_map(|call| call.tell(quirks)));
    }

    /// The turn has ended by itself: what was asked for and not heard of again was
    /// denied, and of the rest there is nothing to tell.
    pub fn end(&mut self, quirks: &Quirks, out: &mut Vec<Event>) {
        self.tell(quirks, out);
        for call in std::mem::take(&mut self.open) {
            if call.asked && !call.heard {
                let tool_call_id = call.told_of.tool_call_id.to_string();
                let (text, status) = (String::new(), ToolStatus::Denied);
                out.push(Event::ToolResult { text, tool_call_id, status, exit_code: None });
            }
        }
        self.done.clear();
    }

    /// The open call that an update is about.
    fn call(&mut self, update: &ToolCallUpdate) -> &mut Call {
        let id = update.tool_call_id.to_string();
        let known = self.open.iter().position(|call| call.is(&id));
        let at = known.unwrap_or_else(|| {
            self.open.push_back(Call::new(update));
            self.open.len() - 1
        });
        &mut self.open[at]
    }

    /// Closes the oldest calls as unfinished while too much is open.
    fn give_up_oldest(&mut self, quirks: &Quirks, out: &mut Vec<Event>) {
        let is_too_much = |open: &VecDeque<Call>| {
            let kept = || open.iter().map(Call::weight).sum::<usize>();
            open.len() > CALLS_MAX || open.len() > 1 && kept() > KEPT_MAX
        };
        while is_too_much(&self.open)
            && let Some(mut oldest) = self.open.pop_front()
        {
            out.extend(oldest.tell(quirks));
            let id = oldest.told_of.tool_call_id.to_string();
            let text = format!(
                "the call {} of {} is closed as unfinished: too many calls have no result",
                beginning(&id),
                oldest.name
            );
            out.push(Event::SystemMessage { text });
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

/// The beginning of an id.
fn beginning(id: &str) -> &str {
    &id[..id.floor_char_boundary(ID_MAX)]
}
