//! The inbox: one list of two kinds, first approvals, then questions, under one cursor. An answer goes
//! where its item is decided: to the attempt's owner, or into the store.

use async_trait::async_trait;
use provost_actors::ids::ApprovalId;

use super::{Domain, answered, cursor};
use crate::api::approvals::ListApprovalsInput;
use crate::api::decisions::{
    AnswerInput, AnswerOutput, Decided, DecisionTools, ListInboxInput, ListInboxOutput,
};
use crate::api::worker::inbox::{ListQuestionsInput, QuestionsAsked};
use crate::api::{Caller, Idempotent, Key, Refusable};

/// Where a page begins. As a cursor: `approvals:<id>`, `questions`, or `questions:<id>`.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    /// With approvals: those before this one.
    Approvals(Option<ApprovalId>),
    /// With questions: those before this one.
    Questions(Option<String>),
}

impl Start {
    /// `None`: it is no cursor of this list.
    fn read(cursor: &str) -> Option<Self> {
        let (list, before) = match cursor.split_once(':') {
            Some((list, before)) => (list, Some(before.to_owned())),
            None => (cursor, None),
        };
        match list {
            "approvals" => Some(Self::Approvals(Some(before?.parse().ok()?))),
            "questions" if before.as_ref().is_none_or(|id| id.len() <= 64) => {
                Some(Self::Questions(before))
            }
            _ => None,
        }
    }

    /// The cursor of a page that begins here.
    fn cursor(&self) -> String {
        let (list, before) = match self {
            Self::Approvals(before) => ("approvals", before.as_ref().map(ApprovalId::to_string)),
            Self::Questions(before) => ("questions", before.clone()),
        };
        before.map_or_else(|| list.to_owned(), |id| format!("{list}:{id}"))
    }
}

#[async_trait]
impl DecisionTools for Domain {
    async fn list_inbox(&self, _: &Caller, input: ListInboxInput) -> Refusable<ListInboxOutput> {
        let ListInboxInput { attempt_id, project_id, status, limit, cursor: given } = input;
        let start = cursor(given, "list_inbox", Start::read)?.unwrap_or(Start::Approvals(None));
        let mut listed = ListInboxOutput {
            approvals: Vec::new(),
            questions: Vec::new(),
            next_cursor: None,
            has_more: false,
        };
        // Approvals belong to attempts, so a list by project has questions only.
        let has_approvals = project_id.is_none() && status != QuestionsAsked::Reports;
        let (before, before_question) = match start {
            Start::Approvals(before) => (Some(before), None),
            Start::Questions(before) => (None, before),
        };
        if let Some(before) = before.filter(|_| has_approvals) {
            let (is_all, limit) = (status == QuestionsAsked::All, limit.get());
            let asked = ListApprovalsInput { attempt_id, is_all, limit, before };
            let page = self.list_approvals(asked).await?;
            let last = page.items.last().map(|last| last.approval_id);
            listed.approvals = page.items;
            if page.has_more {
                listed.has_more = true;
                listed.next_cursor = last.map(|id| Start::Approvals(Some(id)).cursor());
                return Ok(listed);
            }
        }
        // Questions belong to projects, so a list by attempt has approvals only.
        if attempt_id.is_some() {
            return Ok(listed);
        }
        let room = limit.get().saturating_sub(listed.approvals.len());
        // Also with a full page, one question is asked for: `has_more` has to say whether questions
        // follow.
        let limit = room.max(1);
        let asked = ListQuestionsInput { project_id, status, limit, before: before_question };
        let page = self.store.inbox(&asked).await?;
        if room == 0 {
            listed.has_more = !page.items.is_empty();
            listed.next_cursor = listed.has_more.then(|| Start::Questions(None).cursor());
            return Ok(listed);
        }
        listed.next_cursor = page.next(|question| question.question_id.clone());
        listed.next_cursor = listed.next_cursor.map(|id| Start::Questions(Some(id)).cursor());
        listed.has_more = page.has_more;
        listed.questions = page.items;
        Ok(listed)
    }

    async fn answer(
        &self,
        caller: &Caller,
        key: Option<Key>,
        input: AnswerInput,
    ) -> Refusable<Idempotent<AnswerOutput>> {
        Ok(match Decided::try_from(input)? {
            Decided::Approval(input) => {
                let answer = self.respond_approval(caller, key, input).await?;
                answered(answer, AnswerOutput::Approval)
            }
            Decided::Question(input) => {
                let answer = self.answer_question(caller, key, input).await?;
                answered(answer, AnswerOutput::Question)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_the_list_and_the_place_in_it() {
        let id = "01936d5e-5f7a-7c3e-8f00-0123456789ab".to_owned();
        for start in [
            Start::Approvals(Some(id.parse().unwrap())),
            Start::Questions(None),
            Start::Questions(Some(id.clone())),
        ] {
            assert_eq!(Start::read(&start.cursor()), Some(start));
        }
        for bad in ["", "approvals", "approvals:x", "tasks:x", &id] {
            assert_eq!(Start::read(bad), None, "{bad}");
        }
    }
}
