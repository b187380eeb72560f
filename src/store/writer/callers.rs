//! Waits for the callers of the last batch, which usually send their next jobs as soon as they have a response. Without
//! that, a batch has half of the jobs of all callers, because the others queue up while it is written.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::job::BATCH_MAX;

/// Maximum time for which a batch waits for callers. The timer rounds it up to its next millisecond.
const GATHER_MAX: Duration = Duration::from_millis(1);
/// Number of batches that do not wait after one that has waited in vain.
const BATCHES_WITHOUT_WAIT: usize = 32;

/// The callers that had jobs in the last batch, or in the queue when it had been written.
#[derive(Default)]
pub(super) struct Callers {
    count: usize,
    /// Number of coming batches that do not wait.
    batches_without_wait: usize,
}

impl Callers {
    /// Counts the callers after a batch with this number of jobs.
    pub(super) fn count<J>(&mut self, jobs: usize, queue: &mpsc::Receiver<J>) {
        self.count = jobs + queue.len();
    }

    /// Waits for more jobs, if fewer callers have sent theirs than were counted. A caller who was alone at
    /// the last batch does not wait; the first one after a burst does, once, even if the writer has been idle since.
    pub(super) async fn gather<J>(&mut self, queue: &mut mpsc::Receiver<J>, waiting: &mut Vec<J>) {
        if self.batches_without_wait > 0 {
            self.batches_without_wait -= 1;
            return;
        }
        let expected = self.count.min(BATCH_MAX);
        let until = Instant::now() + GATHER_MAX;
        while waiting.len() < expected {
            let room = BATCH_MAX - waiting.len();
            if let Ok(1..) = timeout_at(until, queue.recv_many(waiting, room)).await {
                continue;
            }
            // If a quarter of the callers did not come, batches do not wait for a while.
            if waiting.len() * 4 < expected * 3 {
                self.batches_without_wait = BATCHES_WITHOUT_WAIT;
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the jobs of a batch that begins with one of two queued jobs, after one with `last` jobs.
    async fn gathered(callers: &mut Callers, last: usize) -> Vec<u8> {
        let (jobs, mut queue) = mpsc::channel(8);
        callers.count(last, &queue);
        let mut waiting = vec![0];
        jobs.send(1).await.unwrap();
        callers.gather(&mut queue, &mut waiting).await;
        waiting
    }

    #[tokio::test]
    async fn a_batch_waits_for_the_callers_of_the_last_one() {
        assert_eq!(gathered(&mut Callers::default(), 2).await, [0, 1]);
    }

    #[tokio::test]
    async fn a_single_caller_does_not_wait() {
        assert_eq!(gathered(&mut Callers::default(), 1).await, [0]);
    }

    #[tokio::test]
    async fn batches_do_not_wait_for_a_while_after_callers_did_not_come() {
        let mut callers = Callers::default();
        assert_eq!(gathered(&mut callers, 5).await, [0, 1], "it waited in vain for three more");
        for _ in 0..BATCHES_WITHOUT_WAIT {
            assert_eq!(gathered(&mut callers, 2).await, [0]);
        }
        assert_eq!(gathered(&mut callers, 2).await, [0, 1]);
    }

    #[tokio::test]
    async fn a_queue_without_senders_ends_the_wait() {
        let (jobs, mut queue) = mpsc::channel::<u8>(1);
        let mut callers = Callers::default();
        callers.count(2, &queue);
        drop(jobs);
        callers.gather(&mut queue, &mut vec![0]).await;
    }
}
