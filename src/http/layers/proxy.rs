//! Headers of proxies: the URL that the client used, and its address. They are ignored unless they
//! come from a trusted proxy.
//!
//! Supported are `Forwarded` (RFC 7239), else `X-Forwarded-For`, `-Proto` and `-Host`; and
//! `X-Forwarded-Prefix`, as in oslo.middleware's `http_proxy_to_wsgi`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

use crate::http::connection::Connection;
use crate::http::edge::listener::Peer;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    networks: Vec<IpNet>,
    unix: bool,
}

impl Trusted {
    /// Parses addresses, networks such as `10.0.0.0/8`, and `unix:` for all clients of a Unix
    /// socket.
    ///
    /// # Errors
    /// Returns a message for the first invalid name.
    pub fn parse(names: &[String]) -> Result<Self, String> {
        let mut trusted = Self::default();
        for name in names.iter().map(|name| name.trim()).filter(|name| !name.is_empty()) {
            if name == "unix:" {
                trusted.unix = true;
                continue;
            }
            let network =
                IpNet::from_str(name).or_else(|_| IpAddr::from_str(name).map(IpNet::from));
            let network = network.map_err(|_| {
                format!("{name:?} is not an address, a network such as 10.0.0.0/8, or unix:")
            })?;
            trusted.networks.push(network);
        }
        Ok(trusted)
    }

    fn trusts(&self, peer: Peer) -> bool {
        peer.ip().map_or(self.unix, |address| self.knows(address))
    }

    fn knows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// The address of a client; `None` over a Unix socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct Remote(pub(in crate::http) Option<IpAddr>);

impl fmt::Display for Remote {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(to),
            None => to.write_str("unix:"),
        }
    }
}

/// The client's side of a request, as reported by proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) struct ForwardedFrom {
    /// Whether the client used TLS.
    pub(in crate::http) tls: bool,
    /// The host, if it differs from the one in the request.
    pub(in crate::http) host: Option<String>,
    pub(in crate::http) prefix: String,
    pub(in crate::http) remote: Remote,
}

impl ForwardedFrom {
    /// Combines the peer of the connection and, if it is trusted, the headers.
    pub(in crate::http) fn of(
        connection: Connection,
        headers: &HeaderMap,
        trusted: &Trusted,
    ) -> Self {
        let Connection { api: _, peer, secure } = connection;
        let direct = Self { tls: secure, remote: Remote(peer.ip()), ..Self::default() };
        if !trusted.trusts(peer) {
            return direct;
        }
        let values = ForwardedHeaders::of(headers);
        let strangers = values.by.iter().rev().find(|address| !trusted.knows(**address));
        Self {
            tls: values.proto.map_or(direct.tls, |proto| proto.eq_ignore_ascii_case("https")),
            host: values.host,
            prefix: text(headers, &PREFIX).and_then(prefix).unwrap_or_default(),
            remote: Remote(strangers.or(values.by.first()).copied().or(peer.ip())),
        }
    }
}

impl ForwardedFrom {
    /// Returns whether the headers add anything to a plain HTTP request.
    pub(in crate::http) fn is_remarkable(&self) -> bool {
        self.tls || self.host.is_some() || !self.prefix.is_empty()
    }
}

/// The values of the headers.
#[derive(Debug, Default)]
struct ForwardedHeaders {
    /// The client and then each further proxy.
    by: Vec<IpAddr>,
    proto: Option<String>,
    host: Option<String>,
}

impl ForwardedHeaders {
    fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(header::FORWARDED) {
            return Self::forwarded(&list(headers, &header::FORWARDED));
        }
        Self {
            by: list(headers, &FOR).iter().filter_map(|node| address(node)).collect(),
            proto: first(headers, &PROTO).and_then(|it| proto(&it)),
            host: first(headers, &HOST).and_then(|it| host(&it)),
        }
    }

    /// Parses `Forwarded` (RFC 7239): an element for each proxy, of pairs of name and value.
    fn forwarded(elements: &[String]) -> Self {
        let mut values = Self::default();
        for (nth, element) in elements.iter().enumerate() {
            for pair in element.split(';') {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                let value = value.trim().trim_matches('"');
                match name.trim().to_ascii_lowercase().as_str() {
                    "for" => values.by.extend(address(value)),
                    // The first proxy knows the client's URL.
                    "proto" if nth == 0 => values.proto = proto(value),
                    "host" if nth == 0 => values.host = host(value),
                    _ => {}
                }
            }
        }
        values
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns all elements of a header that may be repeated, in order.
fn list(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|entry| entry.trim().to_owned()).collect()
}

fn first(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    list(headers, name).into_iter().next()
}

/// Parses an address with or without a port.
fn address(node: &str) -> Option<IpAddr> {
    let inner = node.trim_start_matches('[').split(']').next().unwrap_or(node);
    let found = IpAddr::from_str(inner).ok();
    found.or_else(|| IpAddr::from_str(node.rsplit_once(':')?.0).ok())
}

fn proto(value: &str) -> Option<String> {
    ["http", "https"].iter().any(|it| value.eq_ignore_ascii_case(it)).then(|| value.to_owned())
}

fn host(value: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    (!value.is_empty() && value.bytes().all(fits)).then(|| value.to_owned())
}

fn prefix(value: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_~%".contains(&byte);
    let value = value.trim_end_matches('/');
    (value.starts_with('/') && !value.starts_with("//") && value.bytes().all(fits))
        .then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::{ForwardedFrom, Remote, Trusted};
    use crate::http::edge::listener::Peer;
    use crate::http::{Api, Connection};

    fn forwarded(peer: &str, headers: &[(&'static str, &'static str)]) -> ForwardedFrom {
        let trusted = ["10.0.0.0/8".to_owned(), "::1".to_owned(), "unix:".to_owned()];
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let address = peer.parse().map(|ip: IpAddr| Peer::Tcp((ip, 4711).into()));
        let peer = address.unwrap_or(Peer::Unix);
        let connection = Connection { api: Api::Placement, peer, secure: false };
        ForwardedFrom::of(connection, &headers, &Trusted::parse(&trusted).unwrap())
    }

    fn ip(text: &str) -> Remote {
        Remote(text.parse().ok())
    }

    #[test]
    fn headers_of_untrusted_clients_are_ignored() {
        let headers = [
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.example.com"),
            ("x-forwarded-prefix", "/evil"),
            ("forwarded", "for=1.2.3.4;proto=https;host=evil.example.com"),
        ];
        let direct = ForwardedFrom { remote: ip("192.0.2.1"), ..ForwardedFrom::default() };
        assert_eq!(forwarded("192.0.2.1", &headers), direct);
    }

    #[test]
    fn proxies_say_how_the_client_came() {
        let headers = [
            ("x-forwarded-for", "192.0.2.9, 10.0.0.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "cloud.example.com:8443"),
            ("x-forwarded-prefix", "/placement/"),
        ];
        let expected = ForwardedFrom {
            tls: true,
            host: Some("cloud.example.com:8443".to_owned()),
            prefix: "/placement".to_owned(),
            remote: ip("192.0.2.9"),
        };
        for peer in ["10.1.2.3", "::1", "::ffff:10.1.2.3", "a Unix socket"] {
            assert_eq!(forwarded(peer, &headers), expected, "{peer}");
        }
    }

    #[test]
    fn forwarded_comes_first() {
        let header = "for=\"[2001:db8::1]:4711\";Proto=HTTPS;host=a.example.com, for=10.0.0.2";
        let client = forwarded("10.0.0.1", &[("forwarded", header), ("x-forwarded-proto", "http")]);
        assert_eq!((client.tls, client.host.as_deref()), (true, Some("a.example.com")));
        assert_eq!(client.remote, ip("2001:db8::1"));
    }

    #[test]
    fn addresses_prepended_by_a_client_are_ignored() {
        let headers = [("x-forwarded-for", "10.9.9.9, 6.6.6.6, 192.0.2.9, 10.0.0.7")];
        assert_eq!(forwarded("10.0.0.1", &headers).remote, ip("192.0.2.9"));
        assert_eq!(forwarded("10.0.0.1", &[("x-forwarded-for", "unknown")]).remote, ip("10.0.0.1"));
    }

    #[test]
    fn nonsense_is_left_out() {
        let headers = [
            ("x-forwarded-proto", "javascript"),
            ("x-forwarded-host", "a/b"),
            ("x-forwarded-prefix", "//evil.example.com"),
        ];
        let direct = ForwardedFrom { remote: ip("10.0.0.1"), ..ForwardedFrom::default() };
        assert_eq!(forwarded("10.0.0.1", &headers), direct);
        assert!(Trusted::parse(&["10.0.0.0/40".to_owned()]).unwrap_err().contains("10.0.0.0/40"));
        assert_eq!(Trusted::parse(&[]).unwrap(), Trusted::default());
    }
}
