//! Forms that browsers send.

use axum::http::{HeaderMap, StatusCode};

use super::context::Problem;
use crate::http::api::query::pairs;

/// Rejects forms that another site sends.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get("sec-fetch-site") {
        Some(from) if from != "same-origin" && from != "none" => {
            Err(Problem::new(StatusCode::FORBIDDEN, "This form was sent by another site."))
        }
        _ => Ok(()),
    }
}

/// The fields of a form.
pub(super) struct Form(pub(super) Vec<(String, String)>);

impl Form {
    pub(super) fn parse(body: &[u8]) -> Result<Self, Problem> {
        let wrong = |why: &str| Problem::bad_request(format!("The form is invalid: {why}"));
        let text = std::str::from_utf8(body).map_err(|error| wrong(&error.to_string()))?;
        pairs(text, &['&']).map(Self).map_err(|why| wrong(&why))
    }

    /// Returns a field, unless it is empty.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
        field.filter(|value| !value.is_empty())
    }
}
