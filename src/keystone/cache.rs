//! A cache of Keystone's answers, by the hash of the token.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use moka::Expiry;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::error::Unavailable;
use super::token::Token;

/// The maximum number of cached valid tokens; beyond it, the least used are dropped.
const TOKENS_MAX: u64 = 20_000;
/// The same for invalid tokens. Anyone can send any number of these, so they must not displace
/// valid ones.
const BAD_TOKENS_MAX: u64 = 20_000;

/// An answer, and how long it may be cached.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The token; `None` if it is not valid.
    pub(super) token: Option<Arc<Token>>,
    /// How long the answer may be used.
    pub(super) ttl: Duration,
}

/// SHA-256 of a token, and whether it was accepted although expired.
type Key = ([u8; 32], bool);
// One type for all three caches, because each other one would compile the whole cache once more.
type Entries = moka::future::Cache<Key, Entry>;

/// Answers, each for as long as it may be cached.
#[derive(Debug)]
pub(super) struct Cache {
    good: Entries,
    bad: Entries,
    /// Tokens that were valid at their last validation, until they expire; without their contents.
    seen: Entries,
}

/// Expires each entry after its own time.
struct Ttl;

impl Expiry<Key, Entry> for Ttl {
    fn expire_after_create(&self, _: &Key, entry: &Entry, _: Instant) -> Option<Duration> {
        Some(entry.ttl)
    }
}

/// Why there is no valid token.
#[derive(Debug)]
enum Miss {
    /// The token is invalid, which may be cached for this long.
    Bad(Duration),
    Unavailable(Unavailable),
}

impl Cache {
    pub(super) fn new() -> Self {
        Self { good: entries(TOKENS_MAX), bad: entries(BAD_TOKENS_MAX), seen: entries(TOKENS_MAX) }
    }

    /// A token (`None` if it is not valid), from the cache or by `ask`, which gets whether the
    /// token was valid at its last validation. Of concurrent calls for one token, only one calls
    /// `ask`. All of them get its failure, which is not cached.
    pub(super) async fn get_or<F>(
        &self,
        token: &str,
        allow_expired: bool,
        ask: impl FnOnce(bool) -> F,
    ) -> Result<Option<Arc<Token>>, Unavailable>
    where
        F: Future<Output = Result<Entry, Unavailable>>,
    {
        let hash = Sha256::digest(token.as_bytes()).into();
        let (key, seen) = ((hash, allow_expired), (hash, false));
        if self.bad.contains_key(&key) {
            return Ok(None);
        }
        let asking = async {
            let entry = ask(self.seen.contains_key(&seen)).await.map_err(Miss::Unavailable)?;
            let token = entry.token.as_ref().ok_or(Miss::Bad(entry.ttl))?;
            let lives = token.expires - OffsetDateTime::now_utc();
            if let Ok(ttl) = Duration::try_from(lives) {
                self.seen.insert(seen, Entry { token: None, ttl }).await;
            }
            Ok::<_, Miss>(entry)
        };
        match self.good.try_get_with(key, asking).await {
            Ok(entry) => Ok(entry.token),
            Err(miss) => match miss.as_ref() {
                Miss::Unavailable(failure) => Err(failure.clone()),
                Miss::Bad(ttl) => {
                    self.bad.insert(key, Entry { token: None, ttl: *ttl }).await;
                    if !allow_expired {
                        self.seen.invalidate(&seen).await;
                    }
                    Ok(None)
                }
            },
        }
    }
}

fn entries(most: u64) -> Entries {
    moka::future::Cache::builder().max_capacity(most).expire_after(Ttl).build()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use time::OffsetDateTime;

    use super::{Cache, Entry, Token, Unavailable};

    const MINUTE: Duration = Duration::from_mins(1);

    fn valid(ttl: Duration) -> Entry {
        let expires = OffsetDateTime::now_utc() + time::Duration::hours(1);
        let token = Token { caller: Arc::default(), expires, access_rules: None };
        Entry { token: Some(Arc::new(token)), ttl }
    }

    #[tokio::test]
    async fn those_who_ask_at_once_share_an_answer() {
        for entry in [valid(MINUTE), Entry { token: None, ttl: MINUTE }] {
            let (cache, asked) = (Cache::new(), AtomicUsize::new(0));
            let ask = |_| async {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok(entry.clone())
            };
            let all = (0..50).map(|_| cache.get_or("a", false, ask));
            let told = futures_util::future::join_all(all).await;
            let is_valid = entry.token.is_some();
            assert!(told.into_iter().all(|token| token.unwrap().is_some() == is_valid));
            assert_eq!(asked.load(Ordering::Relaxed), 1);
            cache.get_or("a", true, ask).await.unwrap();
            cache.get_or("b", false, ask).await.unwrap();
            cache.get_or("a", false, ask).await.unwrap();
            assert_eq!(asked.load(Ordering::Relaxed), 3);
        }
    }

    #[tokio::test]
    async fn failures_and_what_does_not_hold_are_not_kept() {
        let cache = Cache::new();
        let away = |_| async { Err(Unavailable("away".to_owned())) };
        assert!(cache.get_or("a", false, away).await.is_err());
        for entry in [valid(Duration::ZERO), Entry { token: None, ttl: Duration::ZERO }] {
            assert!(cache.get_or("a", false, |_| async { Ok(entry) }).await.is_ok());
            assert!(cache.get_or("a", false, away).await.is_err());
        }
    }

    #[tokio::test]
    async fn a_token_was_seen_as_long_as_it_was_valid_when_last_asked_about() {
        let cache = Cache::new();
        let bad = || Entry { token: None, ttl: Duration::ZERO };
        let short = || valid(Duration::ZERO);
        let steps =
            [(bad(), false), (short(), false), (short(), true), (bad(), true), (bad(), false)];
        for (step, (entry, expected)) in steps.into_iter().enumerate() {
            let ask = |seen| async move {
                assert_eq!(seen, expected, "step {step}");
                Ok(entry)
            };
            cache.get_or("a", false, ask).await.unwrap();
        }
    }
}
