//! Whether the process answers (`/healthz`) and whether it can serve (`/readyz`). Both are answered without
//! a token, on the addresses of the APIs and of `--admin-listen`.

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
use crate::store::Store;

/// Answered as long as the process answers at all.
pub(in crate::http) const HEALTHZ: &str = "/healthz";
/// Answered with 200 if a request would be served now.
pub(in crate::http) const READYZ: &str = "/readyz";

/// How long the database may take to answer.
const READY_MAX: Duration = Duration::from_secs(5);
/// How long an answer counts for other clients of an API, who are anybody: they cannot make the server ask
/// its database more often.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Whether the server can serve, or why not.
pub(in crate::http) type Verdict = Result<(), Cow<'static, str>>;

/// What `/readyz` depends on, beside the store.
#[derive(Debug, Default)]
pub(in crate::http) struct Readiness {
    is_stopping: AtomicBool,
    /// The last answer to a client of an API, and when it was given.
    shared: Mutex<Option<(Instant, Verdict)>>,
}

impl Readiness {
    /// From now on the server is not ready: it has been told to stop.
    pub(in crate::http) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether a request for what the database has would be answered now: the primary answers and takes
    /// writes, its schema serves this program, all providers are loaded, and no change is missing.
    pub(in crate::http) async fn check(&self, store: Option<&Store>) -> Verdict {
        if self.is_stopping.load(Ordering::Relaxed) {
            return Err("the server is stopping".into());
        }
        let Some(store) = store else { return Err("the server waits for its database".into()) };
        if store.is_read_only() {
            return Err("the database takes no writes: default_transaction_read_only is on".into());
        }
        if let Some(why) = store.schema_hindrance() {
            return Err(why);
        }
        match timeout(READY_MAX, store.world()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => {
                tracing::debug!(%error, "not ready");
                Err("the database cannot be asked".into())
            }
            Err(_) => Err("the database does not answer".into()),
        }
    }

    /// The same, at most once a second for all callers together.
    async fn check_shared(&self, store: Option<&Store>) -> Verdict {
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

/// Whether a request asks for the health of the server, and not for something of an API.
pub(in crate::http) fn is_asked(request: &Request, prefix: &str) -> bool {
    path::with_and_without(prefix, request).any(|path| path == HEALTHZ || path == READYZ)
}

/// Answers a request that [`is_asked`] recognises, on the address of an API.
pub(in crate::http) async fn answer(
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

/// Refuses methods that change something.
///
/// # Errors
/// The refusal.
pub(in crate::http) fn check_method(method: &Method) -> Result<(), Box<Response>> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    Err(Box::new(response))
}

/// The answer of `/readyz`.
pub(in crate::http) fn written(verdict: Verdict) -> Response {
    let mut response = match verdict {
        Ok(()) => text(StatusCode::OK, "ready\n"),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer in plain text.
pub(in crate::http) fn text(status: StatusCode, words: impl Into<Body>) -> Response {
    let mut response = Response::new(words.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
