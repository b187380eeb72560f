//! The token of a browser, in a cookie, and where the console is for it.

use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::http::api::path;
use crate::http::app::App;
use crate::http::layers::identity::Identity;
use crate::http::layers::proxy::{ForwardedFrom, Remote};

/// The path of the first page.
pub(super) const ROOT: &str = "/ui";
/// The cookie of the token.
const COOKIE: &str = "berth_token";
const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// The token of callers on this machine, if there is no authentication.
const LOCAL: HeaderValue = HeaderValue::from_static("admin");

/// Where the console is for the browser, and whether over TLS: an extension of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Site {
    /// The path of the first page.
    pub(super) base: String,
    pub(super) is_secure: bool,
    /// The requested path with its query.
    pub(super) requested: String,
    /// Whether the browser sent a token.
    pub(super) has_token: bool,
    /// Whether Keystone issues tokens.
    pub(super) has_keystone: bool,
}

/// Returns whether a request is for the console. `prefix` is the additional path prefix of the Placement API.
pub(in crate::http) fn handles(request: &Request, prefix: &str) -> bool {
    path::with_and_without(prefix, request).any(is_page)
}

/// Returns whether a path without a prefix is that of a page.
fn is_page(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Makes the token of a cookie a header, as the layer of identity expects it, and adds the [`Site`].
pub(super) fn prepared(app: &App, request: Request) -> Request {
    let (mut parts, body) = request.into_parts();
    let mut site = site(&parts, app.options.path_prefix.trim_end_matches('/'));
    if !parts.headers.contains_key(TOKEN) {
        let token = match cookie(&parts.headers) {
            Some(token) => HeaderValue::from_str(&token).ok(),
            None if matches!(app.identity, Identity::NoAuth) && is_local(&parts) => Some(LOCAL),
            None => None,
        };
        if let Some(mut token) = token {
            token.set_sensitive(true);
            parts.headers.insert(TOKEN, token);
        }
    }
    site.has_token = parts.headers.contains_key(TOKEN);
    site.has_keystone = matches!(app.identity, Identity::Keystone(_));
    parts.extensions.insert(site);
    Request::from_parts(parts, body)
}

fn site(parts: &Parts, prefix: &str) -> Site {
    let plain = ForwardedFrom::default();
    let forwarded = parts.extensions.get::<ForwardedFrom>().unwrap_or(&plain);
    let path = parts.uri.path();
    let taken = if is_page(path) { "" } else { prefix };
    let target = parts.uri.path_and_query().map_or(path, |target| target.as_str());
    Site {
        base: format!("{}{taken}{ROOT}", forwarded.prefix),
        is_secure: forwarded.tls,
        requested: format!("{}{target}", forwarded.prefix),
        ..Site::default()
    }
}

/// Returns whether a request comes from this machine, to a name of this machine: a page of another site could let its
/// own name point here.
fn is_local(parts: &Parts) -> bool {
    let is_local = match parts.extensions.get::<Remote>() {
        Some(Remote(Some(address))) => address.to_canonical().is_loopback(),
        Some(Remote(None)) => true,
        None => false,
    };
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<axum::http::uri::Authority>().ok());
    is_local && host.is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host.host()))
}

/// Returns the token of the cookie.
fn cookie(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut cookies = lines.flat_map(|line| line.split(';'));
    let value = cookies.find_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='))?;
    let token = percent_decode_str(value).decode_utf8().ok()?.into_owned();
    (!token.is_empty()).then_some(token)
}

/// Returns the value of `Set-Cookie` for a token; empty: the browser deletes it.
pub(super) fn set_cookie(site: &Site, token: &str) -> String {
    let value = utf8_percent_encode(token, NON_ALPHANUMERIC);
    let secure = if site.is_secure { "; Secure" } else { "" };
    let expired = if token.is_empty() { "; Max-Age=0" } else { "" };
    format!("{COOKIE}={value}; Path={}; HttpOnly; SameSite=Lax{secure}{expired}", site.base)
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, header};

    use super::{Site, cookie, set_cookie};

    #[test]
    fn a_token_survives_the_cookie() {
        let token = "gAAAAA-_=; ä";
        let written = set_cookie(&Site::default(), token);
        let (sent, _) = written.split_once(';').unwrap();
        let sent = HeaderValue::try_from(format!("other=1; {sent}; more=2")).unwrap();
        let headers = HeaderMap::from_iter([(header::COOKIE, sent)]);
        assert_eq!(cookie(&headers).as_deref(), Some(token));
    }

    #[test]
    fn an_empty_token_deletes_the_cookie() {
        let site = Site { base: "/placement/ui".to_owned(), is_secure: true, ..Site::default() };
        let written = "berth_token=; Path=/placement/ui; HttpOnly; SameSite=Lax; Secure; Max-Age=0";
        assert_eq!(set_cookie(&site, ""), written);
        let sent =
            HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_static("berth_token="))]);
        assert_eq!(cookie(&sent), None);
    }
}
