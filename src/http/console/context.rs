//! The dialect of the console: its errors are pages.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::page::{ErrorPage, Shell, SignInPage, html};
use super::session::Site;
use crate::http::api;
use crate::http::api::dialect::{Context, Dialect, Row, caller, context};
use crate::http::api::routes::{OneVersion, by_method};
use crate::http::app::{App, Options};
use crate::http::layers::identity::Caller;
use crate::http::operator::context::Operator;
use crate::http::placement::{self, Code};
use crate::model::Refusal;
use crate::observe::version::VERSION;

/// An error of the console.
pub(super) type Problem = api::problem::Problem<Console>;

/// The dialect of the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Console;

impl Dialect for Console {
    type Versions = OneVersion;
    type Facts = Site;
    type Code = Code;

    const NAME: &'static str = "console";
    const IGNORES_LAST_SLASH: bool = true;

    fn prefix(options: &Options) -> &str {
        &options.path_prefix
    }

    fn facts(request: &Request) -> Site {
        request.extensions().get().cloned().unwrap_or_default()
    }

    fn choose<'r>(
        rows: &'r [Row<Self>],
        app: &App,
        request: &Request,
    ) -> Result<&'r Row<Self>, Problem> {
        by_method(rows, app, request)
    }

    fn status(_: &Refusal) -> StatusCode {
        StatusCode::CONFLICT
    }

    /// An unauthenticated caller gets the page for signing in, which leads back to the requested page.
    fn render(problem: Problem, context: &Context<Self>) -> Response {
        let Problem { status, ref detail, .. } = problem;
        let shell = Shell::of(context);
        let page = if status == StatusCode::UNAUTHORIZED {
            let why = context.facts.has_token.then_some("The token is not valid, or has expired.");
            let Site { requested: next, has_keystone, .. } = context.facts.clone();
            html(&SignInPage { shell, next, why, has_keystone })
        } else {
            let detail = if detail.is_empty() { api::status::explanation(status) } else { detail };
            let detail = detail.to_owned();
            let request_id = context.request_id.clone();
            html(&ErrorPage { shell, title: api::status::title(status), detail, request_id })
        };
        let mut response = page.status(status).into_response();
        problem.add_headers(response.headers_mut());
        response
    }
}

impl Shell {
    /// Returns the frame of the pages of a request.
    fn of(context: &Context<Console>) -> Self {
        let name = |caller: &Arc<Caller>| caller.user.clone().or_else(|| caller.project.clone());
        Self {
            base: context.facts.base.clone(),
            user: context.caller().and_then(name),
            version: VERSION,
        }
    }
}

impl<S: Sync> axum::extract::FromRequestParts<S> for Shell {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Ok(Self::of(context::<Console>(&parts.extensions)?))
    }
}

/// Converts a problem of the operator API.
impl From<api::problem::Problem<Operator>> for Problem {
    fn from(problem: api::problem::Problem<Operator>) -> Self {
        problem.into_dialect(|code| code)
    }
}

/// Converts a problem of the Placement API.
impl From<placement::Problem> for Problem {
    fn from(problem: placement::Problem) -> Self {
        problem.into_dialect(|code| code)
    }
}

/// The caller of a request.
pub(super) struct ConsoleCaller(pub(super) Arc<Caller>);

impl<S: Sync> axum::extract::FromRequestParts<S> for ConsoleCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        caller(&parts.extensions).cloned().map(Self)
    }
}
