//! Chooses the row of a route for a request. The order of the checks is that of the reference,
//! because it decides which of several errors a client sees: method, version, media type.

use axum::http::Method;

use super::dialect::{Offered, Placement};
use super::microversion::Microversion;
use super::problem::Problem;
use crate::http::api::dialect::{Elsewhere, Media, Row};
use crate::http::api::json::JSON;
use crate::http::api::routes::methods;

/// Chooses the row for a method, a version and media types.
pub(super) fn choose<'r>(
    rows: &'r [Row<Placement>],
    method: &Method,
    microversion: Microversion,
    media: &Offered,
) -> Result<&'r Row<Placement>, Problem> {
    // The allowed methods without the one that the client tried.
    let allow = || {
        let others = methods(rows).into_iter().filter(|it| *it != method.as_str());
        others.collect::<Vec<_>>().join(", ")
    };
    let same_method = || rows.iter().filter(|row| row.method == *method);
    let first = same_method().next().ok_or_else(|| {
        let detail = "The method specified is not allowed for this resource.";
        Problem::method_not_allowed(detail, allow())
    })?;
    if first.media_before_version {
        check_media(first.media, media)?;
    }
    let row = same_method().find(|row| row.versions.contain(microversion));
    let row = row.ok_or_else(|| match first.elsewhere {
        Elsewhere::NotFound => Problem::not_found(""),
        Elsewhere::NotAllowed => Problem::method_not_allowed("", allow()),
    })?;
    check_media(row.media, media)?;
    Ok(row)
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
