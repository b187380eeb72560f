//! Choosing the row of the table that answers a request. The order of the questions is that of the
//! reference, because it decides which of several faults a client is told:
//! path, method, version, media type, policy.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method};

use super::accept::{Accept, JSON};
use super::microversion::Microversion;
use super::problem::Problem;
use super::routes::{Elsewhere, Media, Route, Row};
use crate::http::path::{self, Captured};

/// The route of a path, and the values of its variable parts.
pub(super) fn find<'t>(table: &'t [Route], asked: &str) -> Result<(&'t Route, Captured), Problem> {
    let parts = path::parts(asked).map_err(Problem::bad_request)?;
    let found = table.iter().find_map(|route| Some((route, path::capture(route.path, &parts)?)));
    found.ok_or_else(|| Problem::not_found(""))
}

/// The row that answers, if the caller is permitted to have it.
pub(super) fn choose<'t>(
    route: &'t Route,
    method: &Method,
    asked: Microversion,
    media: &Offered,
) -> Result<&'t Row, Problem> {
    let same_method = || route.rows.iter().filter(|row| row.method == *method);
    let first = same_method().next().ok_or_else(|| {
        let detail = "The method specified is not allowed for this resource.";
        Problem::method_not_allowed(detail, route.allow_but(method))
    })?;
    if first.media_before_version {
        check_media(first.media, media)?;
    }
    let row = same_method().find(|row| row.versions.contain(asked));
    let row = row.ok_or_else(|| match first.elsewhere {
        Elsewhere::NotFound => Problem::not_found(""),
        Elsewhere::NotAllowed => Problem::method_not_allowed("", route.allow_but(method)),
    })?;
    check_media(row.media, media)?;
    Ok(row)
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
