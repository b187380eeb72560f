//! A cache of Keystone's responses, by the hash of the token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::counter;
use moka::Expiry;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::token::Token;

/// Maximum number of cached valid tokens; beyond it, the least used are dropped.
const TOKENS_MAX: u64 = 20_000;
/// Maximum number of cached invalid tokens. Anyone can send any number of these, so they must not displace
/// valid ones.
const BAD_TOKENS_MAX: u64 = 20_000;

/// A response with its lifetime.
#[derive(Clone, Debug)]
pub(super) struct CacheEntry {
    /// The token; `None` if it is not valid.
    pub(super) token: Option<Arc<Token>>,
    /// The time for which it may be used.
    pub(super) ttl: Duration,
}

/// SHA-256 of a token, and whether it was accepted although expired.
pub(super) type TokenKey = ([u8; 32], bool);
// One type for all three caches, because each further one would compile the cache again.
type Entries = moka::future::Cache<TokenKey, CacheEntry>;

/// Responses, each cached for its own time.
#[derive(Debug)]
pub(super) struct Cache {
    good: Entries,
    bad: Entries,
    /// Tokens that were valid at their last validation, until they expire; without their contents.
    previous: Entries,
}

/// Expires each entry after its own time.
struct Ttl;

/// The counter of tokens by the source of the response.
const TOKENS: &str = "berth_keystone_tokens_total";
const BAD: &str = "cache_of_invalid";
const GOOD: &str = "cache";
const QUERIED: &str = "keystone";

impl Expiry<TokenKey, CacheEntry> for Ttl {
    fn expire_after_create(
        &self,
        _: &TokenKey,
        entry: &CacheEntry,
        _: Instant,
    ) -> Option<Duration> {
        Some(entry.ttl)
    }
}

pub(super) fn count_from_zero() {
    for source in [BAD, GOOD, QUERIED] {
        counter!(TOKENS, "source" => source).increment(0);
    }
}

impl Cache {
    pub(super) fn new() -> Self {
        Self {
            good: entries(TOKENS_MAX),
            bad: entries(BAD_TOKENS_MAX),
            previous: entries(TOKENS_MAX),
        }
    }

    /// Returns the cached response about a token: the token, or `None` inside if it is invalid.
    pub(super) async fn get(&self, key: TokenKey) -> Option<Option<Arc<Token>>> {
        let count = |source: &'static str| counter!(TOKENS, "source" => source).increment(1);
        if self.bad.contains_key(&key) {
            count(BAD);
            return Some(None);
        }
        let known = self.good.get(&key).await;
        count(if known.is_some() { GOOD } else { QUERIED });
        known.map(|entry| entry.token)
    }

    /// Returns whether a token was valid at its last validation, and has not expired since.
    pub(super) fn was_valid(&self, (hash, _): TokenKey) -> bool {
        self.previous.contains_key(&(hash, false))
    }

    /// Caches a response, and returns it.
    pub(super) async fn put(&self, key: TokenKey, entry: CacheEntry) -> Option<Arc<Token>> {
        let (hash, allow_expired) = key;
        let previous = (hash, false);
        if let Some(token) = &entry.token {
            let lives = token.expires - OffsetDateTime::now_utc();
            if let Ok(ttl) = Duration::try_from(lives) {
                self.previous.insert(previous, CacheEntry { token: None, ttl }).await;
            }
            self.good.insert(key, entry.clone()).await;
        } else {
            self.bad.insert(key, entry.clone()).await;
            if !allow_expired {
                self.previous.invalidate(&previous).await;
            }
        }
        entry.token
    }
}

/// Returns the key of a token.
pub(super) fn key(token: &str, allow_expired: bool) -> TokenKey {
    (Sha256::digest(token.as_bytes()).into(), allow_expired)
}

/// Returns whether the key is that of a token that is accepted although expired.
pub(super) fn allows_expired((_, allow_expired): TokenKey) -> bool {
    allow_expired
}

fn entries(most: u64) -> Entries {
    moka::future::Cache::builder().max_capacity(most).expire_after(Ttl).build()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use time::OffsetDateTime;

    use super::{Cache, CacheEntry, Token, key};

    const MINUTE: Duration = Duration::from_mins(1);

    fn valid(ttl: Duration) -> CacheEntry {
        let expires = OffsetDateTime::now_utc() + time::Duration::hours(1);
        let token = Token { caller: Arc::default(), expires, access_rules: None };
        CacheEntry { token: Some(Arc::new(token)), ttl }
    }

    #[tokio::test]
    async fn an_answer_is_kept_for_one_token_and_one_meaning() {
        for entry in [valid(MINUTE), CacheEntry { token: None, ttl: MINUTE }] {
            let cache = Cache::new();
            let is_valid = entry.token.is_some();
            assert_eq!(cache.put(key("a", false), entry).await.is_some(), is_valid);
            let known = cache.get(key("a", false)).await.unwrap();
            assert_eq!(known.is_some(), is_valid);
            assert!(cache.get(key("a", true)).await.is_none());
            assert!(cache.get(key("b", false)).await.is_none());
        }
    }

    #[tokio::test]
    async fn expired_responses_are_not_cached() {
        for entry in [valid(Duration::ZERO), CacheEntry { token: None, ttl: Duration::ZERO }] {
            let cache = Cache::new();
            cache.put(key("a", false), entry).await;
            assert!(cache.get(key("a", false)).await.is_none());
        }
    }

    #[tokio::test]
    async fn a_token_is_cached_for_as_long_as_it_was_valid() {
        let cache = Cache::new();
        let bad = || CacheEntry { token: None, ttl: Duration::ZERO };
        let short = || valid(Duration::ZERO);
        let steps =
            [(bad(), false), (short(), false), (short(), true), (bad(), true), (bad(), false)];
        for (step, (entry, expected)) in steps.into_iter().enumerate() {
            assert_eq!(cache.was_valid(key("a", false)), expected, "step {step}");
            cache.put(key("a", false), entry).await;
        }
    }
}
