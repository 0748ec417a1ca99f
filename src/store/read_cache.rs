//! Answers of reads, kept until the next commit. The daemon is the only writer of a file, so a read gives the
//! same answer until something is committed. On a server other daemons write too, and nothing is kept.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use provost_actors::blocking::lock;
use provost_actors::refusal::Refusal;

/// How many answers are kept; one more removes all of them.
const MOST: usize = 256;

/// The kept answers. Cheap to clone: all clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(Arc<Mutex<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    by_question: HashMap<String, Arc<dyn Any + Send + Sync>>,
    /// How many commits have begun. While the newest of them has not ended, nothing is kept. A caller that
    /// waits for a commit may be dropped while SQLite still commits: then nothing is kept until the next
    /// commit ends.
    begun: u64,
    is_committing: bool,
    /// Other daemons write too, so nothing is kept.
    is_shared: bool,
}

impl Answers {
    /// The number of commits so far; `None` while one is under way.
    fn quiet(&self) -> Option<u64> {
        (!self.is_committing).then_some(self.begun)
    }
}

impl Kept {
    /// A cache that keeps nothing, for a board with several writers.
    pub fn of_many_writers() -> Self {
        Self(Arc::new(Mutex::new(Answers { is_shared: true, ..Answers::default() })))
    }

    /// The kept answer to `question`, or the answer of `read`, which is then kept. `question` must differ for
    /// each statement and its values.
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
        // A read that overlapped with a commit may have seen the rows from before it.
        if quiet.is_some() && answers.quiet() == quiet && !answers.is_shared {
            if answers.by_question.len() >= MOST {
                answers.by_question.clear();
            }
            answers.by_question.insert(question, Arc::new(answer.clone()));
        }
        Ok(answer)
    }

    /// Forgets all answers, because a commit begins. Returns the commit's number, for
    /// [`committed`](Self::committed).
    pub fn committing(&self) -> u64 {
        let mut answers = lock(&self.0);
        answers.by_question.clear();
        answers.begun += 1;
        answers.is_committing = true;
        answers.begun
    }

    /// Notes that the commit with this number has ended: later reads see what it wrote, and are kept again.
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
