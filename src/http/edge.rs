//! The outermost layer, which knows no API: every request gets an id and a line in the log, and a
//! panic ends one request and nothing else.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::response::Response;
use futures_util::FutureExt;
use tracing::Instrument;
use uuid::Uuid;

use super::Connection;
use super::app::App;
use super::proxy::{Approach, Remote, Trusted};
use crate::model::Bug;

/// The header that carries ids of requests, both ways.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// The ids of a request.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    /// Ours; the answer carries it.
    pub(super) request: String,
    /// That of the request on whose behalf the client asks, as it says.
    pub(super) global: Option<String>,
}

impl Ids {
    fn of(headers: &HeaderMap) -> Self {
        let global = headers.get(&REQUEST_ID).and_then(|id| id.to_str().ok());
        let global = global.filter(|id| is_request_id(id)).map(str::to_owned);
        Self { request: format!("req-{}", Uuid::new_v4()), global }
    }

    /// Ours as a header.
    fn header(&self) -> HeaderValue {
        HeaderValue::try_from(&self.request)
            .unwrap_or_else(|error| Bug::raise(format!("{:?} as a header: {error}", self.request)))
    }
}

/// What an API found out about a request, for the log.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// The version asked for.
    pub(super) version: Option<String>,
    /// Who asked.
    pub(super) user: Option<String>,
    /// For which project.
    pub(super) project: Option<String>,
    /// Why it failed, if the fault is ours.
    pub(super) cause: Option<String>,
}

/// Gives the request its ids, has it answered, and tells the log.
pub(super) async fn observe<F>(
    connection: Connection,
    trusted: &Trusted,
    mut request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    let started = Instant::now();
    let ids = Ids::of(request.headers());
    let approach = Approach::of(connection, request.headers(), trusted);
    let line = Line::of(&approach, &request, &ids);
    request.extensions_mut().insert(approach.remote);
    if approach.is_remarkable() {
        request.extensions_mut().insert(approach);
    }
    let span = tracing::debug_span!("request", request_id = ids.request);
    let id = ids.header();
    request.extensions_mut().insert(ids);
    let mut response = answer(request).instrument(span).await;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    // Browsers are not to guess that an answer is a page.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    line.write(&response, started);
    response
}

/// Runs a piece of work; if it panics, counts that and says with which words.
pub(super) async fn guard<T>(app: &App, work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
        app.count_panic();
        format!("panic: {}", words(panic.as_ref()))
    })
}

/// What the log says of a request, as far as it is known when it comes in.
struct Line {
    remote: Remote,
    ids: Ids,
    method: Method,
    target: String,
}

impl Line {
    fn of(approach: &Approach, request: &Request, ids: &Ids) -> Self {
        let target = match request.uri().path_and_query() {
            Some(target) => target.to_string(),
            None => request.uri().to_string(),
        };
        let method = request.method().clone();
        Self { remote: approach.remote, ids: ids.clone(), method, target }
    }

    fn write(&self, response: &Response, started: Instant) {
        let account = response.extensions().get::<Account>().cloned().unwrap_or_default();
        let Self { remote, ids, method, target } = self;
        let status = response.status().as_u16();
        // Of a streamed answer the length is not known yet.
        let bytes = response.body().size_hint().exact();
        let took_ms = started.elapsed().as_secs_f64() * 1000.0;
        let Account { version, user, project, cause } = account;
        let version = version.as_deref();
        let (user, project) = (user.as_deref(), project.as_deref());
        let (request_id, global_request_id) = (ids.request.as_str(), ids.global.as_deref());
        if let Some(cause) = cause {
            tracing::error!(request_id, global_request_id, status, "{method} {target}: {cause}");
        }
        tracing::info!(
            request_id,
            global_request_id,
            %remote,
            %method,
            path = target,
            microversion = version,
            status,
            bytes,
            took_ms,
            user,
            project,
            "{method} {target} {status}"
        );
    }
}

/// Whether it looks like an id of OpenStack: `req-` and a UUID.
fn is_request_id(text: &str) -> bool {
    let Some(id) = text.strip_prefix("req-") else { return false };
    let parts: Vec<&str> = id.split('-').collect();
    let word = |part: &&str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(word)
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use super::is_request_id;

    #[test]
    fn only_ids_of_openstack_are_taken_over() {
        assert!(is_request_id("req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901"));
        assert!(is_request_id("req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3dezzz"));
        for other in [
            "",
            "req-",
            "5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901",
            "req-5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de9011",
            "req-5c0bfa84-6b1c-4bbd-9d2f",
            "req-5c0bfa84 6b1c-4bbd-9d2f-7e8a4c3de901",
        ] {
            assert!(!is_request_id(other), "{other}");
        }
    }
}
