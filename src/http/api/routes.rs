//! Routes: several ways to answer one path, by method and, where an API has them, by version.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::future::Map;
use tower::Service;

use super::Dialect;
use crate::http::app::App;
use crate::policy::Rule;

/// A path with what answers it.
pub(in crate::http) struct Route<D: Dialect> {
    /// As the router has it, with `{name}` for a part that varies.
    pub(in crate::http) path: &'static str,
    /// The ways to answer it.
    pub(in crate::http) rows: Vec<Row<D>>,
}

/// One way to answer a path.
pub(in crate::http) struct Row<D: Dialect> {
    /// The method.
    pub(in crate::http) method: Method,
    /// The versions that have it.
    pub(in crate::http) versions: D::Versions,
    /// What other versions are told.
    pub(in crate::http) elsewhere: Elsewhere,
    /// Which media types it is about.
    pub(in crate::http) media: Media,
    /// Whether the media type is looked at before the version.
    pub(in crate::http) media_before_version: bool,
    /// Who may: one of the rules has to let the caller pass. None: anyone, or the handler asks.
    pub(in crate::http) rules: Vec<Rule>,
    /// What answers.
    handler: BoxedHandler,
}

/// What versions are told that do not have a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Elsewhere {
    /// There is no such thing.
    NotFound,
    /// There is, but not by this method.
    NotAllowed,
}

/// Which media types a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Media {
    /// It gives JSON, which the client must accept.
    JsonOut,
    /// It takes JSON, which the client must send.
    JsonIn,
    /// Neither.
    Any,
}

/// An answer to come.
pub(in crate::http) type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An axum handler of any arguments.
pub(in crate::http) type BoxedHandler = Box<dyn Fn(Request, Arc<App>) -> Answer + Send + Sync>;

/// A handler, whatever it extracts from a request.
pub(in crate::http) fn boxed<H, T>(handler: H) -> BoxedHandler
where
    H: Handler<T, Arc<App>, Future = Answer> + Sync,
    T: 'static,
{
    Box::new(move |request, app| handler.clone().call(request, app))
}

/// Makes a constructor of rows for each method.
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
                H: Handler<T, Arc<App>, Future = Answer> + Sync,
                T: 'static,
            {
                let rules = rule.into().into_iter().collect();
                let row = Row::new(Method::$method, versions.into(), rules, boxed(handler));
                Row { media: Media::$media, ..row }
            }
        )+
    };
}

methods! {
    /// A row for `GET`. It gives JSON.
    get = GET, JsonOut;
    /// A row for `HEAD`.
    head = HEAD, Any;
    /// A row for `POST`. It takes JSON.
    post = POST, JsonIn;
    /// A row for `PUT`. It takes JSON.
    put = PUT, JsonIn;
    /// A row for `DELETE`.
    delete = DELETE, Any;
}

/// A path with its rows.
pub(in crate::http) fn route<D: Dialect, const N: usize>(
    path: &'static str,
    rows: [Row<D>; N],
) -> Route<D> {
    Route { path, rows: rows.into() }
}

/// The methods that rows have, each once, in the order of the table.
pub(in crate::http) fn methods<D: Dialect>(rows: &[Row<D>]) -> Vec<&str> {
    let mut methods: Vec<&str> = rows.iter().map(|row| row.method.as_str()).collect();
    methods.dedup();
    methods
}

impl<D: Dialect> Row<D> {
    /// A row that says nothing of media types.
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
            handler,
        }
    }

    /// The answer does not depend on what the client accepts.
    pub(in crate::http) fn in_any_form(self) -> Self {
        Self { media: Media::Any, ..self }
    }

    /// No body is looked at.
    pub(in crate::http) fn bodiless(self) -> Self {
        Self { media: Media::Any, ..self }
    }

    /// The media type is looked at before the version.
    pub(in crate::http) fn media_first(self) -> Self {
        Self { media_before_version: true, ..self }
    }

    /// Versions without it are told that the method is not allowed.
    pub(in crate::http) fn not_allowed_elsewhere(self) -> Self {
        Self { elsewhere: Elsewhere::NotAllowed, ..self }
    }

    /// Another rule may let the caller pass as well. The handler knows which of them it takes.
    pub(in crate::http) fn or(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

/// The service of a route: it chooses a row, which answers.
pub(super) struct Routed<D: Dialect> {
    app: Arc<App>,
    rows: Arc<[Row<D>]>,
}

impl<D: Dialect> Routed<D> {
    pub(super) fn new(app: &Arc<App>, rows: Vec<Row<D>>) -> Self {
        Self { app: Arc::clone(app), rows: rows.into() }
    }
}

impl<D: Dialect> Clone for Routed<D> {
    fn clone(&self) -> Self {
        Self { app: Arc::clone(&self.app), rows: Arc::clone(&self.rows) }
    }
}

impl<D: Dialect> Service<Request> for Routed<D> {
    type Response = Response;
    type Error = Infallible;
    type Future = Map<Answer, fn(Response) -> Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let answer: Answer = match D::choose(&self.rows, &self.app, &request) {
            Ok(row) => (row.handler)(request, Arc::clone(&self.app)),
            Err(problem) => Box::pin(ready(problem.into_response())),
        };
        answer.map(Ok)
    }
}
