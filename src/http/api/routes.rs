//! Routes: the rows of a path, by method and, where an API has versions, by version.

use std::convert::Infallible;
use std::future::ready;
use std::ops::RangeFull;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::Map;
use schemars::JsonSchema;
use tower::Service;

pub(in crate::http) use super::dialect::{
    BoxedHandler, BoxedResponse, Elsewhere, Media, Route, Row,
};
use super::dialect::{Dialect, Problem, caller, context};
use super::json::JSON;
use super::operation::{Described, DescribedResponse, MakeSchema, Operation};
use crate::auth::policy::Rule;
use crate::http::app::App;

/// Versions of a row in an API with a single version.
pub(in crate::http) struct OneVersion;

impl From<RangeFull> for OneVersion {
    fn from(_: RangeFull) -> Self {
        Self
    }
}

/// Erases the type of a handler.
pub(in crate::http) fn boxed<H, T>(handler: H) -> BoxedHandler
where
    H: Handler<T, Arc<App>, Future = BoxedResponse> + Sync,
    T: 'static,
{
    Box::new(move |request, app| handler.clone().call(request, app))
}

/// Defines a constructor of rows for each method.
macro_rules! methods {
    ($($(#[doc = $doc:literal])+ $name:ident = $method:ident, $media:ident;)+) => {
        $(
            $(#[doc = $doc])+
            pub(in crate::http) fn $name<D, H, T>(
                versions: impl Into<D::Versions>,
                rule: impl Into<Option<Rule>>,
                handler: H,
            ) -> Row<D>
            where
                D: Dialect,
                H: Handler<T, Arc<App>, Future = BoxedResponse> + Sync,
                T: 'static,
            {
                let rules = rule.into().into_iter().collect();
                let row = Row::new(Method::$method, versions.into(), rules, boxed(handler));
                let operation = Operation::of_handler::<H>();
                Row { media: Media::$media, operation, ..row }
            }
        )+
    };
}

methods! {
    /// A row for `GET`, whose client must accept JSON.
    get = GET, JsonOut;
    /// A row for `HEAD`.
    head = HEAD, Any;
    /// A row for `POST`, whose client must send JSON.
    post = POST, JsonIn;
    /// A row for `PUT`, whose client must send JSON.
    put = PUT, JsonIn;
    /// A row for `DELETE`.
    delete = DELETE, Any;
}

/// Creates a route of a path and its rows.
pub(in crate::http) fn route<D: Dialect, const N: usize>(
    path: &'static str,
    rows: [Row<D>; N],
) -> Route<D> {
    Route { path, rows: rows.into() }
}

impl<D: Dialect> Route<D> {
    /// Replaces the handlers: `map` is given the method and the handler of each row.
    pub(in crate::http) fn map_handlers(
        self,
        map: impl Fn(&Method, BoxedHandler) -> BoxedHandler,
    ) -> Self {
        let mapped = |row: Row<D>| Row { handler: map(&row.method, row.handler), ..row };
        Self { rows: self.rows.into_iter().map(mapped).collect(), ..self }
    }
}

/// Returns the methods of the rows, each once, in the order of the table.
pub(in crate::http) fn methods<D: Dialect>(rows: &[Row<D>]) -> Vec<&str> {
    let mut methods: Vec<&str> = rows.iter().map(|row| row.method.as_str()).collect();
    methods.dedup();
    methods
}

/// Chooses the row of a request in an API with a single version, and checks its rules.
///
/// # Errors
/// There is no row for the method, or the policy does not allow it.
pub(in crate::http) fn by_method<'r, D: Dialect<Versions = OneVersion>>(
    rows: &'r [Row<D>],
    app: &App,
    request: &Request,
) -> Result<&'r Row<D>, Problem<D>> {
    let row = rows.iter().find(|row| row.method == *request.method());
    let row = row.ok_or_else(|| {
        let detail = format!("The method {} is not allowed here.", request.method());
        Problem::method_not_allowed(detail, methods(rows).join(", "))
    })?;
    for rule in &row.rules {
        let checked = app.policy.check(caller(request.extensions())?, *rule, None);
        checked.map_err(|denied| Problem::new(StatusCode::FORBIDDEN, denied.to_string()))?;
    }
    Ok(row)
}

impl<D: Dialect> Row<D> {
    /// Creates a row that checks no media types.
    pub(in crate::http) fn new(
        method: Method,
        versions: D::Versions,
        rules: Vec<Rule>,
        handler: BoxedHandler,
    ) -> Self {
        Self {
            method,
            versions,
            elsewhere: Elsewhere::NotFound,
            media: Media::Any,
            media_before_version: false,
            rules,
            operation: Operation::of_handler::<()>(),
            handler,
        }
    }

    /// Removes the check of media types.
    pub(in crate::http) fn of_any_media(self) -> Self {
        Self { media: Media::Any, ..self }
    }

    /// Checks the media type before the version.
    pub(in crate::http) fn media_first(self) -> Self {
        Self { media_before_version: true, ..self }
    }

    /// Responds 405 instead of 404 at other versions.
    pub(in crate::http) fn not_allowed_elsewhere(self) -> Self {
        Self { elsewhere: Elsewhere::NotAllowed, ..self }
    }

    /// Adds a policy rule that may allow the caller. The handler checks which of them the request
    /// needs.
    pub(in crate::http) fn or(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

/// Description of the row in the API document.
impl<D: Dialect> Row<D> {
    /// Sets the sentence about the operation.
    pub(in crate::http) fn about(mut self, summary: &'static str) -> Self {
        self.operation.summary = summary;
        self
    }

    /// Adds parameters of the query.
    pub(in crate::http) fn query(mut self, parameters: &'static dyn Described) -> Self {
        self.operation.query.push(parameters);
        self
    }

    /// Adds a form of the body.
    pub(in crate::http) fn body(mut self, body: &'static dyn Described) -> Self {
        self.operation.bodies.push(body);
        self
    }

    /// Adds the response 200 with a JSON body.
    pub(in crate::http) fn returns<T: JsonSchema>(self) -> Self {
        self.returns_as::<T>(JSON)
    }

    /// Adds the response 200 with a body of another media type.
    pub(in crate::http) fn returns_as<T: JsonSchema>(self, media_type: &'static str) -> Self {
        let make: MakeSchema = |generator| generator.subschema_for::<T>();
        self.responds(StatusCode::OK, Some((media_type, make)))
    }

    /// Adds the response 201 with a JSON body.
    pub(in crate::http) fn creates<T: JsonSchema>(self) -> Self {
        let make: MakeSchema = |generator| generator.subschema_for::<T>();
        self.responds(StatusCode::CREATED, Some((JSON, make)))
    }

    /// Adds the response 201 without a body.
    pub(in crate::http) fn creates_silently(self) -> Self {
        self.responds(StatusCode::CREATED, None)
    }

    /// Adds the response 204.
    pub(in crate::http) fn returns_nothing(self) -> Self {
        self.responds(StatusCode::NO_CONTENT, None)
    }

    fn responds(mut self, status: StatusCode, content: Option<(&'static str, MakeSchema)>) -> Self {
        self.operation.responses.push(DescribedResponse { status, content });
        self
    }
}

/// The service of a route, which chooses a row and calls its handler.
pub(super) struct Routed<D: Dialect> {
    app: Arc<App>,
    path: &'static str,
    rows: Arc<[Row<D>]>,
}

impl<D: Dialect> Routed<D> {
    pub(super) fn new(app: &Arc<App>, path: &'static str, rows: Vec<Row<D>>) -> Self {
        Self { app: Arc::clone(app), path, rows: rows.into() }
    }
}

impl<D: Dialect> Clone for Routed<D> {
    fn clone(&self) -> Self {
        Self { app: Arc::clone(&self.app), path: self.path, rows: Arc::clone(&self.rows) }
    }
}

impl<D: Dialect> Service<Request> for Routed<D> {
    type Response = Response;
    type Error = Infallible;
    type Future = Map<BoxedResponse, fn(Response) -> Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if let Ok(context) = context::<D>(request.extensions()) {
            context.route.get_or_init(|| self.path);
        }
        let response: BoxedResponse = match D::choose(&self.rows, &self.app, &request) {
            Ok(row) => (row.handler)(request, Arc::clone(&self.app)),
            Err(problem) => Box::pin(ready(problem.into_response())),
        };
        response.map(Ok)
    }
}
