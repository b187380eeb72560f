//! What proxies in front say of a request: how, where and for whom the client asked.
//!
//! Only proxies that the operator names are believed, with the meaning that oslo.middleware gives to
//! the headers: `Forwarded` (RFC 7239) wins over `X-Forwarded-Proto`, `-Host` and `-For`, and the
//! first entry counts. So a trusted proxy has to replace what clients send there, not to add to it.

use std::net::IpAddr;
use std::str::FromStr;

use axum::http::HeaderMap;

use super::listener::Peer;

/// Whom to believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Addresses that begin with the same bits.
    Ip {
        /// One of them.
        address: IpAddr,
        /// How many bits they have in common.
        bits: u8,
    },
    /// Whoever connects by a Unix socket.
    Unix,
}

impl Network {
    /// Whether somebody belongs to it.
    pub fn contains(&self, peer: Peer) -> bool {
        match (*self, peer.ip()) {
            (Self::Unix, None) => true,
            (Self::Ip { address: IpAddr::V4(address), bits }, Some(IpAddr::V4(ip))) => {
                let differing = address.to_bits() ^ ip.to_bits();
                differing.leading_zeros() >= u32::from(bits)
            }
            (Self::Ip { address: IpAddr::V6(address), bits }, Some(IpAddr::V6(ip))) => {
                let differing = address.to_bits() ^ ip.to_bits();
                differing.leading_zeros() >= u32::from(bits)
            }
            (Self::Unix | Self::Ip { .. }, _) => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "unix:" {
            return Ok(Self::Unix);
        }
        let told =
            || format!("{text:?} is no address, no network such as 10.0.0.0/8, and not unix:");
        let (address, bits) = text.split_once('/').unzip();
        let address: IpAddr = address.unwrap_or(text).parse().map_err(|_| told())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| told())?;
        if bits > most {
            return Err(told());
        }
        Ok(Self::Ip { address, bits })
    }
}

/// How a request came to us, as far as it is not the connection's own business.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Whether the client asked by https.
    pub(super) secure: bool,
    /// The host the client asked, if it is not what the `Host` header says.
    pub(super) host: Option<String>,
    /// The path below which the client finds us; empty, or with a slash in front and none behind.
    pub(super) prefix: String,
    /// Whom the proxy asked for.
    pub(super) client: Option<String>,
}

impl Arrival {
    /// What a trusted proxy says, over a connection that is itself secure or not.
    pub(super) fn forwarded(headers: &HeaderMap, secure: bool) -> Self {
        let said = match text(headers, "forwarded") {
            Some(elements) => Said::standard(elements),
            None => Said {
                proto: text(headers, "x-forwarded-proto").map(first),
                host: text(headers, "x-forwarded-host").map(first),
                client: text(headers, "x-forwarded-for").map(str::to_owned),
            },
        };
        let prefix = text(headers, "x-forwarded-prefix").unwrap_or_default();
        let prefix = prefix.trim_end_matches('/');
        Self {
            secure: match said.proto.map(|proto| proto.to_ascii_lowercase()).as_deref() {
                Some("https") => true,
                Some("http") => false,
                _ => secure,
            },
            host: said.host.filter(|host| is_host(host)),
            prefix: if is_path(prefix) { prefix.to_owned() } else { String::new() },
            client: said.client,
        }
    }
}

/// What is said of the client.
#[derive(Debug, Default)]
struct Said {
    proto: Option<String>,
    host: Option<String>,
    client: Option<String>,
}

impl Said {
    /// By the first element of `Forwarded`.
    fn standard(elements: &str) -> Self {
        let mut said = Self::default();
        for pair in parts(parts(elements, ',').next().unwrap_or_default(), ';') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = Some(unquoted(value.trim())).filter(|value| !value.is_empty());
            match name.trim().to_ascii_lowercase().as_str() {
                "proto" => said.proto = value,
                "host" => said.host = value,
                "for" => said.client = value,
                _ => {}
            }
        }
        said
    }
}

/// The parts between separators that do not stand in quotes.
fn parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |character| {
        let separates = character == separator && !quoted;
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        separates
    })
}

/// A value without its quotes.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut escaped = false;
    let kept = |character: &char| {
        escaped = *character == '\\' && !escaped;
        !escaped
    };
    inner.chars().filter(kept).collect()
}

/// The first of a list.
fn first(list: &str) -> String {
    list.split(',').next().unwrap_or_default().trim().to_owned()
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty())
}

/// Whether it can stand between `https://` and a path.
fn is_host(text: &str) -> bool {
    let marks = b".-_~%:[]";
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
}

/// Whether it can stand between a host and our paths. What begins with two slashes names a host.
fn is_path(text: &str) -> bool {
    let marks = b"/.-_~%!$&'()*+,;=:@";
    text.starts_with('/')
        && !text.starts_with("//")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::{Arrival, Network, Peer};

    #[test]
    fn a_network_has_those_whose_first_bits_are_the_same() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.129/25", "192.0.2.255", "192.0.2.127"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::1"),
            ("::1", "::1", "::2"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "::10.0.0.1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("0.0.0.0/0", "10.0.0.1", "2001:db8::1"),
        ] {
            let network: Network = network.parse().unwrap();
            let peer = |ip: &str| Peer::Tcp((ip.parse::<std::net::IpAddr>().unwrap(), 1).into());
            assert!(network.contains(peer(inside)), "{network:?} {inside}");
            assert!(!network.contains(peer(outside)), "{network:?} {outside}");
            assert!(!network.contains(Peer::Unix));
        }
        assert!("unix:".parse::<Network>().unwrap().contains(Peer::Unix));
        for none in ["", "proxy", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "::/129", "unix:/x"] {
            assert!(none.parse::<Network>().is_err(), "{none}");
        }
    }

    fn arrival(headers: &[(&'static str, &'static str)]) -> Arrival {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Arrival::forwarded(&headers.iter().map(header).collect::<HeaderMap>(), false)
    }

    fn said(secure: bool, host: Option<&str>, prefix: &str, client: Option<&str>) -> Arrival {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Arrival { secure, host: owned(host), prefix: prefix.to_owned(), client: owned(client) }
    }

    #[test]
    fn a_proxy_says_how_where_and_for_whom() {
        assert_eq!(arrival(&[]), Arrival::default());
        let old = [
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "cloud.example.com:8443"),
            ("x-forwarded-for", "192.0.2.1, 10.0.0.1"),
            ("x-forwarded-prefix", "/placement/"),
        ];
        let (host, client) = (Some("cloud.example.com:8443"), Some("192.0.2.1, 10.0.0.1"));
        assert_eq!(arrival(&old), said(true, host, "/placement", client));
        // The standard wins, but knows no prefix.
        let standard = "For=\"[2001:db8::1]:4711\"; proto=HTTP ;host=\"a.example:1\", host=evil";
        let both = [&[("forwarded", standard)], &old[..]].concat();
        let (host, client) = (Some("a.example:1"), Some("[2001:db8::1]:4711"));
        assert_eq!(arrival(&both), said(false, host, "/placement", client));
    }

    #[test]
    fn what_cannot_stand_in_a_link_is_ignored() {
        for headers in [
            [("x-forwarded-proto", "javascript"), ("x-forwarded-host", "a/b")],
            [("x-forwarded-prefix", "//evil.example.com"), ("x-forwarded-host", "")],
            [("x-forwarded-prefix", "placement"), ("x-forwarded-host", "user@evil")],
            [("x-forwarded-prefix", "/a b"), ("forwarded", "host=\"a b\";proto=ftp")],
            [("x-forwarded-prefix", "/"), ("forwarded", ";;=,=;\"")],
        ] {
            assert_eq!(arrival(&headers), Arrival::default(), "{headers:?}");
        }
        let odd = arrival(&[("forwarded", "for=\"a\\\"b,c;d\";host=x")]);
        assert_eq!(odd, said(false, Some("x"), "", Some("a\"b,c;d")));
        let several = [("x-forwarded-proto", "https, http"), ("x-forwarded-host", "a, b")];
        assert_eq!(arrival(&several), said(true, Some("a"), "", None));
    }
}
