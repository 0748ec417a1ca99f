//! What was read from the database, for as long as it holds: until the next commit. The daemon is
//! the only writer of a file, so a read that nothing was committed after has the same answer. On a
//! server other daemons write too, and nothing is kept.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use provost_actors::blocking::lock;
use provost_actors::refusal::Refusal;

/// Answers that are kept at once.
const MOST: usize = 256;

/// Cheap to clone: there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<Mutex<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    by_question: HashMap<String, Arc<dyn Any + Send + Sync>>,
    /// Commits that were begun. While the last of them has not ended, nothing is kept: whoever
    /// waits for a commit may be dropped, and SQLite commits all the same.
    begun: u64,
    is_committing: bool,
    /// Others write too.
    is_shared: bool,
}

impl Answers {
    /// The commits so far, while none is under way.
    fn quiet(&self) -> Option<u64> {
        (!self.is_committing).then_some(self.begun)
    }
}

impl Kept {
    /// Keeps nothing.
    pub fn of_many_writers() -> Self {
        Self(Arc::new(Mutex::new(Answers { is_shared: true, ..Answers::default() })))
    }

    /// The answer to a question, which is read if it is not known. A question is a text that no
    /// other statement has.
    pub async fn answer<T: Clone + Send + Sync + 'static>(
        &self,
        question: String,
        read: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let (known, quiet) = {
            let answers = lock(&self.0);
            (answers.by_question.get(&question).cloned(), answers.quiet())
        };
        if let Some(known) = known.as_deref().and_then(<dyn Any + Send + Sync>::downcast_ref::<T>) {
            return Ok(known.clone());
        }
        let answer = read.await?;
        let mut answers = lock(&self.0);
        // A read that began while something was committed may have seen what was there before it.
        if quiet.is_some() && answers.quiet() == quiet && !answers.is_shared {
            if answers.by_question.len() >= MOST {
                answers.by_question.clear();
            }
            answers.by_question.insert(question, Arc::new(answer.clone()));
        }
        Ok(answer)
    }

    /// A commit begins: nothing that is known holds from here on.
    pub fn committing(&self) -> u64 {
        let mut answers = lock(&self.0);
        answers.by_question.clear();
        answers.begun += 1;
        answers.is_committing = true;
        answers.begun
    }

    /// The commit with this number has ended, and later reads see what it wrote.
    pub fn committed(&self, number: u64) {
        let mut answers = lock(&self.0);
        answers.is_committing &= answers.begun != number;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Reads a number that grows with each read.
    async fn ask(kept: &Kept, question: &str, reads: &AtomicU32) -> u32 {
        let read = async { Ok(reads.fetch_add(1, Ordering::Relaxed)) };
        kept.answer(question.to_owned(), read).await.unwrap()
    }

    #[tokio::test]
    async fn an_answer_holds_until_a_commit() {
        let (kept, reads) = (Kept::default(), AtomicU32::new(0));
        assert_eq!([ask(&kept, "a", &reads).await, ask(&kept, "a", &reads).await], [0, 0]);
        assert_eq!([ask(&kept, "b", &reads).await, ask(&kept, "a", &reads).await], [1, 0]);
        let number = kept.committing();
        assert_eq!([ask(&kept, "a", &reads).await, ask(&kept, "a", &reads).await], [2, 3]);
        kept.committed(number);
        assert_eq!([ask(&kept, "a", &reads).await, ask(&kept, "a", &reads).await], [4, 4]);
    }

    #[tokio::test]
    async fn what_was_read_before_a_commit_is_not_kept_after_it() {
        let (kept, reads) = (Kept::default(), AtomicU32::new(0));
        let meanwhile = async {
            let number = kept.committing();
            kept.committed(number);
            Ok(7)
        };
        assert_eq!(kept.answer("a".to_owned(), meanwhile).await.unwrap(), 7);
        assert_eq!(ask(&kept, "a", &reads).await, 0);
    }

    #[tokio::test]
    async fn what_was_read_while_something_was_committed_is_not_kept() {
        let (kept, reads) = (Kept::default(), AtomicU32::new(0));
        let number = kept.committing();
        let meanwhile = async {
            kept.committed(number);
            Ok(7)
        };
        assert_eq!(kept.answer("a".to_owned(), meanwhile).await.unwrap(), 7);
        assert_eq!(ask(&kept, "a", &reads).await, 0);
    }

    #[tokio::test]
    async fn nothing_is_kept_after_a_commit_whose_end_is_not_known() {
        let (kept, reads) = (Kept::default(), AtomicU32::new(0));
        kept.committing();
        assert_eq!([ask(&kept, "a", &reads).await, ask(&kept, "a", &reads).await], [0, 1]);
        let number = kept.committing();
        kept.committed(number - 1);
        assert_eq!([ask(&kept, "a", &reads).await, ask(&kept, "a", &reads).await], [2, 3]);
        kept.committed(number);
        assert_eq!([ask(&kept, "a", &reads).await, ask(&kept, "a", &reads).await], [4, 4]);
    }
}
