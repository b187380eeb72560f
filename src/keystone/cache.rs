//! What Keystone said lately, by the hash of the token.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use sha2::{Digest, Sha256};

use super::{Token, Unavailable};

/// Tokens remembered at the most; of the rest, those asked for least are forgotten.
const TOKENS_MAX: u64 = 20_000;

/// An answer, and how long it holds.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// What the token says; `None`: it is not valid.
    pub(super) token: Option<Arc<Token>>,
    /// How long the answer may be used.
    pub(super) ttl: Duration,
}

/// SHA-256 of a token, and whether an expired one was good enough.
type Key = ([u8; 32], bool);

/// Answers, each for as long as it holds.
#[derive(Debug)]
pub(super) struct Cache(moka::future::Cache<Key, Entry>);

struct Ttl;

impl Expiry<Key, Entry> for Ttl {
    fn expire_after_create(&self, _: &Key, entry: &Entry, _: Instant) -> Option<Duration> {
        Some(entry.ttl)
    }
}

impl Cache {
    pub(super) fn new() -> Self {
        Self(moka::future::Cache::builder().max_capacity(TOKENS_MAX).expire_after(Ttl).build())
    }

    /// The answer for a token; if there is none, the one that `ask` gives. Of those who want the
    /// same at the same time one asks. A failure is told to them and not kept.
    pub(super) async fn get_or(
        &self,
        token: &str,
        allow_expired: bool,
        ask: impl Future<Output = Result<Entry, Unavailable>>,
    ) -> Result<Entry, Unavailable> {
        let key = (Sha256::digest(token.as_bytes()).into(), allow_expired);
        let answer = self.0.try_get_with(key, ask).await;
        answer.map_err(|failure| Unavailable::clone(&failure))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::{Cache, Entry, Unavailable};

    #[tokio::test]
    async fn those_who_ask_at_once_share_an_answer() {
        let (cache, asked) = (Cache::new(), AtomicUsize::new(0));
        let ask = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(Entry { token: None, ttl: Duration::from_mins(1) })
        };
        let all = (0..50).map(|_| cache.get_or("a", false, ask()));
        assert!(futures_util::future::join_all(all).await.iter().all(Result::is_ok));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        cache.get_or("a", true, ask()).await.unwrap();
        cache.get_or("b", false, ask()).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn failures_and_what_does_not_hold_are_not_kept() {
        let cache = Cache::new();
        let away = || async { Err(Unavailable("away".to_owned())) };
        assert!(cache.get_or("a", false, away()).await.is_err());
        let short = || async { Ok(Entry { token: None, ttl: Duration::ZERO }) };
        assert!(cache.get_or("a", false, short()).await.is_ok());
        assert!(cache.get_or("a", false, away()).await.is_err());
    }
}
