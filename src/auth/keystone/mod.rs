//! The client of Keystone, which validates tokens and returns their callers.
//!
//! Tokens have the meaning of keystonemiddleware's `auth_token`. [`Keystone::validate`] looks
//! into the [`cache`], then queries Keystone through the [`session`], which holds Berth's own token
//! and Keystone's URL. [`token`] parses the response. Tokens are stored and compared as hashes, and
//! never logged.
//!
//! Each query runs in its own task ([`queries`]), which continues after the timeout of the requests
//! that wait for it. So a response that takes longer than that is cached when the client tries again.

mod access;
mod cache;
mod client;
mod clock;
mod credentials;
mod options;
mod queries;
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

pub use self::access::Rule as AccessRule;
use self::cache::{Cache, CacheEntry, TokenKey};
pub use self::credentials::{Credentials, Domain, Scope, Secret, User};
pub use self::options::{AuthOptions, Options};
use self::queries::{Queries, Query};
use self::session::Session;
pub use self::session::Unavailable;
pub(crate) use self::session::{ANSWER_MAX, AUTH_TOKEN, SUBJECT_TOKEN, secret, tokens_url};
pub(crate) use self::token::Issued;
pub use self::token::Token;
use crate::fairness::turns::{Turns, WaitingLimits};
pub use crate::http_client::ClientTls;
use crate::observe::spans::{Timed, milliseconds, span};

/// Maximum number of concurrent queries for known callers: their token was valid at its last validation, or a
/// service vouches for them. Further queries wait.
const KNOWN_MAX: usize = 32;
/// Maximum numbers of waiting queries for known callers.
const KNOWN_WAITING: WaitingLimits = WaitingLimits { per_requester: 4096, total: 8192 };
/// Maximum number of concurrent queries about tokens that anyone could have made up. Further
/// queries wait.
const UNKNOWN_MAX: usize = 32;
/// Maximum numbers of waiting queries about such tokens. One address cannot take all places.
const UNKNOWN_WAITING: WaitingLimits = WaitingLimits { per_requester: 256, total: 1024 };
/// Time for which invalid tokens are cached.
const BAD_TTL: Duration = Duration::from_secs(5);

/// Maximum number of queries for known callers that continue after the timeout of requests. One client has at
/// most half of these.
const KNOWN_LATE: usize = 64;
/// The same for tokens that anyone could have made up.
const UNKNOWN_LATE: usize = 64;
/// Late queries never wait: one that finds no place is dropped.
const NONE_WAITING: WaitingLimits = WaitingLimits { per_requester: 0, total: 0 };
/// Maximum duration of a query.
const LATE_MAX: Duration = Duration::from_mins(2);
/// Time for which late responses about projects are cached.
const PROJECT_TTL: Duration = Duration::from_secs(30);
/// Maximum number of these.
const PROJECTS_MAX: u64 = 1000;

/// A Keystone, with a cache of its responses.
#[derive(Debug)]
pub struct Keystone {
    session: Session,
    cache: Cache,
    /// Whether a project exists, from responses that came too late for their request.
    projects: moka::future::Cache<ProjectKey, bool>,
    known: Lanes,
    unknown: Lanes,
    /// Queries about tokens.
    token_queries: Arc<Queries<TokenKey, CachedResult<Arc<Token>>>>,
    /// Queries about projects.
    project_queries: Arc<Queries<ProjectKey, CachedResult<()>>>,
    timeout: Duration,
    cache_time: Duration,
}

/// SHA-256 of a project's id: ids can be long, and anyone can make one up.
type ProjectKey = [u8; 32];

/// Keystone's response: `None` if the token is invalid, or the project does not exist.
type CachedResult<T> = Result<Option<T>, Unavailable>;

/// The limits of concurrent queries.
#[derive(Debug)]
struct Lanes {
    /// Queries within the timeout of requests.
    prompt: Turns,
    /// Queries that take longer.
    late: Turns,
}

impl Lanes {
    fn new(prompt: usize, waiting: WaitingLimits, late: usize) -> Self {
        Self {
            prompt: Turns::bounded(prompt, prompt, waiting),
            late: Turns::bounded(late, late / 2, NONE_WAITING),
        }
    }
}

impl Keystone {
    /// Makes a client of Keystone. It does not connect until the first query.
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
            token_queries: Queries::new(),
            project_queries: Queries::new(),
            timeout,
            cache_time,
        })
    }

    /// Starts the counters at zero: rates of a counter need its first value.
    pub(crate) fn count_from_zero() {
        session::count_from_zero();
        cache::count_from_zero();
    }

    /// Returns whether the catalog of Berth's own token has an endpoint of Placement, by which clients find Berth;
    /// `None` if the token has no catalog.
    ///
    /// # Errors
    /// Keystone issues no token.
    pub async fn names_placement(&self) -> Result<Option<bool>, Unavailable> {
        self.session.names_placement().await
    }

    /// Returns a description of the difference between the clocks of this machine and of Keystone if it is too large.
    pub fn clock_fault(&self) -> Option<String> {
        self.session.clock_fault()
    }

    /// Returns the URL at which clients get a token.
    pub fn auth_url(&self) -> &str {
        self.session.auth_url()
    }

    /// Returns the content of a token; `None` if it is invalid or expired. With `allow_expired`, because a
    /// service vouches for it, an expired token is valid, too. Concurrent calls for the same token share a
    /// query. `from` is the client's address, by which queries to Keystone are shared fairly.
    ///
    /// # Errors
    /// Keystone does not respond in time, or too many requests wait for it already.
    pub async fn validate(
        self: &Arc<Self>,
        token: &str,
        allow_expired: bool,
        from: Option<IpAddr>,
    ) -> Result<Option<Arc<Token>>, Unavailable> {
        let key = cache::key(token, allow_expired);
        let response = match self.cache.get(key).await {
            Some(known) => known,
            None => self.in_time(self.ask_about_token(key, token, from)).await?,
        };
        let now = OffsetDateTime::now_utc();
        Ok(response.filter(|token| allow_expired || token.expires > now))
    }

    /// Returns whether a project with this id exists. The response is cached only if it was late.
    ///
    /// # Errors
    /// Keystone does not respond in time.
    pub async fn has_project(self: &Arc<Self>, id: &str) -> Result<bool, Unavailable> {
        let key: ProjectKey = Sha256::digest(id.as_bytes()).into();
        if let Some(exists) = self.projects.get(&key).await {
            return Ok(exists);
        }
        Ok(self.in_time(self.ask_about_project(key, id)).await?.is_some())
    }

    /// Gets a token for credentials of a client at an address; `None` if Keystone does not accept them.
    ///
    /// # Errors
    /// Keystone does not respond in time, or too many requests wait for it already.
    pub async fn sign_in(
        &self,
        credentials: &Credentials,
        from: Option<IpAddr>,
    ) -> Result<Option<String>, Unavailable> {
        let issued = async {
            let turn = self.unknown.prompt.turn(client::client(from)).await;
            let turn = turn.map_err(|full| Unavailable(full.to_string()))?;
            let issued = self.session.issue(credentials).await?;
            drop(turn);
            // A header value that is not text cannot be sent back by a browser.
            Ok(issued.and_then(|(token, _)| token.to_str().ok().map(str::to_owned)))
        };
        timeout(self.timeout, issued).await.map_err(|_| self.no_answer())?
    }

    /// Waits for a result until the timeout of requests. The query continues after that.
    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Option<CachedResult<T>>>,
    ) -> Result<Option<T>, Unavailable> {
        match timeout(self.timeout, answer).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(Unavailable("the query ended without a result".to_owned())),
            Err(_) => Err(self.no_answer()),
        }
    }

    fn no_answer(&self) -> Unavailable {
        Unavailable(format!("no response within {:?}", self.timeout))
    }

    async fn ask_about_token(
        self: &Arc<Self>,
        key: TokenKey,
        token: &str,
        from: Option<IpAddr>,
    ) -> Option<CachedResult<Arc<Token>>> {
        let start = |shared_query: Arc<Query<_, _>>| {
            let (keystone, token) = (Arc::clone(self), token.to_owned());
            async move {
                // Another query about it may have ended in the meantime.
                if let Some(known) = keystone.cache.get(key).await {
                    return Some(Ok(known));
                }
                let allow_expired = cache::allows_expired(key);
                let is_known = allow_expired || keystone.cache.was_valid(key);
                let lanes = if is_known { &keystone.known } else { &keystone.unknown };
                let validate = async {
                    let began = Instant::now();
                    let response = keystone.session.validate(&token, allow_expired).await?;
                    let entry = keystone.entry(response, began.elapsed());
                    Ok(keystone.cache.put(key, entry).await)
                };
                keystone.query_in_turn(lanes, from, &shared_query, validate).await
            }
        };
        self.token_queries.result(key, start).await
    }

    async fn ask_about_project(
        self: &Arc<Self>,
        key: ProjectKey,
        id: &str,
    ) -> Option<CachedResult<()>> {
        let start = |shared_query: Arc<Query<_, _>>| {
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
                keystone.query_in_turn(&keystone.known, None, &shared_query, has_project).await
            }
        };
        self.project_queries.result(key, start).await
    }

    /// Runs a query when its turn comes; `None` if all requests for it give up before. After the timeout of
    /// requests, the query gives its place to another one, and continues among the late ones.
    async fn query_in_turn<K: Eq + Hash, T>(
        &self,
        lanes: &Lanes,
        from: Option<IpAddr>,
        shared_query: &Query<K, CachedResult<T>>,
        query: impl Future<Output = CachedResult<T>>,
    ) -> Option<CachedResult<T>> {
        let client = client::client(from);
        let turn = tokio::select! {
            turn = lanes.prompt.turn(client).timed(span!("queue")) => turn,
            () = shared_query.abandoned() => return None,
        };
        let Ok(turn) = turn else {
            let crowded = "too many requests wait for it already";
            return Some(Err(Unavailable(crowded.to_owned())));
        };
        let began = Instant::now();
        let mut query = std::pin::pin!(query);
        if let Ok(response) = timeout(self.timeout, &mut query).await {
            return Some(response);
        }
        session::late();
        drop(turn);
        let Some(_place) = lanes.late.turn_now(client) else {
            return Some(Err(self.no_answer()));
        };
        tracing::debug!("waiting longer for Keystone, to cache its late response");
        let response = timeout_at(began + self.late_max(), query).await;
        match &response {
            Ok(Ok(_)) => tracing::info!(
                took_ms = milliseconds(began.elapsed()),
                "Keystone responded after the timeout of requests"
            ),
            Ok(Err(failure)) => tracing::debug!(%failure, "Keystone failed late"),
            Err(_) => tracing::debug!("Keystone did not respond later either"),
        }
        Some(response.unwrap_or_else(|_| Err(self.no_answer())))
    }

    /// Returns the maximum duration of a query. Its result is cached for at most the cache time from its start, so
    /// longer queries would be useless.
    fn late_max(&self) -> Duration {
        LATE_MAX.min(self.cache_time).max(self.timeout)
    }

    /// Makes the cache entry of a response. Keystone may have checked the token when the query arrived, so the time
    /// that it took counts.
    fn entry(&self, response: Option<Token>, took: Duration) -> CacheEntry {
        let Some(response) = response else {
            return CacheEntry { token: None, ttl: BAD_TTL.min(self.cache_time) };
        };
        let lives = response.expires - OffsetDateTime::now_utc();
        let ttl = self.cache_time.saturating_sub(took);
        let ttl = ttl.min(lives.try_into().unwrap_or(Duration::ZERO));
        CacheEntry { token: Some(Arc::new(response)), ttl }
    }
}
