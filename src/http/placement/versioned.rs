//! A route of the API: several ways to answer one path, by method and microversion. The order of the
//! questions is that of the reference, because it decides which of several faults a client is told:
//! method, version, media type, policy.

use std::ops::RangeBounds;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};

use super::accept::{Accept, JSON};
use super::context;
use super::microversion::{Microversion, Versions};
use super::problem::Problem;
use crate::http::app::App;
use crate::policy::Rule;

/// A path with what answers it.
pub(super) struct Route {
    /// As the router has it, with `{name}` for a part that varies.
    pub(super) path: &'static str,
    /// What answers it.
    pub(super) answer: Versioned,
}

/// The ways to answer a path, in the order of the table.
#[derive(Clone)]
pub(super) struct Versioned(Arc<[Row]>);

/// One way to answer a path.
pub(super) struct Row {
    /// The method.
    pub(super) method: Method,
    /// The versions that have it.
    pub(super) versions: Versions,
    /// What other versions are told.
    pub(super) elsewhere: Elsewhere,
    /// Which media types it is about.
    pub(super) media: Media,
    /// Whether the media type is looked at before the version.
    pub(super) media_before_version: bool,
    /// Who may; `None`: anyone, or the handler asks.
    pub(super) rule: Option<Rule>,
    /// What answers.
    handler: BoxedHandler,
}

/// What versions are told that do not have a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// There is no such thing.
    NotFound,
    /// There is, but not by this method.
    NotAllowed,
}

/// Which media types a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    /// It gives JSON, which the client must accept.
    JsonOut,
    /// It takes JSON, which the client must send.
    JsonIn,
    /// Neither.
    Any,
}

/// An axum handler of any arguments.
type BoxedHandler =
    Box<dyn Fn(Request, Arc<App>) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;

/// A path with its rows.
pub(super) fn route<const N: usize>(path: &'static str, rows: [Row; N]) -> Route {
    Route { path, answer: Versioned(rows.into()) }
}

/// A row for `GET`. It gives JSON.
pub(super) fn get<H, T>(
    versions: impl RangeBounds<Microversion>,
    rule: impl Into<Option<Rule>>,
    handler: H,
) -> Row
where
    H: Handler<T, Arc<App>> + Sync,
    T: 'static,
{
    Row::new(Method::GET, Versions::of(versions), rule.into(), handler).media(Media::JsonOut)
}

/// A row for `POST`. It takes JSON.
pub(super) fn post<H, T>(
    versions: impl RangeBounds<Microversion>,
    rule: impl Into<Option<Rule>>,
    handler: H,
) -> Row
where
    H: Handler<T, Arc<App>> + Sync,
    T: 'static,
{
    Row::new(Method::POST, Versions::of(versions), rule.into(), handler).media(Media::JsonIn)
}

/// A row for `PUT`. It takes JSON.
pub(super) fn put<H, T>(
    versions: impl RangeBounds<Microversion>,
    rule: impl Into<Option<Rule>>,
    handler: H,
) -> Row
where
    H: Handler<T, Arc<App>> + Sync,
    T: 'static,
{
    Row::new(Method::PUT, Versions::of(versions), rule.into(), handler).media(Media::JsonIn)
}

/// A row for `DELETE`.
pub(super) fn delete<H, T>(
    versions: impl RangeBounds<Microversion>,
    rule: impl Into<Option<Rule>>,
    handler: H,
) -> Row
where
    H: Handler<T, Arc<App>> + Sync,
    T: 'static,
{
    Row::new(Method::DELETE, Versions::of(versions), rule.into(), handler)
}

impl Row {
    fn new<H, T>(method: Method, versions: Versions, rule: Option<Rule>, handler: H) -> Self
    where
        H: Handler<T, Arc<App>> + Sync,
        T: 'static,
    {
        Self {
            method,
            versions,
            elsewhere: Elsewhere::NotFound,
            media: Media::Any,
            media_before_version: false,
            rule,
            handler: Box::new(move |request, app| Box::pin(handler.clone().call(request, app))),
        }
    }

    fn media(self, media: Media) -> Self {
        Self { media, ..self }
    }

    /// The answer does not depend on what the client accepts.
    pub(super) fn in_any_form(self) -> Self {
        self.media(Media::Any)
    }

    /// No body is looked at.
    pub(super) fn bodiless(self) -> Self {
        self.media(Media::Any)
    }

    /// The media type is looked at before the version.
    pub(super) fn media_first(self) -> Self {
        Self { media_before_version: true, ..self }
    }

    /// Versions without it are told that the method is not allowed.
    pub(super) fn not_allowed_elsewhere(self) -> Self {
        Self { elsewhere: Elsewhere::NotAllowed, ..self }
    }
}

impl From<Versioned> for MethodRouter<Arc<App>> {
    fn from(rows: Versioned) -> Self {
        any(async move |State(app): State<Arc<App>>, request: Request| {
            rows.clone().answer(app, request).await
        })
    }
}

impl Versioned {
    /// The rows.
    #[cfg(test)]
    pub(super) fn rows(&self) -> &[Row] {
        &self.0
    }

    /// Answers a request for the path.
    async fn answer(self, app: Arc<App>, request: Request) -> Response {
        let row = match self.row(&app, &request) {
            Ok(row) => row,
            Err(problem) => return problem.into_response(),
        };
        (row.handler)(request, app).await
    }

    /// The row that answers, if the caller is permitted to have it.
    fn row(&self, app: &App, request: &Request) -> Result<&Row, Problem> {
        let context = context(request.extensions())?;
        let row = self.choose(request.method(), context.asked()?, &context.offered)?;
        if let Some(rule) = row.rule {
            app.policy.check(context.caller()?, rule, None)?;
        }
        Ok(row)
    }

    /// The row for a method, a version and media types.
    pub(super) fn choose(
        &self,
        method: &Method,
        asked: Microversion,
        media: &Offered,
    ) -> Result<&Row, Problem> {
        let same_method = || self.0.iter().filter(|row| row.method == *method);
        let first = same_method().next().ok_or_else(|| {
            let detail = "The method specified is not allowed for this resource.";
            Problem::method_not_allowed(detail, self.allow_but(method))
        })?;
        if first.media_before_version {
            check_media(first.media, media)?;
        }
        let row = same_method().find(|row| row.versions.contain(asked));
        let row = row.ok_or_else(|| match first.elsewhere {
            Elsewhere::NotFound => Problem::not_found(""),
            Elsewhere::NotAllowed => Problem::method_not_allowed("", self.allow_but(method)),
        })?;
        check_media(row.media, media)?;
        Ok(row)
    }

    /// The methods there are but for one that a client tried in vain, in the order of the table.
    fn allow_but(&self, tried: &Method) -> String {
        let methods = self.0.iter().map(|row| &row.method).filter(|method| *method != tried);
        let mut methods: Vec<&str> = methods.map(Method::as_str).collect();
        methods.dedup();
        methods.join(", ")
    }
}

/// What a client sends, and what it accepts.
#[derive(Clone, Debug)]
pub(super) struct Offered {
    /// The media type of the body.
    pub(super) content_type: Option<String>,
    /// The media types of the answer.
    pub(super) accept: Accept,
}

impl Offered {
    /// From the headers of a request.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let sent = headers.get(CONTENT_TYPE).map(|it| String::from_utf8_lossy(it.as_bytes()));
        let sent = sent.map(|it| it.split(';').next().unwrap_or_default().to_owned());
        Self {
            content_type: sent.filter(|sent| !sent.is_empty()),
            accept: Accept::from_headers(headers),
        }
    }
}

fn check_media(media: Media, offered: &Offered) -> Result<(), Problem> {
    match media {
        Media::JsonOut if offered.accept.best_of(&[JSON]).is_none() => {
            Err(Problem::not_acceptable(format!("Only {JSON} is provided")))
        }
        Media::JsonIn if offered.content_type.as_deref() != Some(JSON) => {
            let sent = offered.content_type.as_deref().unwrap_or("None");
            Err(Problem::unsupported_media_type(format!(
                "The media type {sent} is not supported, use {JSON}"
            )))
        }
        Media::JsonOut | Media::JsonIn | Media::Any => Ok(()),
    }
}

#[cfg(test)]
mod tests;
