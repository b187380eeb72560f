//! Liveness (`/healthz`) and readiness (`/readyz`) checks. They need no token, and are served on
//! the addresses of the APIs and of `--admin-listen`.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::http::api::path;
use crate::http::layers::access_log::{HEALTHZ, READYZ};
use crate::store::Store;

/// Timeout for the database.
const READY_MAX: Duration = Duration::from_secs(5);
/// For this long, a result is reused for other clients of an API: anyone can send this request, and
/// must not cause more database queries.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// The reason of a drained replica for not being ready.
pub(crate) const DRAINED: &str = "the replica is drained";

/// The parts of the service that a ready server provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// All.
    All,
    /// Reads: its last writes failed.
    ReadsOnly,
}

/// Whether the server can serve, or why not.
pub(crate) type Verdict = Result<Ready, Cow<'static, str>>;

impl Ready {
    /// Returns the text for clients.
    pub fn text(self) -> &'static str {
        match self {
            Self::All => "ready",
            Self::ReadsOnly => "reads only: the last writes failed, and the log has the reason",
        }
    }
}

/// State of `/readyz`, apart from the store.
#[derive(Debug, Default)]
pub(in crate::http) struct Readiness {
    is_stopping: AtomicBool,
    /// Whether an operator has drained the replica.
    is_drained: AtomicBool,
    /// The last result for a client of an API, and its time.
    shared: Mutex<Option<(Instant, Verdict)>>,
}

impl Readiness {
    /// Marks the server as stopping, and so as not ready.
    pub(in crate::http) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Drains the replica, which is not ready then, or ends that.
    pub(in crate::http) fn drain(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Ordering::Relaxed);
    }

    /// Checks whether requests can be served: the primary database responds and accepts writes, its
    /// schema matches this program, all providers are loaded, and no change is missing.
    pub(in crate::http) async fn check(&self, store: Option<&Store>) -> Verdict {
        if self.is_stopping.load(Ordering::Relaxed) {
            return Err("the server is stopping".into());
        }
        if self.is_drained.load(Ordering::Relaxed) {
            return Err(DRAINED.into());
        }
        let Some(store) = store else { return Err("the server waits for its database".into()) };
        if store.is_read_only() {
            return Err("the database is read-only: default_transaction_read_only is on".into());
        }
        if let Some(why) = store.schema_hindrance() {
            return Err(why);
        }
        match timeout(READY_MAX, store.world()).await {
            Ok(Ok(_)) if store.are_writes_failing() => Ok(Ready::ReadsOnly),
            Ok(Ok(_)) => Ok(Ready::All),
            Ok(Err(error)) => {
                tracing::debug!(%error, "not ready");
                Err("the database is not available".into())
            }
            Err(_) => Err("the database does not respond".into()),
        }
    }

    /// The same, at most once a second for all callers together.
    pub(in crate::http) async fn check_shared(&self, store: Option<&Store>) -> Verdict {
        let mut shared = self.shared.lock().await;
        if !self.is_stopping.load(Ordering::Relaxed)
            && store.is_some()
            && let Some((at, verdict)) = &*shared
            && at.elapsed() < SHARED_FOR
        {
            return verdict.clone();
        }
        let verdict = self.check(store).await;
        *shared = Some((Instant::now(), verdict.clone()));
        verdict
    }
}

/// Returns whether a request is a health check.
pub(in crate::http) fn handles(request: &Request, prefix: &str) -> bool {
    path::with_and_without(prefix, request).any(|path| path == HEALTHZ || path == READYZ)
}

/// Handles a health check on the address of an API.
pub(in crate::http) async fn respond(
    readiness: &Readiness,
    store: Option<Store>,
    request: Request,
) -> Result<Response, Infallible> {
    if let Err(refusal) = check_method(request.method()) {
        return Ok(*refusal);
    }
    if request.uri().path().ends_with(HEALTHZ) {
        return Ok(text(StatusCode::OK, "ok\n"));
    }
    Ok(written(readiness.check_shared(store.as_ref()).await))
}

/// Rejects unsafe methods.
///
/// # Errors
/// The response.
pub(in crate::http) fn check_method(method: &Method) -> Result<(), Box<Response>> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    Err(Box::new(response))
}

/// Returns the response of `/readyz`.
pub(in crate::http) fn written(verdict: Verdict) -> Response {
    let mut response = match verdict {
        Ok(ready) => text(StatusCode::OK, format!("{}\n", ready.text())),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Returns a response in plain text.
pub(in crate::http) fn text(status: StatusCode, words: impl Into<Body>) -> Response {
    let mut response = Response::new(words.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
