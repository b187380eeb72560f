//! The client of Keystone: to whom does a token belong?
//!
//! The meaning of tokens is that of keystonemiddleware's `auth_token`. [`Keystone::validate`] looks
//! into the [`cache`], then queries Keystone through the [`session`], which holds Berth's own token
//! and Keystone's URL. [`token`] parses the answer. Tokens are stored and compared as hashes, and
//! never logged.
//!
//! Each query is made by a task of its own ([`questions`]), which goes on when the requests that wait
//! for it have given up. So an answer that takes longer than a request may wait is there when the
//! client asks again.

mod access;
mod cache;
mod client;
mod credentials;
mod error;
mod options;
mod questions;
mod session;
#[cfg(test)]
mod tests;
mod token;

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Instrument as _;

pub use self::access::Rule as AccessRule;
use self::cache::{Cache, Entry, Key};
pub use self::credentials::{Credentials, Domain, Scope, Secret, User};
pub use self::error::Unavailable;
pub use self::options::{AuthOptions, Options};
use self::questions::{Question, Questions};
use self::session::Session;
pub(crate) use self::session::{ANSWER_MAX, AUTH_TOKEN, SUBJECT_TOKEN, secret, tokens_url};
pub(crate) use self::token::Issued;
pub use self::token::Token;
use crate::fairness::turns::{Turns, Waiting};
pub use crate::http_client::ClientTls;
use crate::observe::spans::{milliseconds, span};

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

/// How many queries for known callers may go on after the time for an answer. One client has half of
/// these at most.
const KNOWN_LATE: usize = 64;
/// The same for tokens that anyone could have made up.
const UNKNOWN_LATE: usize = 64;
/// Nothing waits to be late: a query that finds no place among the late ones ends.
const NONE_WAITING: Waiting = Waiting { of_one: 0, of_all: 0 };
/// How long after its beginning a query ends that has not been answered.
const LATE_MAX: Duration = Duration::from_mins(2);
/// How long the answer to a late question about a project is cached.
const PROJECT_TTL: Duration = Duration::from_secs(30);
/// How many of these are cached.
const PROJECTS_MAX: u64 = 1000;

/// A Keystone, with a cache of its answers.
#[derive(Debug)]
pub struct Keystone {
    session: Session,
    cache: Cache,
    /// Whether a project exists, as far as the answer came too late for the request.
    projects: moka::future::Cache<ProjectKey, bool>,
    known: Lanes,
    unknown: Lanes,
    /// Questions about tokens.
    about_tokens: Arc<Questions<Key, Answer<Arc<Token>>>>,
    /// Questions about projects.
    about_projects: Arc<Questions<ProjectKey, Answer<()>>>,
    timeout: Duration,
    cache_time: Duration,
}

/// SHA-256 of a project's id: ids can be long, and anyone can make one up.
type ProjectKey = [u8; 32];

/// What Keystone says: `None` if what was asked about is not valid, or does not exist.
type Answer<T> = Result<Option<T>, Unavailable>;

/// The places of queries.
#[derive(Debug)]
struct Lanes {
    /// Queries within the time for an answer.
    prompt: Turns,
    /// Queries that take longer.
    late: Turns,
}

impl Lanes {
    fn new(prompt: usize, waiting: Waiting, late: usize) -> Self {
        Self {
            prompt: Turns::bounded(prompt, prompt, waiting),
            late: Turns::bounded(late, late / 2, NONE_WAITING),
        }
    }
}

impl Keystone {
    /// A client of Keystone. It does not connect until the first query.
    ///
    /// # Errors
    /// The URL, a certificate or a key is invalid.
    pub fn new(options: Options) -> Result<Self, String> {
        let (timeout, cache_time) = (options.timeout, options.cache_time);
        let projects = moka::future::Cache::builder().max_capacity(PROJECTS_MAX);
        Ok(Self {
            session: Session::new(options)?,
            cache: Cache::new(),
            projects: projects.time_to_live(PROJECT_TTL.min(cache_time)).build(),
            known: Lanes::new(KNOWN_MAX, KNOWN_WAITING, KNOWN_LATE),
            unknown: Lanes::new(UNKNOWN_MAX, UNKNOWN_WAITING, UNKNOWN_LATE),
            about_tokens: Questions::new(),
            about_projects: Questions::new(),
            timeout,
            cache_time,
        })
    }

    /// Begins the counters of questions with zero: an increase is seen only from a value that was there before.
    pub(crate) fn count_from_zero() {
        session::count_from_zero();
        cache::count_from_zero();
    }

    /// Whether Keystone's catalog, as Berth's own token has it, names an endpoint of Placement, by which clients find
    /// Berth; `None` if the token has no catalog.
    ///
    /// # Errors
    /// Keystone issues no token.
    pub async fn names_placement(&self) -> Result<Option<bool>, Unavailable> {
        self.session.names_placement().await
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
        self: &Arc<Self>,
        token: &str,
        allow_expired: bool,
        from: Option<IpAddr>,
    ) -> Result<Option<Arc<Token>>, Unavailable> {
        let key = cache::key(token, allow_expired);
        let answer = match self.cache.get(key).await {
            Some(known) => known,
            None => self.in_time(self.ask_about_token(key, token, from)).await?,
        };
        let now = OffsetDateTime::now_utc();
        Ok(answer.filter(|token| allow_expired || token.expires > now))
    }

    /// Whether a project with this id exists. The answer is cached only if it came too late.
    ///
    /// # Errors
    /// Keystone does not answer in time.
    pub async fn has_project(self: &Arc<Self>, id: &str) -> Result<bool, Unavailable> {
        let key: ProjectKey = Sha256::digest(id.as_bytes()).into();
        if let Some(exists) = self.projects.get(&key).await {
            return Ok(exists);
        }
        Ok(self.in_time(self.ask_about_project(key, id)).await?.is_some())
    }

    /// Waits for an answer as long as a request may. The question goes on after that.
    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Option<Answer<T>>>,
    ) -> Result<Option<T>, Unavailable> {
        match timeout(self.timeout, answer).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(Unavailable("the question to it broke off".to_owned())),
            Err(_) => Err(self.no_answer()),
        }
    }

    fn no_answer(&self) -> Unavailable {
        Unavailable(format!("no answer in {:?}", self.timeout))
    }

    async fn ask_about_token(
        self: &Arc<Self>,
        key: Key,
        token: &str,
        from: Option<IpAddr>,
    ) -> Option<Answer<Arc<Token>>> {
        let ask = |question: Arc<Question<_, _>>| {
            let (keystone, token) = (Arc::clone(self), token.to_owned());
            async move {
                // Another question about it may have ended in the meantime.
                if let Some(known) = keystone.cache.get(key).await {
                    return Some(Ok(known));
                }
                let allow_expired = cache::allows_expired(key);
                let is_known = allow_expired || keystone.cache.was_valid(key);
                let lanes = if is_known { &keystone.known } else { &keystone.unknown };
                let validate = async {
                    let began = Instant::now();
                    let answer = keystone.session.validate(&token, allow_expired).await?;
                    let entry = keystone.entry(answer, began.elapsed());
                    Ok(keystone.cache.put(key, entry).await)
                };
                keystone.ask_in_turn(lanes, from, &question, validate).await
            }
        };
        self.about_tokens.answer(key, ask).await
    }

    async fn ask_about_project(self: &Arc<Self>, key: ProjectKey, id: &str) -> Option<Answer<()>> {
        let ask = |question: Arc<Question<_, _>>| {
            let (keystone, id) = (Arc::clone(self), id.to_owned());
            async move {
                let has_project = async {
                    let began = Instant::now();
                    let exists = keystone.session.has_project(&id).await?;
                    if began.elapsed() > keystone.timeout {
                        keystone.projects.insert(key, exists).await;
                    }
                    Ok(exists.then_some(()))
                };
                keystone.ask_in_turn(&keystone.known, None, &question, has_project).await
            }
        };
        self.about_projects.answer(key, ask).await
    }

    /// Queries Keystone in turn; `None` if nobody waits for the answer any more before the query has
    /// begun. A query that takes longer than the time for an answer gives its place to another one,
    /// and goes on among the late ones.
    async fn ask_in_turn<K: Eq + Hash, T>(
        &self,
        lanes: &Lanes,
        from: Option<IpAddr>,
        question: &Question<K, Answer<T>>,
        query: impl Future<Output = Answer<T>>,
    ) -> Option<Answer<T>> {
        let client = client::client(from);
        let turn = tokio::select! {
            turn = lanes.prompt.turn(client).instrument(span!("queue")) => turn,
            () = question.abandoned() => return None,
        };
        let Ok(turn) = turn else {
            let crowded = "too many requests wait for a question to it already";
            return Some(Err(Unavailable(crowded.to_owned())));
        };
        let began = Instant::now();
        let mut query = std::pin::pin!(query);
        if let Ok(answer) = timeout(self.timeout, &mut query).await {
            return Some(answer);
        }
        drop(turn);
        let Some(_place) = lanes.late.turn_now(client) else {
            return Some(Err(self.no_answer()));
        };
        tracing::debug!("waiting longer for Keystone, so that its answer is known afterwards");
        let answer = timeout_at(began + self.late_max(), query).await;
        match &answer {
            Ok(Ok(_)) => tracing::info!(
                took_ms = milliseconds(began.elapsed()),
                "Keystone answered after the time that requests wait for it"
            ),
            Ok(Err(failure)) => tracing::debug!(%failure, "Keystone failed late"),
            Err(_) => tracing::debug!("Keystone did not answer late either"),
        }
        Some(answer.unwrap_or_else(|_| Err(self.no_answer())))
    }

    /// How long a query may take. An answer is used only for the cache time after its question, so
    /// no query goes on for longer than that.
    fn late_max(&self) -> Duration {
        LATE_MAX.min(self.cache_time).max(self.timeout)
    }

    /// An answer that took so long, and for how long it may be cached. Keystone may have looked when
    /// it was asked.
    fn entry(&self, answer: Option<Token>, took: Duration) -> Entry {
        let Some(answer) = answer else {
            return Entry { token: None, ttl: BAD_TTL.min(self.cache_time) };
        };
        let lives = answer.expires - OffsetDateTime::now_utc();
        let ttl = self.cache_time.saturating_sub(took);
        let ttl = ttl.min(lives.try_into().unwrap_or(Duration::ZERO));
        Entry { token: Some(Arc::new(answer)), ttl }
    }
}
