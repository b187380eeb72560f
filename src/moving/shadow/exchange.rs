//! A request with its response.

use std::io::Read as _;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use flate2::read::MultiGzDecoder;

use super::copied_body::{BodyCopy, Omitted};
use super::route::{self, Kind};
use crate::http_client::{Failure, HasStatus};
use crate::moving::compare::known::ComparedRequest;
use crate::moving::compare::response::ComparedResponse;

/// Headers that are recomputed when a request is sent again.
const OF_ONE_SENDING: [HeaderName; 4] =
    [header::ACCEPT_ENCODING, header::CONTENT_LENGTH, header::EXPECT, header::TRANSFER_ENCODING];
/// The header with the microversion.
const MICROVERSION: &str = "openstack-api-version";
/// The header with the request's id.
const REQUEST_ID: &str = "x-openstack-request-id";
/// Maximum length of a decompressed body, as a multiple of the longest body that is compared.
const EXPANSION_MAX: usize = 4;

/// A request without its body.
#[derive(Clone)]
pub(super) struct RequestHead {
    pub(super) method: Method,
    /// As the client sent it.
    pub(super) uri: Uri,
    /// Without those of the connection. Their tokens are marked as secrets.
    pub(super) headers: HeaderMap,
}

impl RequestHead {
    pub(super) fn kind(&self) -> Kind {
        Kind::of(&self.method)
    }

    pub(super) fn route(&self) -> &'static str {
        route::route(self.uri.path())
    }

    /// Path and query.
    pub(super) fn target(&self) -> &str {
        self.uri.path_and_query().map_or("", |it| it.as_str())
    }

    pub(super) fn compared_request(&self, body: &[u8]) -> ComparedRequest {
        ComparedRequest::new(self.method.as_str(), self.target(), body)
    }

    /// Builds the same request for sending it again. It asks for an uncompressed response.
    pub(super) fn request(&self, body: Vec<u8>) -> Request {
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        for name in OF_ONE_SENDING {
            request.headers_mut().remove(name);
        }
        request
    }

    /// The requested microversion.
    pub(super) fn microversion(&self) -> Option<String> {
        text_of(&self.headers, MICROVERSION)
    }
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// Label of a failure in metrics.
pub(super) fn name_of(failure: &Failure) -> &'static str {
    match failure {
        Failure::NotConnected(_) => "not_connected",
        Failure::TimedOut => "timeout",
        Failure::Broken(_) => "broken",
    }
}

/// A response.
pub(super) struct TimedResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: BodyCopy,
    /// The time from sending the request to the end of the response.
    pub(super) took: Duration,
}

impl HasStatus for TimedResponse {
    fn status(&self) -> Option<StatusCode> {
        Some(self.status)
    }
}

/// Reasons why an exchange cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Incomparable {
    /// No response.
    Failed(Failure),
    /// No copy of the response.
    Omitted(Omitted),
    /// The encoding of the body is unknown or invalid.
    Encoded,
}

impl Incomparable {
    /// Label in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Failed(failure) => name_of(failure),
            Self::Omitted(omitted) => omitted.name(),
            Self::Encoded => "encoded",
        }
    }
}

impl TimedResponse {
    /// The response in the form for comparison.
    ///
    /// # Errors
    /// The body cannot be decoded.
    pub(super) fn comparable(&self) -> Result<ComparedResponse, Incomparable> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let status = self.status.as_u16();
        let bytes = self.body.bytes();
        match text_of(&self.headers, header::CONTENT_ENCODING.as_str()).as_deref() {
            None | Some("" | "identity") => Ok(ComparedResponse::new(status, headers, bytes)),
            Some("gzip" | "x-gzip") => {
                let most = self.body.bytes_max().saturating_mul(EXPANSION_MAX);
                let plain = expanded(bytes, most)?;
                Ok(ComparedResponse::new(status, headers, &plain))
            }
            Some(_) => Err(Incomparable::Encoded),
        }
    }

    /// Returns whether another response is equal byte for byte.
    pub(super) fn is_literally(&self, other: &Self) -> bool {
        fn head(of: &TimedResponse) -> ComparedResponse {
            let headers = of.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
            ComparedResponse::new(of.status.as_u16(), headers, b"")
        }
        let encoding = |of: &Self| text_of(&of.headers, header::CONTENT_ENCODING.as_str());
        self.body.bytes() == other.body.bytes()
            && encoding(self) == encoding(other)
            && head(self) == head(other)
    }

    /// The ID that the service gave the request.
    pub(super) fn request_id(&self) -> Option<String> {
        text_of(&self.headers, REQUEST_ID)
    }
}

fn expanded(bytes: &[u8], most: usize) -> Result<Vec<u8>, Incomparable> {
    let mut plain = Vec::new();
    let bound = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let read = MultiGzDecoder::new(bytes).take(bound).read_to_end(&mut plain);
    match read {
        Ok(count) if count <= most => Ok(plain),
        Ok(_) => Err(Incomparable::Omitted(Omitted::TooLong)),
        Err(_) => Err(Incomparable::Encoded),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use axum::http::{HeaderMap, HeaderValue, StatusCode};
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::copied_body::{Budget, Omitted};
    use super::{Incomparable, TimedResponse};
    use crate::moving::compare::response::Body;

    fn answered(encoding: &'static str, body: &[u8], bytes_max: usize) -> TimedResponse {
        let mut copy = Budget::new(1 << 20).copy(bytes_max);
        copy.add(body).unwrap();
        let headers = HeaderMap::from_iter([(
            "content-encoding".parse().unwrap(),
            HeaderValue::from_static(encoding),
        )]);
        TimedResponse { status: StatusCode::OK, headers, body: copy, took: Duration::ZERO }
    }

    fn compressed(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_compressed_answer_is_compared_as_what_it_says() {
        let response = answered("gzip", &compressed(b"{\"a\": 1}"), 100).comparable().unwrap();
        assert_eq!(response.body, Body::Json(serde_json::json!({"a": 1})));
        let error_of = |answered: TimedResponse| answered.comparable().unwrap_err();
        assert_eq!(error_of(answered("gzip", b"no", 100)), Incomparable::Encoded);
        assert_eq!(error_of(answered("br", b"x", 100)), Incomparable::Encoded);
        let bomb = compressed(&vec![b'x'; 100_000]);
        let omitted = Incomparable::Omitted(Omitted::TooLong);
        assert_eq!(error_of(answered("gzip", &bomb, 1000)), omitted);
    }
}
