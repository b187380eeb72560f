//! A client of any placement service, Berth or the reference, for Berth's own commands.
//!
//! [`Access`] is the location of the service and the credentials. It is made from a URL and a token, from the
//! environment of OpenStack's clients, or from a cloud in `clouds.yaml` ([`settings`]). A [`Client`] limits the
//! number of concurrent requests, their duration, and the size of responses. It gets a token from Keystone, and a new
//! one when the service refuses it. Reads are repeated when the service is overloaded or does not respond; writes are
//! not. Each attempt follows the rule of [`HttpClient`].

mod access;
mod clouds_file;
mod error;
mod lines;
mod login;
mod providers;
mod response;
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

pub use self::access::{ADMIN_TOKEN, Access, Catalog};
pub use self::error::Error;
pub use self::lines::Lines;
use self::login::Session;
pub use self::providers::ListedProvider;
use self::providers::ProviderList;
pub use self::response::{Microversion, ServiceResponse};
pub use self::settings::Settings;
use crate::auth::keystone::AUTH_TOKEN;
use crate::http_client::{self, ExchangeError, Failure, HttpClient};

const MICROVERSION: HeaderName = HeaderName::from_static("openstack-api-version");
/// Maximum number of attempts of a read.
const ATTEMPTS: u32 = 6;
/// Maximum number of attempts of a read that times out.
const LATE_ATTEMPTS: u32 = 2;
/// Pause before the second attempt. It doubles with each attempt.
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum pause, even if the service requests a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Limits of a client.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of concurrent requests.
    pub concurrency: usize,
    /// Timeout for a response.
    pub timeout: Duration,
    /// Maximum size of a response, in bytes.
    pub answer_max: usize,
}

impl Default for Limits {
    /// A list of 100,000 providers has about 100 MB.
    fn default() -> Self {
        Self { concurrency: 8, timeout: Duration::from_mins(1), answer_max: 256 << 20 }
    }
}

/// A client of a placement service. Clones share connections, the token and the limits.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    http: HttpClient,
    access: Access,
    limits: Limits,
    places: Semaphore,
    session: Mutex<Option<Arc<Session>>>,
}

/// Failure of one attempt.
enum AttemptError {
    /// The same request may succeed later.
    ForNow(Error),
    /// The request timed out.
    Late(Error),
    /// It would fail again.
    ForGood(Error),
}

impl From<AttemptError> for Error {
    fn from(failed: AttemptError) -> Self {
        match failed {
            AttemptError::ForNow(error)
            | AttemptError::Late(error)
            | AttemptError::ForGood(error) => error,
        }
    }
}

impl Client {
    /// Creates a client, which connects with the first request.
    ///
    /// # Errors
    /// A message: a certificate is invalid.
    pub fn new(access: Access, limits: Limits) -> Result<Self, String> {
        let http = HttpClient::new(access.tls(), "the services")?;
        Ok(Self(Arc::new(Inner {
            http,
            access,
            limits,
            places: Semaphore::new(limits.concurrency.max(1)),
            session: Mutex::default(),
        })))
    }

    /// Maximum number of concurrent requests.
    pub fn concurrency(&self) -> usize {
        self.0.limits.concurrency.max(1)
    }

    /// The URL of the service. Requests it from Keystone if it comes from the catalog.
    ///
    /// # Errors
    /// There is no token, or the catalog lacks the service.
    pub async fn url(&self) -> Result<Url, Error> {
        Ok(self.session(None).await?.endpoint.clone())
    }

    /// The highest microversion of the service.
    ///
    /// # Errors
    /// The service cannot be reached, or is not a placement service.
    pub async fn highest_microversion(&self) -> Result<Microversion, Error> {
        let response = self.get("/", Microversion::MIN).await?;
        let response = response.expect(StatusCode::OK)?;
        let versions: Option<Vec<Value>> =
            response.json().ok().and_then(|it| it.get("versions")?.as_array().cloned());
        // Other services of OpenStack show their versions without `max_version`.
        let max = versions.iter().flatten().find_map(|it| {
            let major = it.get("id").and_then(Value::as_str)?;
            let max = it.get("max_version").and_then(Value::as_str)?;
            (major == "v1.0").then(|| max.parse().ok()).flatten()
        });
        max.ok_or_else(|| Error::NotPlacement {
            url: response.url().to_owned(),
            why: "its root does not show the versions of the Placement API".to_owned(),
        })
    }

    /// The response to a read, whatever its status; `path` starts with a slash, and may have a query.
    ///
    /// Overload (429, 503, and 502 and 504 of a proxy) and broken connections are retried up to five times, and
    /// time-outs once.
    ///
    /// # Errors
    /// No response, or no token.
    pub async fn get(&self, path: &str, version: Microversion) -> Result<ServiceResponse, Error> {
        let mut attempt = 1;
        loop {
            let last = attempt >= ATTEMPTS;
            match self.exchange(&Method::GET, path, version, None).await {
                Ok(response) if !last && is_overloaded(response.status()) => {
                    pause(attempt, response.retry_after()).await;
                }
                Ok(response) => return Ok(response),
                Err(AttemptError::ForNow(_)) if !last => pause(attempt, None).await,
                Err(AttemptError::Late(_)) if attempt < LATE_ATTEMPTS => pause(attempt, None).await,
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

    /// The body of a read, or `None` if the resource does not exist (404).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub async fn find(&self, path: &str, version: Microversion) -> Result<Option<Value>, Error> {
        let response = self.get(path, version).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        response.expect(StatusCode::OK)?.json().map(Some)
    }

    /// The providers that match a query, such as `?in_tree=UUID`; all if it is empty.
    ///
    /// # Errors
    /// As for [`read`](Self::read); or the body is not such a list.
    pub async fn providers<I: DeserializeOwned>(
        &self,
        query: &str,
        version: Microversion,
    ) -> Result<Vec<ListedProvider<I>>, Error> {
        let response = self.get(&format!("/resource_providers{query}"), version).await?;
        let list: ProviderList<I> = response.expect(StatusCode::OK)?.json_as()?;
        Ok(list.resource_providers)
    }

    /// The response to a request of any method, whatever its status. The request is repeated only if the service
    /// refuses the token, since it has then done nothing.
    ///
    /// # Errors
    /// No response, or no token. The service may have carried out the request.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        version: Microversion,
        body: Option<&Value>,
    ) -> Result<ServiceResponse, Error> {
        self.exchange(&method, path, version, body).await.map_err(Error::from)
    }

    /// Sends a request, and again with a new token if the service refuses the first.
    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        version: Microversion,
        body: Option<&Value>,
    ) -> Result<ServiceResponse, AttemptError> {
        // The semaphore is never closed.
        let _place = self.0.places.acquire().await.ok();
        let session = self.session(None).await.map_err(AttemptError::ForGood)?;
        let response = self.send_as(&session, method, path, version, body).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !self.0.access.can_log_in() {
            return Ok(response);
        }
        let session = self.session(Some(&session)).await.map_err(AttemptError::ForGood)?;
        self.send_as(&session, method, path, version, body).await
    }

    async fn send_as(
        &self,
        session: &Session,
        method: &Method,
        path: &str,
        version: Microversion,
        body: Option<&Value>,
    ) -> Result<ServiceResponse, AttemptError> {
        let limits = &self.0.limits;
        let (request, name) = self.prepare(session, method, path, version)?;
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
                Ok(ServiceResponse::new(name, status, headers, body))
            }
            Ok(Err(ExchangeError::Failed(why))) => {
                let was_sent = !matches!(why, Failure::NotConnected(_));
                Err(AttemptError::ForNow(no_answer(&why, was_sent)))
            }
            Ok(Err(why @ ExchangeError::TooLarge(_))) => {
                Err(AttemptError::ForGood(no_answer(&why, true)))
            }
            Err(_) => {
                let why = format!("no response within {} s", limits.timeout.as_secs());
                Err(AttemptError::Late(no_answer(&why, true)))
            }
        }
    }

    /// Begins to read a streaming response, once its head has arrived. It does not count as a concurrent request.
    ///
    /// # Errors
    /// No response, no token, or the status is not 200.
    pub async fn lines(&self, path: &str, media_type: &str) -> Result<Lines, Error> {
        let mut refused = None;
        loop {
            let session = self.session(refused.as_ref()).await?;
            let request = self.prepare(&session, &Method::GET, path, Microversion::MAX);
            let (request, name) = request.map_err(Error::from)?;
            let no_answer = |why| Error::NoAnswer { request: name.clone(), why };
            let limits = &self.0.limits;
            let request = request.header(reqwest::header::ACCEPT, media_type);
            let sent = tokio::time::timeout(limits.timeout, self.0.http.send(request)).await;
            let late = |_| no_answer(format!("no response within {} s", limits.timeout.as_secs()));
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
                refused = Some(session);
                continue;
            }
            let answer = http_client::read(response, limits.answer_max).await;
            let answer = answer.map_err(|why| no_answer(why.to_string()))?;
            ServiceResponse::new(name, status, answer.headers, answer.body)
                .expect(StatusCode::OK)?;
        }
    }

    /// Builds a request, and a text with its method and URL.
    fn prepare(
        &self,
        session: &Session,
        method: &Method,
        path: &str,
        version: Microversion,
    ) -> Result<(reqwest::RequestBuilder, String), AttemptError> {
        let base = session.endpoint.as_str().trim_end_matches('/');
        let url = format!("{base}{path}");
        let name = format!("{method} {url}");
        let parsed = Url::parse(&url).map_err(|error| {
            let (request, why) = (name.clone(), format!("the URL is invalid: {error}"));
            AttemptError::ForGood(Error::NoAnswer { request, why })
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(AUTH_TOKEN, session.token.clone());
        if let Ok(version) = HeaderValue::from_str(&format!("placement {version}")) {
            headers.insert(MICROVERSION, version);
        }
        Ok((self.0.http.request(method.clone(), parsed).headers(headers), name))
    }

    /// Token and endpoint; new ones if there are none, or if these were refused.
    async fn session(&self, refused: Option<&Arc<Session>>) -> Result<Arc<Session>, Error> {
        let mut session = self.0.session.lock().await;
        match &*session {
            Some(known) if !refused.is_some_and(|refused| Arc::ptr_eq(refused, known)) => {
                Ok(Arc::clone(known))
            }
            _ => {
                let new = Arc::new(login::log_in(&self.0.http, &self.0.access).await?);
                *session = Some(Arc::clone(&new));
                Ok(new)
            }
        }
    }
}

/// Returns whether the status means that a retry may succeed, including those of proxies.
fn is_overloaded(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Returns whether the same request may succeed later.
pub fn is_for_now(error: &Error) -> bool {
    match error {
        Error::NoAnswer { .. } => true,
        Error::Status { status, .. } => is_overloaded(*status),
        Error::NotPlacement { .. } | Error::Keystone { .. } => false,
    }
}

/// Waits before the next attempt.
async fn pause(attempt: u32, retry_after: Option<Duration>) {
    let own = PAUSE * 2_u32.saturating_pow(attempt.saturating_sub(1));
    tokio::time::sleep(retry_after.map_or(own, |least| own.max(least)).min(PAUSE_MAX)).await;
}
