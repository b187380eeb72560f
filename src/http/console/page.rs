//! Pages: their frame, and the templates that no other file fills.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS,
};

use super::amounts::Grouped;
use crate::http::api::reply::Reply;
use crate::model::Bug;

/// A page loads styles, scripts and an icon from this server, sends forms to it, and nothing else.
const SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                               img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
                               frame-ancestors 'none'";

/// The frame of every page.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    /// The path of the first page.
    pub(super) base: String,
    /// The name of the caller, if it is known.
    pub(super) user: Option<String>,
    /// The version of the program.
    pub(super) version: &'static str,
}

/// An error.
#[derive(Template)]
#[template(path = "console/error.html")]
pub(super) struct ErrorPage {
    pub(super) shell: Shell,
    pub(super) title: &'static str,
    pub(super) detail: String,
    pub(super) request_id: String,
}

/// The form for signing in.
#[derive(Template)]
#[template(path = "console/sign_in.html")]
pub(super) struct SignInPage {
    pub(super) shell: Shell,
    /// The path to which the form leads.
    pub(super) next: String,
    /// The reason why the caller is not signed in; `None`: there was no attempt.
    pub(super) why: Option<&'static str>,
    /// Whether Keystone issues tokens.
    pub(super) has_keystone: bool,
}

/// Returns a redirection to another page.
pub(super) fn see_other(location: &str) -> Reply {
    Reply::no_content().status(StatusCode::SEE_OTHER).at(location)
}

/// Returns a page as a response.
///
/// # Panics
/// Its template fails, which no content can cause.
pub(super) fn html(page: &impl Template) -> Reply {
    let text = page.render().unwrap_or_else(|error| Bug::raise(format!("a template: {error}")));
    Reply::body(text.into())
        .of_type("text/html; charset=utf-8")
        .header(CACHE_CONTROL, "no-store")
        .header(CONTENT_SECURITY_POLICY, SECURITY_POLICY)
        .header(REFERRER_POLICY, "same-origin")
        .header(X_FRAME_OPTIONS, "DENY")
}

/// The first items of a list.
#[derive(Clone, Debug)]
pub(super) struct FirstItems<T> {
    pub(super) shown: Vec<T>,
    /// Number of further items; `None` instead of 0.
    pub(super) more: Option<Grouped>,
}

impl<T> FirstItems<T> {
    /// Takes at most `most` of `count` items.
    pub(super) fn of(most: usize, count: usize, items: impl Iterator<Item = T>) -> Self {
        let more = count.checked_sub(most).filter(|more| *more > 0).map(Grouped::count);
        Self { shown: items.take(most).collect(), more }
    }
}

/// Links to the pages before and after one of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pager {
    pub(super) page: usize,
    pub(super) pages: usize,
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
}

impl Pager {
    /// Makes the links; `link` makes that of a page.
    pub(super) fn of(page: usize, pages: usize, link: impl Fn(usize) -> String) -> Self {
        Self {
            page,
            pages,
            previous: (page > 1).then(|| link(page - 1)),
            next: (page < pages).then(|| link(page + 1)),
        }
    }
}
