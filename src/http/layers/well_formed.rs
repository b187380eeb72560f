//! Rejects requests that can be parsed, but violate HTTP/1.1 (RFC 9112).

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse, Response};

use crate::http::connection::WriteError;
use crate::http::layers::around::Before;
use crate::http::layers::proxy::ForwardedFrom;
use crate::http::layers::request_id::request_id;

/// Maximum length of a proxy's prefix: every link in a response starts with it.
const PREFIX_BYTES_MAX: usize = 512;

/// Rejects requests that HTTP/1.1 does not allow.
pub(in crate::http) fn check(request: &mut Request, write_error: WriteError) -> Before {
    match fault(request) {
        Some(fault) => Err(Box::new(refuse(request, fault, write_error))),
        None => Ok(Box::new(|response| response)),
    }
}

/// Returns what is wrong with a request.
fn fault(request: &Request) -> Option<&'static str> {
    let (method, version) = (request.method(), request.version());
    let forwarded = request.extensions().get::<ForwardedFrom>();
    let is_long = forwarded.is_some_and(|forwarded| forwarded.prefix.len() > PREFIX_BYTES_MAX);
    target_fault(method, request.uri())
        .or_else(|| host_fault(version, request.headers()))
        .or(is_long.then_some("The header X-Forwarded-Prefix must have at most 512 bytes."))
}

/// A target is a path, a URI with a scheme, `*` for `OPTIONS`, or the authority of `CONNECT`.
fn target_fault(method: &Method, uri: &Uri) -> Option<&'static str> {
    let fits = match uri.path() {
        "*" => method == Method::OPTIONS,
        "" => method == Method::CONNECT,
        path => path.starts_with('/'),
    };
    (!fits).then_some("The target of the request must begin with a slash.")
}

fn host_fault(version: Version, headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => {
            Some("An HTTP/1.1 request must have the header Host.")
        }
        (Some(_), Some(_)) => Some("A request must not have the header Host more than once."),
        (Some(host), None) if !is_host(host) => {
            Some("The header Host must be the name or the address of a host.")
        }
        (None | Some(_), _) => None,
    }
}

/// Returns whether a value is a host with an optional port. It may be empty, since the target may
/// have no host.
fn is_host(host: &HeaderValue) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte);
    host.as_bytes().iter().all(fits)
}

fn refuse(request: &Request, fault: &str, write_error: WriteError) -> Response {
    let status = StatusCode::BAD_REQUEST;
    let (media_type, body) = write_error(status, fault, request_id(request.extensions()));
    (status, [(header::CONTENT_TYPE, media_type)], body).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Request, Version};

    use super::fault;

    fn is_refused(method: &str, target: &str, hosts: &[&str], version: Version) -> bool {
        let mut request = Request::builder().method(method).uri(target).version(version);
        for host in hosts {
            request = request.header("host", *host);
        }
        fault(&request.body(Body::empty()).unwrap()).is_some()
    }

    #[test]
    fn a_request_names_one_host() {
        let refused = |hosts: &[&str]| is_refused("GET", "/", hosts, Version::HTTP_11);
        for hosts in [&["a"][..], &["a:1"], &["[::1]:80"], &[""]] {
            assert!(!refused(hosts), "{hosts:?}");
        }
        for hosts in [&[][..], &["a", "a"], &["a b"], &["a/b"], &["u@a"], &["a\tb"]] {
            assert!(refused(hosts), "{hosts:?}");
        }
        assert!(!is_refused("GET", "/", &[], Version::HTTP_10));
        assert!(is_refused("GET", "/", &["a", "b"], Version::HTTP_10));
    }

    #[test]
    fn a_target_begins_with_a_slash() {
        let refused = |method, target| is_refused(method, target, &["a"], Version::HTTP_11);
        for (method, target) in
            [("GET", "/"), ("GET", "http://a"), ("GET", "http://a/x?y"), ("OPTIONS", "*")]
        {
            assert!(!refused(method, target), "{method} {target}");
        }
        for (method, target) in [("GET", "*"), ("GET", "a"), ("GET", "a:80"), ("OPTIONS", "a")] {
            assert!(refused(method, target), "{method} {target}");
        }
        assert!(!refused("CONNECT", "a:80"), "its target is no path; that is for the routes");
    }
}
