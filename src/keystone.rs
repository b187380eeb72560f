//! Keystone as Berth needs it: who does this token belong to?
//!
//! The meaning is that of keystonemiddleware's `auth_token`. [`Keystone::validate`] asks the
//! [`cache`], then Keystone itself by way of the [`session`], which has Berth's own token and knows
//! where Keystone is. [`token`] reads the answer. Tokens are kept and compared as hashes, and no
//! word that goes to the log has one in it.

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

/// Questions asked at the same time for callers who are known: those whose token was valid when
/// last asked about, and those a service vouches for. Further ones wait.
const KNOWN_MAX: usize = 32;
/// How many of these wait.
const KNOWN_WAITING: Waiting = Waiting { of_one: 4096, of_all: 8192 };
/// Questions asked at the same time about tokens that anybody could have made up. Further ones
/// wait.
const UNKNOWN_MAX: usize = 32;
/// How many of these wait. One address leaves room for others.
const UNKNOWN_WAITING: Waiting = Waiting { of_one: 256, of_all: 1024 };
/// How long it is remembered that a token is none.
const BAD_TTL: Duration = Duration::from_secs(5);

/// A Keystone, and what it said before.
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
    /// A Keystone that is asked when there is something to ask, not before.
    ///
    /// # Errors
    /// The URL, a certificate or a key cannot be read.
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

    /// Where clients get a token, as far as Berth knows.
    pub fn auth_url(&self) -> &str {
        self.session.auth_url()
    }

    /// What a token says; `None` if it is not valid, or not any more. With `allow_expired`, one
    /// that has expired will do: somebody who is known vouches for it. Those who ask for the same
    /// token at the same time share an answer. `from` is the client's address; clients share what
    /// Keystone can be asked fairly.
    ///
    /// # Errors
    /// Keystone does not say within the time, or too many wait for it already.
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

    /// Whether there is a project with this id. Nothing is remembered of the answer.
    ///
    /// # Errors
    /// Keystone does not say within the time.
    pub async fn has_project(&self, id: &str) -> Result<bool, Unavailable> {
        self.in_time(&self.known, None, self.session.has_project(id)).await
    }

    /// Asks when there is a place, and gives up when the time is over.
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
