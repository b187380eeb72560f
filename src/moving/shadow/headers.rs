//! Changes to the headers of a forwarded message.

use axum::http::header::{
    AUTHORIZATION, CONNECTION, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};

/// Headers of one connection, which are not forwarded.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Headers that authenticate callers.
const SECRETS: [HeaderName; 3] = [
    AUTHORIZATION,
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-service-token"),
];

/// Removes hop-by-hop headers, and those listed in `Connection`.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Marks the values that authenticate callers as secret, so that no log message shows them.
pub(super) fn hide_secrets(headers: &mut HeaderMap) {
    for name in SECRETS {
        if let axum::http::header::Entry::Occupied(mut entry) = headers.entry(name) {
            entry.iter_mut().for_each(|value| value.set_sensitive(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::{hide_secrets, remove_hop_by_hop};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn headers_of_one_connection_are_not_passed_on() {
        let mut found = headers(&[
            ("host", "placement"),
            ("connection", "keep-alive, X-Own"),
            ("connection", "x-other"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-own", "1"),
            ("x-other", "2"),
            ("x-auth-token", "secret"),
            ("vary", "a"),
            ("vary", "b"),
        ]);
        remove_hop_by_hop(&mut found);
        let left =
            [("host", "placement"), ("x-auth-token", "secret"), ("vary", "a"), ("vary", "b")];
        assert_eq!(found, headers(&left));
    }

    #[test]
    fn tokens_are_never_shown() {
        let mut found = headers(&[
            ("x-auth-token", "secret"),
            ("x-service-token", "secret"),
            ("authorization", "secret"),
            ("host", "placement"),
        ]);
        hide_secrets(&mut found);
        let shown = format!("{found:?}");
        assert!(!shown.contains("secret") && shown.contains("placement"), "{shown}");
    }
}
