//! Differences between the APIs, and what the layers establish about a request.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, StatusCode};
use axum::response::Response;

use super::operation::{Operation, VersionBounds};
use crate::auth::policy::Rule;
use crate::http::app::{App, Options};
use crate::http::layers::identity::Caller;
use crate::http::layers::request_id::request_id;
use crate::model::Refusal;
use crate::model::claim::Faults;

/// Differences between the APIs: versions, checks of every request, the choice of a row, and the
/// form of errors.
pub(in crate::http) trait Dialect:
    Copy + Debug + Eq + Send + Sync + 'static
{
    /// The versions that a row of the table applies to.
    type Versions: Send + Sync;
    /// Facts that the API reads from every request, apart from the caller.
    type Facts: Debug + Send + Sync;
    /// Machine-readable part of an error, beside the status.
    type Code: Clone + Debug + Default + Eq + Send + Sync;

    /// The name of the API in metrics.
    const NAME: &'static str;
    /// Whether a slash at the end of a path is ignored.
    const IGNORES_LAST_SLASH: bool;

    /// The additional path prefix of the API; may be empty.
    fn prefix(options: &Options) -> &str;

    /// Reads the request. [`Self::understand`] reports errors, since it runs after authentication.
    fn facts(request: &Request) -> Self::Facts;

    /// The caller with the roles that this API assumes.
    fn caller(_app: &App, caller: Arc<Caller>, _request: &Parts) -> Arc<Caller> {
        caller
    }

    /// Makes the checks of every request, whatever its path.
    ///
    /// # Errors
    /// The request is invalid.
    fn understand(_context: &Context<Self>, _request: &Request) -> Result<(), Problem<Self>> {
        Ok(())
    }

    /// Chooses the row of a route for a request.
    ///
    /// # Errors
    /// No row matches, or the policy does not allow it.
    fn choose<'r>(
        rows: &'r [Row<Self>],
        app: &App,
        request: &Request,
    ) -> Result<&'r Row<Self>, Problem<Self>>;

    /// The status of a refusal by the store, unless the handler chooses another.
    fn status(why: &Refusal) -> StatusCode;

    /// Writes a problem as a response.
    fn render(problem: Problem<Self>, context: &Context<Self>) -> Response;

    /// Adds the headers that every response has.
    fn describe(_context: &Context<Self>, _answer: &mut HeaderMap) {}

    /// Returns the bounds of a range of versions, for the API document.
    fn bounds(_versions: &Self::Versions) -> VersionBounds {
        VersionBounds::default()
    }

    /// The requested version, for the log.
    fn version(_context: &Context<Self>) -> Option<String> {
        None
    }
}

/// Facts that the layers have established about a request. All of them share it.
#[derive(Debug)]
pub(in crate::http) struct Context<D: Dialect> {
    pub(in crate::http) method: Method,
    pub(in crate::http) request_id: String,
    pub(in crate::http) facts: D::Facts,
    pub(super) caller: OnceLock<Arc<Caller>>,
    /// The path of the matched route.
    pub(super) route: OnceLock<&'static str>,
}

impl<D: Dialect> Context<D> {
    pub(super) fn of(request: &Request) -> Self {
        Self {
            method: request.method().clone(),
            request_id: request_id(request.extensions()).to_owned(),
            facts: D::facts(request),
            caller: OnceLock::new(),
            route: OnceLock::new(),
        }
    }

    /// The caller; `None` for the root, which needs no token.
    pub(in crate::http) fn caller(&self) -> Option<&Arc<Caller>> {
        self.caller.get()
    }
}

/// Returns the context of a request.
///
/// # Errors
/// The request did not pass the layers.
pub(in crate::http) fn context<D: Dialect>(
    extensions: &Extensions,
) -> Result<&Context<D>, Problem<D>> {
    let missing = || Problem::internal("a request has no context");
    extensions.get::<Arc<Context<D>>>().map(Arc::as_ref).ok_or_else(missing)
}

/// Returns the caller of a request.
///
/// # Errors
/// No layer has determined it.
pub(in crate::http) fn caller<D: Dialect>(
    extensions: &Extensions,
) -> Result<&Arc<Caller>, Problem<D>> {
    let missing = || Problem::internal("no layer has determined the caller");
    context::<D>(extensions)?.caller().ok_or_else(missing)
}

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct Problem<D: Dialect> {
    pub(in crate::http) status: StatusCode,
    /// The machine-readable code.
    pub(in crate::http) code: D::Code,
    /// The detail for people; empty: the standard text of the status.
    pub(in crate::http) detail: String,
    /// The value of `Allow`, for 405.
    pub(in crate::http) allow: Option<String>,
    /// The value of `WWW-Authenticate`, for 401.
    pub(in crate::http) www_authenticate: Option<String>,
    /// The value of `Retry-After` in seconds, for 429 and 503.
    pub(in crate::http) retry_after: Option<u16>,
    /// The cause, for the log only.
    pub(in crate::http) cause: Option<String>,
    /// The faults of a refused change.
    pub(in crate::http) faults: Option<Box<Faults>>,
}

/// A path with its rows.
pub(in crate::http) struct Route<D: Dialect> {
    /// The path in axum's syntax, with `{name}` for a variable segment.
    pub(in crate::http) path: &'static str,
    /// The rows, in the order of the header `Allow`.
    pub(in crate::http) rows: Vec<Row<D>>,
}

/// One method of a path in a range of versions.
pub(in crate::http) struct Row<D: Dialect> {
    pub(in crate::http) method: Method,
    /// The versions of the row.
    pub(in crate::http) versions: D::Versions,
    /// The response at other versions.
    pub(in crate::http) elsewhere: Elsewhere,
    pub(in crate::http) media: Media,
    /// Whether the media type is checked before the version.
    pub(in crate::http) media_before_version: bool,
    /// Policy rules, one of which must allow the caller. Empty: anyone, or the handler checks.
    pub(in crate::http) rules: Vec<Rule>,
    /// The description of the row in the API document.
    pub(in crate::http) operation: Operation,
    pub(super) handler: BoxedHandler,
}

/// Response at versions without a matching row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Elsewhere {
    NotFound,
    NotAllowed,
}

/// Media types that a row checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Media {
    /// The client must accept JSON.
    JsonOut,
    /// The client must send JSON.
    JsonIn,
    /// Neither.
    Any,
}

/// The future of a response.
pub(in crate::http) type BoxedResponse = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An axum handler with any extractors.
pub(in crate::http) type BoxedHandler =
    Box<dyn Fn(Request, Arc<App>) -> BoxedResponse + Send + Sync>;
