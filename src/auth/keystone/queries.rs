//! Queries in flight. Each runs in its own task, which continues when the requests that wait for the
//! result give up, and which all requests with the same key share.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::observe::request_context::RequestScope;

/// Queries in flight, by key. Their number is bounded by the turns that each of them takes.
pub(super) struct Queries<K, A>(Mutex<HashMap<K, Arc<Sender<A>>>>);

type Sender<A> = watch::Sender<Option<A>>;

/// A query in flight, as its task sees it. Other requests can join it until this is dropped.
pub(super) struct Query<K: Eq + Hash, A> {
    queries: Arc<Queries<K, A>>,
    key: K,
    sender: Arc<Sender<A>>,
}

impl<K, A> Queries<K, A>
where
    K: Eq + Hash + Copy + Send + Sync + 'static,
    A: Clone + Send + Sync + 'static,
{
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    /// Returns the result of the query with this key: of the one in flight, or else of `start`, which a new task
    /// runs to its end even if this future is dropped. `None` if the task ends without a result.
    pub(super) async fn result<F>(
        self: &Arc<Self>,
        key: K,
        start: impl FnOnce(Arc<Query<K, A>>) -> F,
    ) -> Option<A>
    where
        F: Future<Output = Option<A>> + Send + 'static,
    {
        let mut response = {
            let mut in_flight = self.in_flight();
            if let Some(sender) = in_flight.get(&key) {
                sender.subscribe()
            } else {
                let (sender, response) = watch::channel(None);
                let sender = Arc::new(sender);
                in_flight.insert(key, Arc::clone(&sender));
                let query = Arc::new(Query { queries: Arc::clone(self), key, sender });
                let result = start(Arc::clone(&query));
                let task = async move {
                    if let Some(response) = result.await {
                        query.end();
                        query.sender.send_replace(Some(response));
                    }
                };
                tokio::spawn(RequestScope::current().during(task));
                response
            }
        };
        response.wait_for(Option::is_some).await.ok().and_then(|response| response.clone())
    }

    /// Returns the number of queries in flight.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.in_flight().len()
    }
}

impl<K: Eq + Hash, A> Queries<K, A> {
    fn in_flight(&self) -> MutexGuard<'_, HashMap<K, Arc<Sender<A>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, A> Query<K, A> {
    /// Waits until no request waits for the result any more. After that, no request can join the query.
    pub(super) async fn abandoned(&self) {
        loop {
            self.sender.closed().await;
            let mut in_flight = self.queries.in_flight();
            // A request may have joined before the lock was taken.
            if self.sender.receiver_count() == 0 {
                self.remove_from(&mut in_flight);
                return;
            }
        }
    }

    /// Makes later requests start a new query.
    fn end(&self) {
        self.remove_from(&mut self.queries.in_flight());
    }

    fn remove_from(&self, in_flight: &mut HashMap<K, Arc<Sender<A>>>) {
        if in_flight.get(&self.key).is_some_and(|sender| Arc::ptr_eq(sender, &self.sender)) {
            in_flight.remove(&self.key);
        }
    }
}

impl<K: Eq + Hash, A> Drop for Query<K, A> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<K, A> fmt::Debug for Queries<K, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Queries").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::{Notify, oneshot};

    use super::Queries;

    async fn until_none(queries: &Queries<u8, u8>) {
        while queries.count() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_query_goes_on_without_its_first_caller_and_others_join_it() {
        let queries = Queries::<u8, u8>::new();
        let (reply, replied) = oneshot::channel();
        {
            let first = queries.result(1, |_| async { replied.await.ok() });
            assert_eq!(first.now_or_never(), None);
        }
        let mut joined = Box::pin(queries.result(1, |_| async { panic!("queried twice") }));
        assert_eq!(joined.as_mut().now_or_never(), None);
        assert_eq!(queries.count(), 1);
        reply.send(7).unwrap();
        assert_eq!(joined.await, Some(7));
        assert_eq!(queries.count(), 0);
        assert_eq!(queries.result(1, |_| async { Some(8) }).await, Some(8));
    }

    #[tokio::test]
    async fn a_query_notices_when_all_callers_are_gone() {
        let queries = Queries::<u8, u8>::new();
        let start = |query: Arc<super::Query<u8, u8>>| async move {
            query.abandoned().await;
            None
        };
        let mut first = Box::pin(queries.result(1, start));
        let mut second = Box::pin(queries.result(1, start));
        assert_eq!(first.as_mut().now_or_never(), None);
        assert_eq!(second.as_mut().now_or_never(), None);
        drop(first);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(queries.count(), 1);
        drop(second);
        until_none(&queries).await;
    }

    #[tokio::test]
    async fn a_task_that_panics_gives_no_result_and_leaves_nothing_behind() {
        let queries = Queries::<u8, u8>::new();
        let go = Arc::new(Notify::new());
        let wait = Arc::clone(&go);
        let start = |_| async move {
            wait.notified().await;
            panic!("intended")
        };
        let mut waiting = Box::pin(queries.result(1, start));
        assert_eq!(waiting.as_mut().now_or_never(), None);
        go.notify_one();
        assert_eq!(waiting.await, None);
        until_none(&queries).await;
    }
}
