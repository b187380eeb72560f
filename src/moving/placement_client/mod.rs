//! A client of any placement service, Berth or the reference, for Berth's own commands.
//!
//! [`Access`] says where the service is and whose requests these are. It is made of a URL and a token,
//! of the environment of OpenStack's clients, or of a cloud in `clouds.yaml` ([`settings`]). A
//! [`Client`] sends requests: so many at once, each with a time limit and a bound for its answer. It
//! gets a token from Keystone, and a new one when the service refuses the old one. Reads are repeated
//! when the service is overloaded or does not answer; writes are not. Each attempt follows the rule of
//! [`HttpClient`].

mod access;
mod answer;
mod clouds_file;
mod error;
mod lines;
mod login;
mod providers;
mod settings;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};

pub use self::access::{Access, Catalog, NOBODY};
pub use self::answer::{Answer, Microversion};
pub use self::error::Error;
pub use self::lines::Lines;
use self::login::Standing;
pub use self::providers::ListedProvider;
use self::providers::ProviderList;
pub use self::settings::Settings;
use crate::auth::keystone::AUTH_TOKEN;
use crate::http_client::{self, ExchangeError, Failure, HttpClient};

const MICROVERSION: HeaderName = HeaderName::from_static("openstack-api-version");
/// How often a read is sent.
const ATTEMPTS: u32 = 6;
/// How often a read is sent that the service does not answer in time.
const LATE_ATTEMPTS: u32 = 2;
/// The pause before the second attempt. Each further pause is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause, also if the service asks for a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What bounds the work of a client and of the service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The number of requests at once.
    pub concurrency: usize,
    /// The time for an answer.
    pub timeout: Duration,
    /// The size of an answer, in bytes.
    pub answer_max: usize,
}

impl Default for Limits {
    /// A list of 100,000 providers has about 100 MB.
    fn default() -> Self {
        Self { concurrency: 8, timeout: Duration::from_mins(1), answer_max: 256 << 20 }
    }
}

/// A placement service. Clones share connections, the token and the limits.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    http: HttpClient,
    access: Access,
    limits: Limits,
    places: Semaphore,
    standing: Mutex<Option<Arc<Standing>>>,
}

/// How one attempt failed.
enum Failed {
    /// The same request may succeed later.
    ForNow(Error),
    /// There was no answer in time.
    Late(Error),
    /// It would fail again.
    ForGood(Error),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::ForNow(error) | Failed::Late(error) | Failed::ForGood(error) => error,
        }
    }
}

impl Client {
    /// A client. It does not connect before the first request.
    ///
    /// # Errors
    /// A sentence: a certificate is invalid.
    pub fn new(access: Access, limits: Limits) -> Result<Self, String> {
        let http = HttpClient::new(access.tls(), "the services")?;
        Ok(Self(Arc::new(Inner {
            http,
            access,
            limits,
            places: Semaphore::new(limits.concurrency.max(1)),
            standing: Mutex::default(),
        })))
    }

    /// The number of requests at once.
    pub fn concurrency(&self) -> usize {
        self.0.limits.concurrency.max(1)
    }

    /// The URL of the service. Keystone is asked for it if it stands in the catalog.
    ///
    /// # Errors
    /// There is no token, or no such service in the catalog.
    pub async fn url(&self) -> Result<Url, Error> {
        Ok(self.standing(None).await?.endpoint.clone())
    }

    /// The highest microversion of the service.
    ///
    /// # Errors
    /// The service cannot be reached, or is no placement service.
    pub async fn highest_microversion(&self) -> Result<Microversion, Error> {
        let answer = self.get("/", Microversion::MIN).await?;
        let answer = answer.expect(StatusCode::OK)?;
        let versions: Option<Vec<Value>> =
            answer.json().ok().and_then(|it| it.get("versions")?.as_array().cloned());
        // Other services of OpenStack show their versions without `max_version`.
        let max = versions.iter().flatten().find_map(|it| {
            let major = it.get("id").and_then(Value::as_str)?;
            let max = it.get("max_version").and_then(Value::as_str)?;
            (major == "v1.0").then(|| max.parse().ok()).flatten()
        });
        max.ok_or_else(|| Error::NotPlacement {
            url: answer.url().to_owned(),
            why: "its root does not show the versions of the Placement API".to_owned(),
        })
    }

    /// The answer to a read, whatever its status is; `path` has a slash in front, and may have a query.
    ///
    /// Statuses that say that the service is overloaded (429, 503, and 502 and 504 of a proxy) and broken
    /// connections are tried again up to five times, and time-outs once.
    ///
    /// # Errors
    /// There is no answer, or no token.
    pub async fn get(&self, path: &str, version: Microversion) -> Result<Answer, Error> {
        let mut attempt = 1;
        loop {
            let last = attempt >= ATTEMPTS;
            match self.exchange(&Method::GET, path, version, None).await {
                Ok(answer) if !last && is_overloaded(answer.status()) => {
                    pause(attempt, answer.retry_after()).await;
                }
                Ok(answer) => return Ok(answer),
                Err(Failed::ForNow(_)) if !last => pause(attempt, None).await,
                Err(Failed::Late(_)) if attempt < LATE_ATTEMPTS => pause(attempt, None).await,
                Err(failed) => return Err(failed.into()),
            }
            attempt += 1;
        }
    }

    /// The body of a read that must succeed.
    ///
    /// # Errors
    /// As for [`get`](Self::get); or the status is not 200, or the body is not JSON.
    pub async fn read(&self, path: &str, version: Microversion) -> Result<Value, Error> {
        self.get(path, version).await?.expect(StatusCode::OK)?.json()
    }

    /// The body of a read, or `None` if the service has no such thing (404).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub async fn find(&self, path: &str, version: Microversion) -> Result<Option<Value>, Error> {
        let answer = self.get(path, version).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        answer.expect(StatusCode::OK)?.json().map(Some)
    }

    /// The providers that match a query, such as `?in_tree=UUID`; all if it is empty.
    ///
    /// # Errors
    /// As for [`read`](Self::read); or the body is no such list.
    pub async fn providers<I: DeserializeOwned>(
        &self,
        query: &str,
        version: Microversion,
    ) -> Result<Vec<ListedProvider<I>>, Error> {
        let answer = self.get(&format!("/resource_providers{query}"), version).await?;
        let list: ProviderList<I> = answer.expect(StatusCode::OK)?.json_as()?;
        Ok(list.resource_providers)
    }

    /// The answer to a request of any method, whatever its status is. It is sent once; once more only if
    /// the service refuses the token, and so has done nothing.
    ///
    /// # Errors
    /// There is no answer, or no token. The service may have done what the request said.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        version: Microversion,
        body: Option<&Value>,
    ) -> Result<Answer, Error> {
        self.exchange(&method, path, version, body).await.map_err(Error::from)
    }

    /// Sends a request, and once more with a new token if the service refuses the first.
    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        version: Microversion,
        body: Option<&Value>,
    ) -> Result<Answer, Failed> {
        // The semaphore is never closed, so that only a place is waited for.
        let _place = self.0.places.acquire().await.ok();
        let standing = self.standing(None).await.map_err(Failed::ForGood)?;
        let answer = self.send_as(&standing, method, path, version, body).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !self.0.access.can_log_in() {
            return Ok(answer);
        }
        let standing = self.standing(Some(&standing)).await.map_err(Failed::ForGood)?;
        self.send_as(&standing, method, path, version, body).await
    }

    async fn send_as(
        &self,
        standing: &Standing,
        method: &Method,
        path: &str,
        version: Microversion,
        body: Option<&Value>,
    ) -> Result<Answer, Failed> {
        let limits = &self.0.limits;
        let (request, name) = self.prepare(standing, method, path, version)?;
        let no_answer = |why: &dyn fmt::Display, was_sent: bool| {
            let unknown =
                if was_sent && !method.is_safe() { "; it may have been carried out" } else { "" };
            Error::NoAnswer { request: name.clone(), why: format!("{why}{unknown}") }
        };
        let request =
            request.header(reqwest::header::ACCEPT, HeaderValue::from_static("application/json"));
        let request = if let Some(body) = body { request.json(body) } else { request };
        let exchange = self.0.http.exchange(request, limits.answer_max);
        match tokio::time::timeout(limits.timeout, exchange).await {
            Ok(Ok(http_client::CompleteResponse { status, headers, body })) => {
                Ok(Answer::new(name, status, headers, body))
            }
            Ok(Err(ExchangeError::Failed(why))) => {
                let was_sent = !matches!(why, Failure::NotConnected(_));
                Err(Failed::ForNow(no_answer(&why, was_sent)))
            }
            Ok(Err(why @ ExchangeError::TooLarge(_))) => {
                Err(Failed::ForGood(no_answer(&why, true)))
            }
            Err(_) => {
                let why = format!("no answer within {} s", limits.timeout.as_secs());
                Err(Failed::Late(no_answer(&why, true)))
            }
        }
    }

    /// Begins to read an answer that goes on, once its head has come. It takes none of the places for requests.
    ///
    /// # Errors
    /// There is no answer, no token, or the status is not 200.
    pub async fn lines(&self, path: &str, media_type: &str) -> Result<Lines, Error> {
        let mut refused = None;
        loop {
            let standing = self.standing(refused.as_ref()).await?;
            let request = self.prepare(&standing, &Method::GET, path, Microversion::MAX);
            let (request, name) = request.map_err(Error::from)?;
            let no_answer = |why| Error::NoAnswer { request: name.clone(), why };
            let limits = &self.0.limits;
            let request = request.header(reqwest::header::ACCEPT, media_type);
            let sent = tokio::time::timeout(limits.timeout, self.0.http.send(request)).await;
            let late = |_| no_answer(format!("no answer within {} s", limits.timeout.as_secs()));
            let response = sent.map_err(late)?.map_err(|why| no_answer(why.to_string()))?;
            let status = response.status();
            if status == StatusCode::OK {
                let (line_max, silence_max) = (limits.answer_max, limits.timeout);
                return Ok(Lines {
                    response,
                    request: name,
                    read: Vec::new(),
                    line_max,
                    silence_max,
                });
            }
            if status == StatusCode::UNAUTHORIZED && refused.is_none() && self.0.access.can_log_in()
            {
                refused = Some(standing);
                continue;
            }
            let answer = http_client::read(response, limits.answer_max).await;
            let answer = answer.map_err(|why| no_answer(why.to_string()))?;
            Answer::new(name, status, answer.headers, answer.body).expect(StatusCode::OK)?;
        }
    }

    /// A request as it is sent, and its method and URL in words.
    fn prepare(
        &self,
        standing: &Standing,
        method: &Method,
        path: &str,
        version: Microversion,
    ) -> Result<(reqwest::RequestBuilder, String), Failed> {
        let base = standing.endpoint.as_str().trim_end_matches('/');
        let url = format!("{base}{path}");
        let name = format!("{method} {url}");
        let parsed = Url::parse(&url).map_err(|error| {
            let (request, why) = (name.clone(), format!("the URL is invalid: {error}"));
            Failed::ForGood(Error::NoAnswer { request, why })
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTH_TOKEN, standing.token.clone());
        if let Ok(version) = HeaderValue::from_str(&format!("placement {version}")) {
            headers.insert(MICROVERSION, version);
        }
        Ok((self.0.http.request(method.clone(), parsed).headers(headers), name))
    }

    /// Token and endpoint; new ones if there are none, or if these were refused.
    async fn standing(&self, refused: Option<&Arc<Standing>>) -> Result<Arc<Standing>, Error> {
        let mut standing = self.0.standing.lock().await;
        match &*standing {
            Some(known) if !refused.is_some_and(|refused| Arc::ptr_eq(refused, known)) => {
                Ok(Arc::clone(known))
            }
            _ => {
                let new = Arc::new(login::log_in(&self.0.http, &self.0.access).await?);
                *standing = Some(Arc::clone(&new));
                Ok(new)
            }
        }
    }
}

/// Whether a service, or a proxy in front of it, may answer the same request otherwise later.
fn is_overloaded(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Whether the same request may succeed later.
pub fn is_for_now(error: &Error) -> bool {
    match error {
        Error::NoAnswer { .. } => true,
        Error::Status { status, .. } => is_overloaded(*status),
        Error::NotPlacement { .. } | Error::Keystone { .. } => false,
    }
}

/// Waits before the next attempt.
async fn pause(attempt: u32, asked: Option<Duration>) {
    let own = PAUSE * 2_u32.saturating_pow(attempt.saturating_sub(1));
    tokio::time::sleep(asked.map_or(own, |asked| own.max(asked)).min(PAUSE_MAX)).await;
}
