//! Responses of a placement service, and microversions.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{Error, error_message};

/// A microversion of the Placement API, by its minor number: 39 is 1.39.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Microversion(pub u16);

impl Microversion {
    /// The first one.
    pub const MIN: Self = Self(0);
    /// The latest supported one.
    pub const MAX: Self = Self(39);
}

impl fmt::Display for Microversion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1.{}", self.0)
    }
}

impl FromStr for Microversion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
        minor.map(Self).ok_or_else(|| format!("{text:?} is not a microversion such as 1.39"))
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct ServiceResponse {
    /// Method and URL of the request.
    request: String,
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl ServiceResponse {
    pub(super) fn new(
        request: String,
        status: StatusCode,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Self {
        Self { request, status, headers, body }
    }

    /// The URL of the request.
    pub fn url(&self) -> &str {
        self.request.split_once(' ').map_or(self.request.as_str(), |(_, url)| url)
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The raw body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn json(&self) -> Result<Value, Error> {
        self.json_as()
    }

    /// Parses the body as JSON of type `T`.
    ///
    /// # Errors
    /// It is not JSON, or of another type.
    pub fn json_as<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::NotPlacement {
            url: self.url().to_owned(),
            why: format!("the body is not the JSON that is expected: {error}"),
        })
    }

    /// Returns the response, if it has this status.
    ///
    /// # Errors
    /// It has another one; the error has the service's message.
    pub fn expect(self, status: StatusCode) -> Result<Self, Error> {
        if self.status == status {
            return Ok(self);
        }
        Err(Error::Status {
            message: error_message(&self.body),
            request: self.request,
            status: self.status,
        })
    }

    /// The delay requested by `Retry-After`, if in seconds.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        text.trim().parse().ok().map(Duration::from_secs)
    }
}
