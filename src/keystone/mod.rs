//! Keystone as Berth needs it: who does this token belong to?
//!
//! The meaning is that of keystonemiddleware's `auth_token`. [`Keystone::validate`] asks the
//! [`cache`], then Keystone itself by way of the [`session`], which has Berth's own token and knows
//! where Keystone is. [`token`] reads the answer. Tokens are kept and compared as hashes, and no
//! word that goes to the log has one in it.

mod access;
mod cache;
mod credentials;
mod session;
mod token;

use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio::time::timeout;

pub use self::access::Rule as AccessRule;
use self::cache::{Cache, Entry};
pub use self::credentials::{Credentials, Domain, Scope, Secret, User};
use self::session::Session;
pub use self::token::Token;

/// Tokens asked about at the same time at the most; further ones wait.
const QUESTIONS_MAX: usize = 64;
/// How long it is remembered that a token is none.
const BAD_TTL: Duration = Duration::from_secs(5);

/// Where Keystone is, as whom to ask it, and how patiently.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where Berth gets its own token, with or without `/v3`.
    pub auth_url: String,
    /// As whom.
    pub credentials: Credentials,
    /// Where tokens are validated, if the catalog is not to be asked.
    pub endpoint: Option<String>,
    /// Which of its endpoints the catalog is asked for: `internal`, `public` or `admin`.
    pub interface: String,
    /// Of which region.
    pub region: Option<String>,
    /// How Keystone is reached.
    pub connection: Connection,
    /// How long an answer may take, with everything that has to be asked for it.
    pub timeout: Duration,
    /// How often a connection is tried again.
    pub retries: u32,
    /// How long a valid token is believed without asking again; 0: not at all.
    pub cache_time: Duration,
}

/// How Keystone is reached by TLS. All are PEM.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// The authorities that are trusted instead of the system's.
    pub ca: Option<Vec<u8>>,
    /// A certificate with its key, by which Berth shows who it is.
    pub identity: Option<Vec<u8>>,
    /// Whether any certificate is believed.
    pub insecure: bool,
}

/// How callers are judged by what Keystone says of them.
#[derive(Clone, Debug)]
pub struct AuthOptions {
    /// Where those who are turned away are told to get a token; the auth URL unless it is given.
    pub www_authenticate_uri: Option<String>,
    /// Roles of which a service that asks on behalf of a user has one.
    pub service_token_roles: Vec<String>,
    /// Whether a service token without one of them turns the request away.
    pub service_token_roles_required: bool,
    /// The type of this service in access rules.
    pub service_type: String,
}

/// Keystone did not say. The words are for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Keystone: {0}")]
pub struct Unavailable(pub String);

/// A Keystone, and what it said before.
#[derive(Debug)]
pub struct Keystone {
    session: Session,
    cache: Cache,
    turns: Semaphore,
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
        let turns = Semaphore::new(QUESTIONS_MAX);
        Ok(Self {
            session: Session::new(options)?,
            cache: Cache::new(),
            turns,
            timeout,
            cache_time,
        })
    }

    /// Where clients get a token, as far as Berth knows.
    pub fn auth_url(&self) -> &str {
        self.session.auth_url()
    }

    /// What a token says; `None` if it is not valid, or not any more. With `allow_expired`, one
    /// that has expired will do. Those who ask for the same token at the same time share an answer.
    ///
    /// # Errors
    /// Keystone does not say within the time.
    pub async fn validate(
        &self,
        token: &str,
        allow_expired: bool,
    ) -> Result<Option<Arc<Token>>, Unavailable> {
        let ask = async {
            let question = self.ask(token, allow_expired);
            timeout(self.timeout, question)
                .await
                .unwrap_or_else(|_| Err(Unavailable(format!("no answer in {:?}", self.timeout))))
        };
        let entry = self.cache.get_or(token, allow_expired, ask).await?;
        let now = OffsetDateTime::now_utc();
        Ok(entry.token.filter(|token| allow_expired || token.expires > now))
    }

    /// Whether there is a project with this id. Nothing is remembered of the answer.
    ///
    /// # Errors
    /// Keystone does not say within the time.
    pub async fn has_project(&self, id: &str) -> Result<bool, Unavailable> {
        let question = async {
            // The semaphore is never closed.
            let turn = self.turns.acquire().await;
            let _turn = turn.map_err(|error| Unavailable(error.to_string()))?;
            self.session.has_project(id).await
        };
        timeout(self.timeout, question)
            .await
            .unwrap_or_else(|_| Err(Unavailable(format!("no answer in {:?}", self.timeout))))
    }

    async fn ask(&self, token: &str, allow_expired: bool) -> Result<Entry, Unavailable> {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await.map_err(|error| Unavailable(error.to_string()))?;
        let answer = self.session.validate(token, allow_expired).await?;
        let Some(answer) = answer else {
            return Ok(Entry { token: None, ttl: BAD_TTL.min(self.cache_time) });
        };
        let lives = answer.expires - OffsetDateTime::now_utc();
        let ttl = self.cache_time.min(lives.try_into().unwrap_or(Duration::ZERO));
        Ok(Entry { token: Some(Arc::new(answer)), ttl })
    }
}
