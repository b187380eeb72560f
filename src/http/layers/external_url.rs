//! Where a client found us: what links and locations begin with.

use axum::http::header;
use axum::http::request::Parts;
use axum::http::uri::Authority;

use crate::http::layers::proxy::ForwardedFrom;

/// Where a client found us: what links and locations begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct ExternalUrl {
    /// Whether by https.
    secure: bool,
    /// The host, with its port if it is not the usual one.
    host: Option<String>,
    /// The prefix by which the request came.
    prefix: String,
}

impl ExternalUrl {
    /// From what the request itself says, and how it came.
    pub(in crate::http) fn of(request: &Parts, prefix: &str) -> Self {
        let plain = ForwardedFrom::default();
        let forwarded = request.extensions.get::<ForwardedFrom>().unwrap_or(&plain);
        let host = forwarded.host.as_deref();
        // A target with a host in it wins over the header (RFC 9112, 3.2.2).
        let said = || request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| request.uri.authority().map(Authority::as_str)).or_else(said);
        let usual = if forwarded.tls { ":443" } else { ":80" };
        let host = host.map(|host| host.strip_suffix(usual).unwrap_or(host).to_owned());
        Self { secure: forwarded.tls, host, prefix: format!("{}{prefix}", forwarded.prefix) }
    }

    /// The path of something of ours.
    pub(in crate::http) fn href(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// The absolute URI of something of ours.
    pub(in crate::http) fn location(&self, path: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        match &self.host {
            Some(host) => format!("{scheme}://{host}{}{path}", self.prefix),
            None => self.href(path),
        }
    }
}
