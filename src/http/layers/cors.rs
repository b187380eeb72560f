//! Requests that a browser makes for a page of another origin (CORS), with the meaning that
//! oslo.middleware gives to its options.
//!
//! The layer stands outside of the APIs: whatever they answer, also a 401 or a 404, is
//! readable to pages of allowed origins, and a browser's question beforehand (`OPTIONS`) needs no
//! token. It is not there at all as long as no origin is allowed.

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

/// Methods that pages may use; their case counts. These are the reference's defaults, as are the other constants.
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "PATCH"];

/// Headers that pages may send, besides the simple ones.
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
    /// Whether pages of all other origins are allowed the same.
    any_origin: bool,
}

impl Cors {
    /// Allows pages of these origins (`https://HOST[:PORT]`; `*`: of all).
    ///
    /// # Errors
    /// The origin that cannot be part of a header.
    pub fn new(origins: &[String]) -> Result<Self, String> {
        let value = |origin: &String| {
            HeaderValue::from_str(origin)
                .map_err(|_| format!("--cors-allowed-origin: {origin:?} is no origin"))
        };
        Ok(Self {
            origins: origins.iter().map(value).collect::<Result<_, _>>()?,
            any_origin: origins.iter().any(|origin| origin == "*"),
        })
    }

    /// The headers of the answer, which is 200 without content, if this is the question of a browser
    /// what it may do; there are none if it may not.
    pub(in crate::http) fn preflight(
        &self,
        method: &Method,
        headers: &HeaderMap,
    ) -> Option<HeaderMap> {
        (*method == Method::OPTIONS).then(|| self.allowed(headers).unwrap_or_default())
    }

    fn allowed(&self, asked: &HeaderMap) -> Option<HeaderMap> {
        let origin = self.origin(asked)?;
        let method = asked.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
        if !METHODS.iter().any(|allowed| method == allowed) {
            return None;
        }
        let names = names(asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS));
        if !names.iter().all(|name| allows_header(name)) {
            return None;
        }
        let mut answer = HeaderMap::new();
        answer.insert(header::VARY, HeaderValue::from_static("Origin"));
        grant(origin, &mut answer);
        answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
        answer.insert(header::ACCESS_CONTROL_ALLOW_METHODS, method.clone());
        if !names.is_empty() {
            // A name that cannot be written is allowed to nobody.
            let names = HeaderValue::try_from(names.join(",")).ok()?;
            answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
        Some(answer)
    }

    /// Lets a page of the origin that asks, if it is an allowed one, read an answer.
    pub(in crate::http) fn share(&self, asked: Option<&HeaderValue>, answer: &mut HeaderMap) {
        let Some(origin) = asked.and_then(|origin| self.granted(origin)) else { return };
        let vary = match answer.get(header::VARY).map(|vary| [vary.as_bytes(), b",Origin"].concat())
        {
            Some(joined) => HeaderValue::try_from(joined)
                .unwrap_or_else(|error| Bug::raise(format!("Vary cannot be written: {error}"))),
            None => HeaderValue::from_static("Origin"),
        };
        answer.insert(header::VARY, vary);
        grant(origin, answer);
        let exposed = HeaderValue::from_static(EXPOSED_HEADERS);
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }

    fn origin(&self, asked: &HeaderMap) -> Option<HeaderValue> {
        asked.get(header::ORIGIN).and_then(|origin| self.granted(origin))
    }

    /// What the answer says to an origin: itself, or `*` for those that are allowed like all.
    fn granted(&self, origin: &HeaderValue) -> Option<HeaderValue> {
        if self.origins.contains(origin) {
            return Some(origin.clone());
        }
        self.any_origin.then(|| HeaderValue::from_static("*"))
    }
}

fn grant(origin: HeaderValue, answer: &mut HeaderMap) {
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}

fn allows_header(name: &str) -> bool {
    HEADERS.iter().chain(&SIMPLE_HEADERS).any(|allowed| allowed.eq_ignore_ascii_case(name))
}

/// Answers a browser that asks what a page of another origin may do, and says in every other answer
/// whether such a page may read it.
///
/// tower-http's layer answers otherwise than oslo.middleware, which clients know: it refuses what is not
/// allowed without a header, lists all methods and headers, and has `Vary` of its own.
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

/// The names in a list of headers.
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
    fn a_question_beforehand_is_answered_with_what_was_asked_for() {
        let cors = cors(&[VALID]);
        let names = "x-auth-token, openstack-api-version,,ACCEPT";
        let asked = headers(&[("origin", VALID), (METHOD, "GET"), (HEADERS, names)]);
        let expected = headers(&[
            ("vary", "Origin"),
            ("access-control-allow-origin", VALID),
            ("access-control-allow-credentials", "true"),
            ("access-control-max-age", "3600"),
            ("access-control-allow-methods", "GET"),
            ("access-control-allow-headers", "x-auth-token,openstack-api-version,ACCEPT"),
        ]);
        assert_eq!(cors.preflight(&Method::OPTIONS, &asked), Some(expected));
        assert_eq!(cors.preflight(&Method::GET, &asked), None);
    }

    #[test]
    fn what_is_not_allowed_is_answered_without_a_word_of_it() {
        let cors = cors(&[VALID]);
        for asked in [
            &[][..],
            &[("origin", VALID)],
            &[(METHOD, "GET")],
            &[("origin", "http://other.example.com"), (METHOD, "GET")],
            &[("origin", "http://valid.example.com:80"), (METHOD, "GET")],
            &[("origin", VALID), (METHOD, "TRACE")],
            &[("origin", VALID), (METHOD, "get")],
            &[("origin", VALID), (METHOD, "GET"), (HEADERS, "x-auth-token, x-other")],
        ] {
            let answer = cors.preflight(&Method::OPTIONS, &headers(asked));
            assert_eq!(answer, Some(HeaderMap::new()), "{asked:?}");
        }
    }

    #[test]
    fn an_answer_is_shared_with_allowed_origins() {
        let share = |origins: &[&str], origin: Option<&'static str>, before| {
            let mut answer = headers(before);
            let origin = origin.map(HeaderValue::from_static);
            cors(origins).share(origin.as_ref(), &mut answer);
            answer
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
