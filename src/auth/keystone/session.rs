//! The connection to Keystone: Berth's own token, which is renewed before it expires, and queries
//! with it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use metrics::{counter, histogram};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use serde_json::Value;
use time::OffsetDateTime;
use tokio::sync::Mutex;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::access::PLACEMENT;
use super::clock::ClockSkew;
use super::credentials::Credentials;
use super::options::Options;
use super::token::{Issued, Token};
use crate::http_client::{CompleteResponse, ExchangeError, Failure, HttpClient, http_url};
use crate::observe::request_context;
use crate::observe::spans::span;

pub(crate) const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
pub(crate) const SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");
/// Declares support for access rules. Without this header, Keystone does not validate tokens that
/// have any.
const ACCESS_RULES: HeaderName = HeaderName::from_static("openstack-identity-access-rules");
/// The supported version of access rules.
const ACCESS_RULES_VERSION: HeaderValue = HeaderValue::from_static("1");
/// Maximum size of a response of Keystone, in bytes: enough for a large catalog.
pub(crate) const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// The interfaces of this service in the catalog.
const INTERFACES: [&str; 3] = ["internal", "public", "admin"];
/// The counter of requests, and its most frequent results.
const REQUESTS: &str = "berth_keystone_requests_total";
/// No response before the requests that wait for it are refused. The response is counted as well, if it comes later.
const LATE: &str = "late";
const RESULTS: [&str; 12] = [
    "200",
    "201",
    "401",
    "403",
    "404",
    "500",
    "502",
    "503",
    LATE,
    "timeout",
    "not_connected",
    "failed",
];
/// Maximum time before its expiry at which Berth's own token is renewed: a quarter of its lifetime if that
/// is less.
const RENEW_BEFORE: time::Duration = time::Duration::minutes(2);
/// Pause before the first retry of a request without a response; it doubles with each retry.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Keystone gave no usable response. The text is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Keystone: {0}")]
pub struct Unavailable(pub String);

/// A Keystone, and Berth's own token for it.
#[derive(Debug)]
pub(super) struct Session {
    client: HttpClient,
    options: Options,
    auth_url: Url,
    own: Mutex<OwnTokenState>,
    clock_skew: ClockSkew,
}

/// Berth's own token, and the failure of the last attempt to get one.
#[derive(Debug, Default)]
struct OwnTokenState {
    token: Option<Arc<OwnToken>>,
    failed: Option<(Instant, Unavailable)>,
}

struct OwnToken {
    header: HeaderValue,
    renew_at: OffsetDateTime,
    expires: OffsetDateTime,
    tokens_url: Url,
    /// Whether its catalog names Placement; `None` without a catalog.
    names_placement: Option<bool>,
}

impl std::fmt::Debug for OwnToken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("OwnToken").field("expires", &self.expires).finish_non_exhaustive()
    }
}

pub(super) fn count_from_zero() {
    for result in RESULTS {
        counter!(REQUESTS, "result" => result).increment(0);
    }
}

impl Session {
    pub(super) fn new(options: Options) -> Result<Self, String> {
        let auth_url = tokens_url(&options.auth_url)?;
        let client = HttpClient::new(&options.tls, "Keystone")?;
        Ok(Self {
            client,
            options,
            auth_url,
            own: Mutex::default(),
            clock_skew: ClockSkew::default(),
        })
    }

    pub(super) fn clock_fault(&self) -> Option<String> {
        self.clock_skew.fault()
    }

    pub(super) fn auth_url(&self) -> &str {
        &self.options.auth_url
    }

    /// Validates a token; `None` if it is invalid.
    pub(super) async fn validate(
        &self,
        token: &str,
        allow_expired: bool,
    ) -> Result<Option<Token>, Unavailable> {
        let Some(subject) = secret(token) else { return Ok(None) };
        let request = |own: &OwnToken| {
            let mut url = own.tokens_url.clone();
            let query = if allow_expired { "nocatalog&allow_expired=1" } else { "nocatalog" };
            url.set_query(Some(query));
            let subject = (SUBJECT_TOKEN, subject.clone());
            (url, HeaderMap::from_iter([subject, (ACCESS_RULES, ACCESS_RULES_VERSION)]))
        };
        let response = self.query(request).await?;
        match response.status {
            StatusCode::OK => Token::parse(&response.body).map(Some).map_err(Unavailable),
            StatusCode::NOT_FOUND => Ok(None),
            other => Err(Unavailable(format!("it responded to a token validation with {other}"))),
        }
    }

    /// Returns whether the catalog has an endpoint of the type `placement`, in the region of the options if there is
    /// one; `None` if the token came without a catalog.
    pub(super) async fn names_placement(&self) -> Result<Option<bool>, Unavailable> {
        Ok(self.own_token(None).await?.names_placement)
    }

    /// Returns whether a project with this id exists.
    pub(super) async fn has_project(&self, id: &str) -> Result<bool, Unavailable> {
        let response =
            self.query(|own| (project_url(&own.tokens_url, id), HeaderMap::new())).await?;
        match response.status {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            StatusCode::FORBIDDEN => Err(Unavailable(
                "it does not tell Berth about projects (403): Berth's user needs the role admin, \
                 or reader with --keystone-system-scope all"
                    .to_owned(),
            )),
            other => Err(Unavailable(format!("it responded to a project query with {other}"))),
        }
    }

    /// Sends a query with Berth's own token, and again with a new one if Keystone refuses the first.
    async fn query(
        &self,
        request: impl Fn(&OwnToken) -> (Url, HeaderMap),
    ) -> Result<CompleteResponse, Unavailable> {
        let own = self.own_token(None).await?;
        let response = self.query_with(&own, &request).await?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // The token was revoked, or Keystone has lost it.
        tracing::info!("Keystone no longer accepts Berth's own token; getting a new one");
        let own = self.own_token(Some(&own)).await?;
        self.query_with(&own, &request).await
    }

    async fn query_with(
        &self,
        own: &OwnToken,
        request: impl Fn(&OwnToken) -> (Url, HeaderMap),
    ) -> Result<CompleteResponse, Unavailable> {
        let (url, mut headers) = request(own);
        headers.insert(AUTH_TOKEN, own.header.clone());
        self.send(Method::GET, url, headers, None).await
    }

    /// Returns Berth's own token, or gets a new one if it is missing, expires soon or was refused.
    async fn own_token(
        &self,
        refused: Option<&Arc<OwnToken>>,
    ) -> Result<Arc<OwnToken>, Unavailable> {
        let came = Instant::now();
        let mut state = self.own.lock().await;
        let now = OffsetDateTime::now_utc();
        let known = state.token.clone().filter(|token| {
            token.expires > now && !refused.is_some_and(|refused| Arc::ptr_eq(refused, token))
        });
        if let Some(token) = &known
            && token.renew_at > now
        {
            return Ok(Arc::clone(token));
        }
        if let Some((at, failure)) = &state.failed
            && *at > came
        {
            // Another request tried while this one waited for the lock.
            return known.ok_or_else(|| failure.clone());
        }
        match self.authenticate().await {
            Ok(token) => {
                let token = Arc::new(token);
                *state = OwnTokenState { token: Some(Arc::clone(&token)), failed: None };
                Ok(token)
            }
            Err(failure) => {
                state.failed = Some((Instant::now(), failure.clone()));
                known.ok_or(failure)
            }
        }
    }

    /// Gets a token for credentials, with the response; `None` if Keystone does not accept them.
    pub(super) async fn issue(
        &self,
        credentials: &Credentials,
    ) -> Result<Option<(HeaderValue, CompleteResponse)>, Unavailable> {
        let request = credentials.request();
        let response = self
            .send(Method::POST, self.auth_url.clone(), HeaderMap::new(), Some(&request))
            .await?;
        match response.status {
            StatusCode::CREATED => {
                let header = response.headers.get(SUBJECT_TOKEN).cloned();
                let mut header =
                    header.ok_or_else(|| Unavailable("it issued no token".to_owned()))?;
                header.set_sensitive(true);
                Ok(Some((header, response)))
            }
            StatusCode::UNAUTHORIZED => Ok(None),
            status => {
                Err(Unavailable(format!("it responded to the request for a token with {status}")))
            }
        }
    }

    async fn authenticate(&self) -> Result<OwnToken, Unavailable> {
        let Some((header, response)) = self.issue(&self.options.credentials).await? else {
            return Err(Unavailable("it does not accept Berth's own credentials (401)".to_owned()));
        };
        let issued = Issued::parse(&response.body).map_err(Unavailable)?;
        let lives = issued.expires - OffsetDateTime::now_utc();
        let before = time::Duration::min(lives / 4, RENEW_BEFORE);
        let tokens_url = self.tokens_url(&issued);
        let region = self.options.region.as_deref();
        let is_named = |interface: &&str| issued.endpoint(PLACEMENT, interface, region).is_some();
        let names_placement = issued.has_catalog().then(|| INTERFACES.iter().any(is_named));
        tracing::info!(expires = %issued.expires, url = %tokens_url, "got a token from Keystone");
        let renew_at = issued.expires - before;
        Ok(OwnToken { header, renew_at, expires: issued.expires, tokens_url, names_placement })
    }

    /// Returns the URL at which tokens are validated: that of the catalog, or else the auth URL.
    fn tokens_url(&self, issued: &Issued) -> Url {
        let Options { interface, region, .. } = &self.options;
        match issued.endpoint("identity", interface, region.as_deref()).map(tokens_url) {
            Some(Ok(url)) => url,
            Some(Err(why)) => {
                tracing::warn!(why, "the catalog's identity endpoint cannot be used");
                self.auth_url.clone()
            }
            None => {
                tracing::debug!(interface, region, "the catalog has no such identity endpoint");
                self.auth_url.clone()
            }
        }
    }

    /// Sends a request, with retries if there is no response: Keystone may be restarting. Each attempt follows the
    /// rules of [`HttpClient`]. A request for a token is repeated as well, although it is a POST: a second token
    /// does no harm.
    async fn send(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<CompleteResponse, Unavailable> {
        let mut failures = 0;
        loop {
            let span = span!(
                "keystone",
                otel.kind = "client",
                http.request.method = method.as_str(),
                server.address = url.host_str(),
                url.path = url.path(),
                http.response.status_code = Empty,
                error.type = Empty
            );
            // Each attempt has its own span, whose id Keystone receives.
            let mut headers = headers.clone();
            span.in_scope(|| request_context::pass_trace_on(&mut headers));
            let request = self.client.request(method.clone(), url.clone()).headers(headers);
            let request = if let Some(body) = body { request.json(body) } else { request };
            let exchange = self.client.exchange(request, ANSWER_MAX);
            match recorded(exchange, &span).instrument(span.clone()).await {
                Ok(answer) => {
                    self.clock_skew.compare(&answer.headers, SystemTime::now());
                    return Ok(answer);
                }
                Err(ExchangeError::Failed(
                    failure @ (Failure::NotConnected(_) | Failure::Broken(_)),
                )) if failures < self.options.retries => {
                    tracing::debug!(%failure, "repeating a request to Keystone");
                    tokio::time::sleep(RETRY_AFTER * 2_u32.saturating_pow(failures)).await;
                    failures += 1;
                }
                Err(error) => return Err(Unavailable(error.to_string())),
            }
        }
    }
}

/// Counts a query whose response has not come within the timeout of requests.
pub(super) fn late() {
    counter!(REQUESTS, "result" => LATE).increment(1);
}

/// The outcome of a request to Keystone, which is recorded when this is dropped.
struct RequestOutcome<'s> {
    span: &'s Span,
    began: Instant,
    /// A request that is dropped before its end has timed out.
    response: Result<StatusCode, &'static str>,
}

impl Drop for RequestOutcome<'_> {
    fn drop(&mut self) {
        let result = match &self.response {
            Ok(status) => status.as_str(),
            Err(failure) => {
                self.span.record("error.type", failure);
                failure
            }
        };
        counter!(REQUESTS, "result" => result.to_owned()).increment(1);
        histogram!("berth_keystone_request_duration_seconds").record(self.began.elapsed());
    }
}

/// Records the outcome and duration of a request, even if this future is dropped.
async fn recorded(
    exchange: impl Future<Output = Result<CompleteResponse, ExchangeError>>,
    span: &Span,
) -> Result<CompleteResponse, ExchangeError> {
    let mut outcome = RequestOutcome { span, began: Instant::now(), response: Err("timeout") };
    let response = exchange.await;
    outcome.response = match &response {
        Ok(response) => {
            span.record("http.response.status_code", i64::from(response.status.as_u16()));
            Ok(response.status)
        }
        Err(ExchangeError::Failed(Failure::TimedOut)) => Err("timeout"),
        Err(ExchangeError::Failed(Failure::NotConnected(_))) => Err("not_connected"),
        Err(ExchangeError::Failed(Failure::Broken(_)) | ExchangeError::TooLarge(_)) => {
            Err("failed")
        }
    };
    response
}

/// Returns the URL of tokens, from Keystone's URL with or without a version.
pub(crate) fn tokens_url(base: &str) -> Result<Url, String> {
    let mut url = http_url(base).map_err(|why| format!("Keystone's URL: {why}"))?;
    let path = url.path().trim_end_matches('/');
    let root = path.strip_suffix("/v3").or_else(|| path.strip_suffix("/v2.0")).unwrap_or(path);
    let path = format!("{root}/v3/auth/tokens");
    url.set_path(&path);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Returns the URL of a project.
fn project_url(tokens_url: &Url, id: &str) -> Url {
    let mut url = tokens_url.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop().pop().extend(["projects", id]);
    }
    url
}

/// Makes a header value of a token; `None` if it contains bytes that no header may contain.
pub(crate) fn secret(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(token).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::{project_url, tokens_url};

    #[test]
    fn projects_are_where_tokens_are() {
        let url = |id| project_url(&tokens_url("https://k/identity").unwrap(), id).to_string();
        assert_eq!(url("b7d0"), "https://k/identity/v3/projects/b7d0");
        assert_eq!(url("../x?y"), "https://k/identity/v3/projects/..%2Fx%3Fy");
    }

    #[test]
    fn the_version_of_the_api_is_ours() {
        for (base, url) in [
            ("http://k:5000", "http://k:5000/v3/auth/tokens"),
            ("http://k:5000/", "http://k:5000/v3/auth/tokens"),
            ("http://k/identity", "http://k/identity/v3/auth/tokens"),
            ("https://k/identity/v3/", "https://k/identity/v3/auth/tokens"),
            ("https://k/v2.0", "https://k/v3/auth/tokens"),
        ] {
            assert_eq!(tokens_url(base).unwrap().as_str(), url);
        }
        for bad in ["", "k:5000", "/v3", "ftp://k", "http://"] {
            assert!(tokens_url(bad).is_err(), "{bad}");
        }
        assert!(!tokens_url("http://u:s3cret@k").unwrap_err().contains("s3cret"));
    }
}
