//! Queries in flight. Each runs in its own task, which continues when the requests that wait for the
//! result give up, and which all requests with the same key share.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tracing::Instrument as _;

use crate::observe::request_context;

/// Queries in flight, by key. Their number is bounded by the turns that each of them takes.
pub(super) struct Questions<K, A>(Mutex<HashMap<K, Arc<Sender<A>>>>);

type Sender<A> = watch::Sender<Option<A>>;

/// A query in flight, as its task sees it. Other requests can join it until this is dropped.
pub(super) struct Question<K: Eq + Hash, A> {
    questions: Arc<Questions<K, A>>,
    key: K,
    sender: Arc<Sender<A>>,
}

impl<K, A> Questions<K, A>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    A: Clone + Send + Sync + 'static,
{
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    /// Returns the result of the query with this key: of the one in flight, or else of `ask`, which a new task
    /// runs to its end even if this future is dropped. `None` if the task ends without a result.
    pub(super) async fn answer<F>(
        self: &Arc<Self>,
        key: K,
        ask: impl FnOnce(Arc<Question<K, A>>) -> F,
    ) -> Option<A>
    where
        F: Future<Output = Option<A>> + Send + 'static,
    {
        let mut answer = {
            let mut under_way = self.under_way();
            if let Some(sender) = under_way.get(&key) {
                sender.subscribe()
            } else {
                let (sender, answer) = watch::channel(None);
                let sender = Arc::new(sender);
                under_way.insert(key, Arc::clone(&sender));
                let question = Arc::new(Question { questions: Arc::clone(self), key, sender });
                let asked = ask(Arc::clone(&question));
                let task = async move {
                    if let Some(answer) = asked.await {
                        question.end();
                        question.sender.send_replace(Some(answer));
                    }
                };
                let task = request_context::carried(request_context::current(), task);
                tokio::spawn(task.in_current_span());
                answer
            }
        };
        answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone())
    }

    /// Returns the number of queries in flight.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.under_way().len()
    }
}

impl<K: Eq + Hash, A> Questions<K, A> {
    fn under_way(&self) -> MutexGuard<'_, HashMap<K, Arc<Sender<A>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, A> Question<K, A> {
    /// Waits until no request waits for the result any more. After that, no request can join the query.
    pub(super) async fn abandoned(&self) {
        loop {
            self.sender.closed().await;
            let mut under_way = self.questions.under_way();
            // A request may have joined before the lock was taken.
            if self.sender.receiver_count() == 0 {
                self.remove_from(&mut under_way);
                return;
            }
        }
    }

    /// Makes later requests start a new query.
    fn end(&self) {
        self.remove_from(&mut self.questions.under_way());
    }

    fn remove_from(&self, under_way: &mut HashMap<K, Arc<Sender<A>>>) {
        if under_way.get(&self.key).is_some_and(|sender| Arc::ptr_eq(sender, &self.sender)) {
            under_way.remove(&self.key);
        }
    }
}

impl<K: Eq + Hash, A> Drop for Question<K, A> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<K, A> fmt::Debug for Questions<K, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Questions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::{Notify, oneshot};

    use super::Questions;

    async fn until_none(questions: &Questions<u8, u8>) {
        while questions.count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_question_goes_on_without_those_who_asked_and_others_join_it() {
        let questions = Questions::<u8, u8>::new();
        let (reply, replied) = oneshot::channel();
        {
            let first = questions.answer(1, |_| async { replied.await.ok() });
            assert_eq!(first.now_or_never(), None);
        }
        let mut joined = Box::pin(questions.answer(1, |_| async { panic!("asked twice") }));
        assert_eq!(joined.as_mut().now_or_never(), None);
        assert_eq!(questions.count(), 1);
        reply.send(7).unwrap();
        assert_eq!(joined.await, Some(7));
        assert_eq!(questions.count(), 0);
        assert_eq!(questions.answer(1, |_| async { Some(8) }).await, Some(8));
    }

    #[tokio::test]
    async fn a_question_knows_when_nobody_waits_for_it() {
        let questions = Questions::<u8, u8>::new();
        let ask = |question: Arc<super::Question<u8, u8>>| async move {
            question.abandoned().await;
            None
        };
        let mut first = Box::pin(questions.answer(1, ask));
        let mut second = Box::pin(questions.answer(1, ask));
        assert_eq!(first.as_mut().now_or_never(), None);
        assert_eq!(second.as_mut().now_or_never(), None);
        drop(first);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(questions.count(), 1);
        drop(second);
        until_none(&questions).await;
    }

    #[tokio::test]
    async fn a_task_that_panics_answers_nobody_and_leaves_nothing_behind() {
        let questions = Questions::<u8, u8>::new();
        let go = Arc::new(Notify::new());
        let wait = Arc::clone(&go);
        let ask = |_| async move {
            wait.notified().await;
            panic!("intended")
        };
        let mut waiting = Box::pin(questions.answer(1, ask));
        assert_eq!(waiting.as_mut().now_or_never(), None);
        go.notify_one();
        assert_eq!(waiting.await, None);
        until_none(&questions).await;
    }
}
