//! The URL under which the client reached the server, for links and locations.

use axum::http::header;
use axum::http::request::Parts;
use axum::http::uri::Authority;

use crate::http::layers::proxy::ForwardedFrom;

/// The URL under which the client reached the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct ExternalUrl {
    /// Whether the scheme is https.
    secure: bool,
    /// The host, with its port unless it is the default one.
    host: Option<String>,
    /// The path prefix of the request.
    prefix: String,
}

impl ExternalUrl {
    /// Derives it from the request and its proxies.
    pub(in crate::http) fn of(request: &Parts, prefix: &str) -> Self {
        let plain = ForwardedFrom::default();
        let forwarded = request.extensions.get::<ForwardedFrom>().unwrap_or(&plain);
        let host = forwarded.host.as_deref();
        // A host in the target takes precedence over the header (RFC 9112, 3.2.2).
        let from_header = || request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host =
            host.or_else(|| request.uri.authority().map(Authority::as_str)).or_else(from_header);
        let usual = if forwarded.tls { ":443" } else { ":80" };
        let host = host.map(|host| host.strip_suffix(usual).unwrap_or(host).to_owned());
        Self { secure: forwarded.tls, host, prefix: format!("{}{prefix}", forwarded.prefix) }
    }

    /// Returns a path with the prefix.
    pub(in crate::http) fn href(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// Returns the absolute URI of a path.
    pub(in crate::http) fn location(&self, path: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        match &self.host {
            Some(host) => format!("{scheme}://{host}{}{path}", self.prefix),
            None => self.href(path),
        }
    }
}
