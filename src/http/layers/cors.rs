//! Requests that a browser makes for a page of another origin (CORS), with the meaning that
//! oslo.middleware gives to its options.
//!
//! The layer stands outside of the APIs: whatever they answer, also a 401 or a 404, is
//! readable to pages of allowed origins, and a browser's question beforehand (`OPTIONS`) needs no
//! token. It is not there at all as long as no origin is allowed.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
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

/// What is allowed to pages of which origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    origins: Vec<HeaderValue>,
    /// Whether pages of all other origins are allowed the same.
    any_origin: bool,
    credentials: bool,
    max_age: Option<HeaderValue>,
    methods: Vec<String>,
    headers: Vec<String>,
    exposed: Option<HeaderValue>,
}

impl Cors {
    /// Allows pages of these origins (`https://HOST[:PORT]`; `*`: of all) simple requests.
    ///
    /// # Errors
    /// Which origin cannot stand in a header.
    pub fn new(origins: &[String]) -> Result<Self, String> {
        let value = |origin: &String| {
            HeaderValue::from_str(origin)
                .map_err(|_| format!("--cors-allowed-origin: {origin:?} is no origin"))
        };
        Ok(Self {
            origins: origins.iter().map(value).collect::<Result<_, _>>()?,
            any_origin: origins.iter().any(|origin| origin == "*"),
            ..Self::default()
        })
    }

    /// The same with or without credentials.
    #[must_use]
    pub fn with_credentials(self, credentials: bool) -> Self {
        Self { credentials, ..self }
    }

    /// The same, to be remembered for so many seconds; 0: nothing is said of it.
    #[must_use]
    pub fn with_max_age(self, seconds: u64) -> Self {
        Self { max_age: (seconds > 0).then(|| HeaderValue::from(seconds)), ..self }
    }

    /// The same with these methods. Their case counts.
    #[must_use]
    pub fn with_methods(self, methods: Vec<String>) -> Self {
        Self { methods, ..self }
    }

    /// The same with these headers beside the simple ones.
    #[must_use]
    pub fn with_headers(self, headers: Vec<String>) -> Self {
        Self { headers, ..self }
    }

    /// The same with these headers of answers to be read by pages.
    ///
    /// # Errors
    /// They cannot stand in a header.
    pub fn exposing(self, headers: &[String]) -> Result<Self, String> {
        let listed = HeaderValue::try_from(headers.join(","))
            .map_err(|_| "--cors-expose-headers: not names of headers".to_owned())?;
        Ok(Self { exposed: (!listed.is_empty()).then_some(listed), ..self })
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
        if !self.methods.iter().any(|allowed| method == allowed.as_str()) {
            return None;
        }
        let names = names(asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS));
        if !names.iter().all(|name| self.allows_header(name)) {
            return None;
        }
        let mut answer = HeaderMap::new();
        answer.insert(header::VARY, HeaderValue::from_static("Origin"));
        self.grant(origin, &mut answer);
        if let Some(seconds) = &self.max_age {
            answer.insert(header::ACCESS_CONTROL_MAX_AGE, seconds.clone());
        }
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
        self.grant(origin, answer);
        if let Some(names) = &self.exposed {
            answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, names.clone());
        }
    }

    fn grant(&self, origin: HeaderValue, answer: &mut HeaderMap) {
        answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if self.credentials {
            const CREDENTIALS: HeaderName = header::ACCESS_CONTROL_ALLOW_CREDENTIALS;
            answer.insert(CREDENTIALS, HeaderValue::from_static("true"));
        }
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

    fn allows_header(&self, name: &str) -> bool {
        let allowed = self.headers.iter().map(String::as_str).chain(SIMPLE_HEADERS);
        allowed.into_iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
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

    use super::Cors;

    fn cors(origins: &[&str]) -> Cors {
        let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let cors = Cors::new(&owned(origins)).unwrap().with_credentials(true).with_max_age(3600);
        cors.with_methods(owned(&["GET", "PUT"]))
            .with_headers(owned(&["X-Auth-Token", "OpenStack-API-Version"]))
            .exposing(&owned(&["X-Openstack-Request-Id", "OpenStack-API-Version"]))
            .unwrap()
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
        let plain = cors.with_credentials(false).with_max_age(0);
        let asked = headers(&[("origin", VALID), (METHOD, "PUT")]);
        let expected = headers(&[
            ("vary", "Origin"),
            ("access-control-allow-origin", VALID),
            ("access-control-allow-methods", "PUT"),
        ]);
        assert_eq!(plain.preflight(&Method::OPTIONS, &asked), Some(expected));
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
                ("access-control-expose-headers", "X-Openstack-Request-Id,OpenStack-API-Version"),
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
