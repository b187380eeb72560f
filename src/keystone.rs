//! The client of Keystone: to whom does a token belong?
//!
//! The meaning of tokens is that of keystonemiddleware's `auth_token`. [`Keystone::validate`] looks
//! into the [`cache`], then queries Keystone through the [`session`], which holds Berth's own token
//! and Keystone's URL. [`token`] parses the answer. Tokens are stored and compared as hashes, and
//! never logged.

mod access;
mod cache;
mod client;
mod credentials;
mod error;
mod options;
mod session;
#[cfg(test)]
mod tests;
mod token;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::time::timeout;

pub use self::access::Rule as AccessRule;
use self::cache::{Cache, Entry};
pub use self::credentials::{Credentials, Domain, Scope, Secret, User};
pub use self::error::Unavailable;
pub use self::options::{AuthOptions, Connection, Options};
use self::session::Session;
pub use self::token::Token;
use crate::turns::{Turns, Waiting};

/// The maximum number of concurrent queries for known callers: those whose token was valid at its
/// last validation, and those for whom a service vouches. Further queries wait.
const KNOWN_MAX: usize = 32;
/// How many of these may wait.
const KNOWN_WAITING: Waiting = Waiting { of_one: 4096, of_all: 8192 };
/// The maximum number of concurrent queries about tokens that anyone could have made up. Further
/// queries wait.
const UNKNOWN_MAX: usize = 32;
/// How many of these may wait. One address cannot take all places.
const UNKNOWN_WAITING: Waiting = Waiting { of_one: 256, of_all: 1024 };
/// How long it is cached that a token is invalid.
const BAD_TTL: Duration = Duration::from_secs(5);

/// A Keystone, with a cache of its answers.
#[derive(Debug)]
pub struct Keystone {
    session: Session,
    cache: Cache,
    known: Turns,
    unknown: Turns,
    timeout: Duration,
    cache_time: Duration,
}

impl Keystone {
    /// A client of Keystone. It does not connect until the first query.
    ///
    /// # Errors
    /// The URL, a certificate or a key is invalid.
    pub fn new(options: Options) -> Result<Self, String> {
        let (timeout, cache_time) = (options.timeout, options.cache_time);
        Ok(Self {
            session: Session::new(options)?,
            cache: Cache::new(),
            known: Turns::bounded(KNOWN_MAX, KNOWN_MAX, KNOWN_WAITING),
            unknown: Turns::bounded(UNKNOWN_MAX, UNKNOWN_MAX, UNKNOWN_WAITING),
            timeout,
            cache_time,
        })
    }

    /// The URL at which clients get a token.
    pub fn auth_url(&self) -> &str {
        self.session.auth_url()
    }

    /// The content of a token; `None` if it is not valid, or no longer. With `allow_expired`,
    /// because a service vouches for it, an expired token is valid, too. Concurrent calls for the
    /// same token share an answer. `from` is the client's address, by which queries to Keystone are
    /// shared fairly.
    ///
    /// # Errors
    /// Keystone does not answer in time, or too many requests wait for it already.
    pub async fn validate(
        &self,
        token: &str,
        allow_expired: bool,
        from: Option<IpAddr>,
    ) -> Result<Option<Arc<Token>>, Unavailable> {
        let ask = |seen: bool| async move {
            let turns = if seen || allow_expired { &self.known } else { &self.unknown };
            self.in_time(turns, from, self.ask(token, allow_expired)).await
        };
        let answer = self.cache.get_or(token, allow_expired, ask).await?;
        let now = OffsetDateTime::now_utc();
        Ok(answer.filter(|token| allow_expired || token.expires > now))
    }

    /// Whether a project with this id exists. The answer is not cached.
    ///
    /// # Errors
    /// Keystone does not answer in time.
    pub async fn has_project(&self, id: &str) -> Result<bool, Unavailable> {
        self.in_time(&self.known, None, self.session.has_project(id)).await
    }

    /// Queries Keystone in turn, and gives up when the time is over.
    async fn in_time<T>(
        &self,
        turns: &Turns,
        from: Option<IpAddr>,
        question: impl Future<Output = Result<T, Unavailable>>,
    ) -> Result<T, Unavailable> {
        let in_turn = async {
            let crowded = "too many requests wait for a question to it already";
            let turn = turns.turn(client::client(from)).await;
            let _turn = turn.map_err(|_| Unavailable(crowded.to_owned()))?;
            question.await
        };
        timeout(self.timeout, in_turn)
            .await
            .unwrap_or_else(|_| Err(Unavailable(format!("no answer in {:?}", self.timeout))))
    }

    async fn ask(&self, token: &str, allow_expired: bool) -> Result<Entry, Unavailable> {
        let answer = self.session.validate(token, allow_expired).await?;
        let Some(answer) = answer else {
            return Ok(Entry { token: None, ttl: BAD_TTL.min(self.cache_time) });
        };
        let lives = answer.expires - OffsetDateTime::now_utc();
        let ttl = self.cache_time.min(lives.try_into().unwrap_or(Duration::ZERO));
        Ok(Entry { token: Some(Arc::new(answer)), ttl })
    }
}
