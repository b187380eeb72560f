//! Cross-origin requests of browsers (CORS), with the semantics of oslo.middleware.
//!
//! The layer is outside of the APIs: pages of allowed origins can read every response, including a
//! 401 or a 404, and a preflight request (`OPTIONS`) needs no token. Without allowed origins there is
//! no such layer.
//!
//! tower-http's layer differs from oslo.middleware, whose behaviour clients know: it responds to a
//! disallowed origin or header with other headers, lists all methods and headers, and writes another
//! `Vary`.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::Response;

use crate::http::layers::around::Before;
use crate::model::Bug;

/// Headers that every page may send.
const SIMPLE_HEADERS: [&str; 8] = [
    "Accept",
    "Accept-Language",
    "Content-Type",
    "Cache-Control",
    "Content-Language",
    "Expires",
    "Last-Modified",
    "Pragma",
];

/// Methods that pages may use, case-sensitive. This and the other constants are the defaults of the
/// reference.
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "PATCH"];

/// Headers that pages may send in addition to the simple ones.
const HEADERS: [&str; 8] = [
    "X-Auth-Token",
    "X-Openstack-Request-Id",
    "X-Identity-Status",
    "X-Roles",
    "X-Service-Catalog",
    "X-User-Id",
    "X-Tenant-Id",
    "OpenStack-API-Version",
];

/// Response headers that pages may read.
const EXPOSED_HEADERS: &str = "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,X-Service-Token,\
                               OpenStack-API-Version";

/// Time for which a browser may cache a permission, in seconds.
const MAX_AGE: &str = "3600";

/// Origins whose pages may use the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    origins: Vec<HeaderValue>,
    /// Whether pages of all other origins are allowed, too.
    any_origin: bool,
}

impl Cors {
    /// Allows pages of these origins (`https://HOST[:PORT]`; `*`: of all).
    ///
    /// # Errors
    /// The origin that cannot be part of a header.
    pub fn new(origins: &[String]) -> Result<Self, String> {
        let value = |origin: &String| {
            let header = HeaderValue::from_str(origin).ok().filter(|_| is_origin(origin));
            let why =
                || format!("--cors-allowed-origin: {origin:?} must be https://HOST[:PORT] or *");
            header.ok_or_else(why)
        };
        Ok(Self {
            origins: origins.iter().map(value).collect::<Result<_, _>>()?,
            any_origin: origins.iter().any(|origin| origin == "*"),
        })
    }

    /// Returns the headers of the response to a preflight request; none if the request is not allowed.
    /// `None`: it is not a preflight request.
    pub(in crate::http) fn preflight(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Option<HeaderMap> {
        (*method == Method::OPTIONS).then(|| self.allowed(headers).unwrap_or_default())
    }

    fn allowed(&self, request: &HeaderMap) -> Option<HeaderMap> {
        let origin = self.origin(request)?;
        let method = request.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
        if !METHODS.iter().any(|allowed| method == allowed) {
            return None;
        }
        let names = names(request.get(header::ACCESS_CONTROL_REQUEST_HEADERS));
        if !names.iter().all(|name| allows_header(name)) {
            return None;
        }
        let mut response = HeaderMap::new();
        response.insert(header::VARY, HeaderValue::from_static("Origin"));
        grant(origin, &mut response);
        response.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        response.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method.clone());
        if !names.is_empty() {
            // A name that cannot be a header value is not allowed.
            let names = HeaderValue::try_from(names.join(",")).ok()?;
            response.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
        Some(response)
    }

    /// Adds the headers that let a page of an allowed origin read a response.
    pub(in crate::http) fn share(&self, origin: Option<&HeaderValue>, response: &mut HeaderMap) {
        let Some(origin) = origin.and_then(|origin| self.granted(origin)) else { return };
        let vary =
            match response.get(header::VARY).map(|vary| [vary.as_bytes(), b",Origin"].concat()) {
                Some(joined) => HeaderValue::try_from(joined)
                    .unwrap_or_else(|error| Bug::raise(format!("Vary cannot be written: {error}"))),
                None => HeaderValue::from_static("Origin"),
            };
        response.insert(header::VARY, vary);
        grant(origin, response);
        let exposed = HeaderValue::from_static(EXPOSED_HEADERS);
        response.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }

    fn origin(&self, request: &HeaderMap) -> Option<HeaderValue> {
        request.get(header::ORIGIN).and_then(|origin| self.granted(origin))
    }

    /// Returns the value of `Access-Control-Allow-Origin` for an origin: itself, or `*` if any is allowed.
    fn granted(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        if self.origins.contains(origin) {
            return Some(origin.clone());
        }
        self.any_origin.then(|| HeaderValue::from_static("*"))
    }
}

fn grant(origin: HeaderValue, response: &mut HeaderMap) {
    response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    response.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}

fn allows_header(name: &str) -> bool {
    HEADERS.iter().chain(&SIMPLE_HEADERS).any(|allowed| allowed.eq_ignore_ascii_case(name))
}

/// Responds to preflight requests, and adds the headers of allowed origins to other responses.
pub(in crate::http) fn share(cors: &Arc<Cors>, request: &mut Request) -> Before {
    if let Some(allowed) = cors.preflight(request.method(), request.headers()) {
        let mut response = Response::default();
        *response.headers_mut() = allowed;
        return Err(Box::new(response));
    }
    let (cors, origin) = (Arc::clone(cors), request.headers().get(header::ORIGIN).cloned());
    Ok(Box::new(move |mut response| {
        cors.share(origin.as_ref(), response.headers_mut());
        response
    }))
}

/// Returns whether browsers may send a text as `Origin`, or it is `*`.
fn is_origin(text: &str) -> bool {
    let host = text.split_once("://").map(|(_, host)| host);
    text == "*" || host.is_some_and(|host| !host.is_empty() && !host.contains('/'))
}

/// Returns the names in a list of headers.
fn names(list: Option<&HeaderValue>) -> Vec<String> {
    let list = list.map(|list| String::from_utf8_lossy(list.as_bytes())).unwrap_or_default();
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};

    use super::{Cors, EXPOSED_HEADERS};

    fn cors(origins: &[&str]) -> Cors {
        Cors::new(&origins.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    const VALID: &str = "http://valid.example.com";
    const METHOD: &str = "access-control-request-method";
    const HEADERS: &str = "access-control-request-headers";

    #[test]
    fn a_preflight_response_allows_the_requested_method_and_headers() {
        let cors = cors(&[VALID]);
        let names = "x-auth-token, openstack-api-version,,ACCEPT";
        let request = headers(&[("origin", VALID), (METHOD, "GET"), (HEADERS, names)]);
        let expected = headers(&[
            ("vary", "Origin"),
            ("access-control-allow-origin", VALID),
            ("access-control-allow-credentials", "true"),
            ("access-control-max-age", "3600"),
            ("access-control-allow-methods", "GET"),
            ("access-control-allow-headers", "x-auth-token,openstack-api-version,ACCEPT"),
        ]);
        assert_eq!(cors.preflight(&Method::OPTIONS, &request), Some(expected));
        assert_eq!(cors.preflight(&Method::GET, &request), None);
    }

    #[test]
    fn a_preflight_request_that_is_not_allowed_gets_no_headers() {
        let cors = cors(&[VALID]);
        for request in [
            &[][..],
            &[("origin", VALID)],
            &[(METHOD, "GET")],
            &[("origin", "http://other.example.com"), (METHOD, "GET")],
            &[("origin", "http://valid.example.com:80"), (METHOD, "GET")],
            &[("origin", VALID), (METHOD, "TRACE")],
            &[("origin", VALID), (METHOD, "get")],
            &[("origin", VALID), (METHOD, "GET"), (HEADERS, "x-auth-token, x-other")],
        ] {
            let response = cors.preflight(&Method::OPTIONS, &headers(request));
            assert_eq!(response, Some(HeaderMap::new()), "{request:?}");
        }
    }

    #[test]
    fn allowed_origins_can_read_a_response() {
        let share = |origins: &[&str], origin: Option<&'static str>, before| {
            let mut response = headers(before);
            let origin = origin.map(HeaderValue::from_static);
            cors(origins).share(origin.as_ref(), &mut response);
            response
        };
        let shared = |origin, vary| {
            headers(&[
                ("vary", vary),
                ("access-control-allow-origin", origin),
                ("access-control-allow-credentials", "true"),
                ("access-control-expose-headers", EXPOSED_HEADERS),
            ])
        };
        let varying = &[("vary", "openstack-api-version")][..];
        assert_eq!(share(&[VALID], None, varying), headers(varying));
        assert_eq!(share(&[VALID], Some("http://other"), varying), headers(varying));
        assert_eq!(share(&[VALID], Some(VALID), &[]), shared(VALID, "Origin"));
        let joined = shared(VALID, "openstack-api-version,Origin");
        assert_eq!(share(&[VALID], Some(VALID), varying), joined);
        assert_eq!(share(&["*"], Some(VALID), &[]), shared("*", "Origin"));
        assert_eq!(share(&["*", VALID], Some(VALID), &[]), shared(VALID, "Origin"));
        assert_eq!(share(&["*", VALID], Some("http://other"), &[]), shared("*", "Origin"));
    }
}
