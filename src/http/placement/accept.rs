//! Content negotiation (RFC 9110, 12.5.1).
//!
//! A header that cannot be parsed accepts everything, as in the reference.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use crate::http::api::json::JSON;

/// HTML, which only errors have. Clients that accept neither get errors as plain text.
pub(super) const HTML: &str = "text/html";

/// The `Accept` header of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct Accept(String);

impl Accept {
    /// A client that sends no header, or accepts anything, gets JSON.
    pub(in crate::http) fn from_headers(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(ACCEPT).into_iter();
        let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        match lines.join(", ") {
            anything if anything.is_empty() || anything == "*/*" => Self(JSON.to_owned()),
            value => Self(value),
        }
    }

    /// Returns the header as the client wrote it.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the best of the offers, the first if several are equal; `None` if none is accepted.
    pub(in crate::http) fn best_of<'a>(&self, offers: &[&'a str]) -> Option<&'a str> {
        let Some(ranges) = ranges(&self.0) else { return offers.first().copied() };
        let rated = offers.iter().map(|offer| (quality(&ranges, offer), *offer));
        let accepted = rated.filter(|(quality, _)| *quality > 0);
        accepted.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, it)| it)
    }
}

/// A media range of the header.
struct Range {
    kind: String,
    subtype: String,
    /// Whether it has parameters. None of our media types has any.
    parametrised: bool,
    /// In thousandths.
    quality: u16,
}

/// Returns the quality of the most specific range that covers the offer, in thousandths.
fn quality(ranges: &[Range], offer: &str) -> u16 {
    let mut best = (0, 0);
    for range in ranges {
        let specificity = match (range.kind.as_str(), range.subtype.as_str()) {
            (kind, subtype) if offer.split_once('/') == Some((kind, subtype)) => {
                if range.parametrised {
                    continue;
                }
                3
            }
            (kind, "*") if offer.split_once('/').is_some_and(|(offered, _)| offered == kind) => 2,
            ("*", "*") => 1,
            _ => continue,
        };
        if specificity > best.0 {
            best = (specificity, range.quality);
        }
    }
    best.1
}

/// Parses the media ranges of a header. Returns `None` if it is malformed.
fn ranges(header: &str) -> Option<Vec<Range>> {
    let entries = header.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(range).collect()
}

fn range(entry: &str) -> Option<Range> {
    let mut parts = entry.split(';').map(str::trim);
    let (kind, subtype) = parts.next()?.split_once('/')?;
    if !is_token(kind) || !is_token(subtype) {
        return None;
    }
    let mut range = Range {
        kind: kind.to_ascii_lowercase(),
        subtype: subtype.to_ascii_lowercase(),
        parametrised: false,
        quality: 1000,
    };
    for part in parts {
        let (name, value) = part.split_once('=')?;
        if name.eq_ignore_ascii_case("q") {
            range.quality = thousandths(value)?;
            // Parameters after the quality are not part of the media range.
            return Some(range);
        }
        range.parametrised = true;
    }
    Some(range)
}

fn is_token(text: &str) -> bool {
    let marks = b"!#$%&'*+-.^_`|~";
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte))
}

/// Parses a quality: `0` or `1` with at most three decimals.
fn thousandths(text: &str) -> Option<u16> {
    let (integer, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = match integer {
        "0" => format!("{decimals:0<3}").parse().ok()?,
        "1" => 1000 + format!("{decimals:0<3}").parse::<u16>().ok()?,
        _ => return None,
    };
    (value <= 1000).then_some(value)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use axum::http::header::ACCEPT;

    use super::{Accept, HTML, JSON};

    fn accept(header: Option<&str>) -> Accept {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.append(ACCEPT, header.parse().unwrap());
        }
        Accept::from_headers(&headers)
    }

    #[test]
    fn the_best_offer_wins_and_of_equals_the_first() {
        for (header, expected) in [
            (None, Some(JSON)),
            (Some(""), Some(JSON)),
            (Some("*/*"), Some(JSON)),
            (Some("text/html"), Some(HTML)),
            (Some("text/plain"), None),
            (Some("application/json"), Some(JSON)),
            (Some("Application/JSON"), Some(JSON)),
            (Some("text/html, application/json"), Some(HTML)),
            (Some("text/html;q=0.5, application/json"), Some(JSON)),
            (Some("text/*, application/json;q=0.9"), Some(HTML)),
            (Some("*/*;q=0.1, text/plain"), Some(HTML)),
            (Some("*/*, text/html;q=0"), Some(JSON)),
            (Some("application/json;q=0, text/html;q=0.000"), None),
            (Some("application/json;version=1"), None),
            (Some("application/json;q=1.000;ext=1"), Some(JSON)),
            (Some("application/vnd.placement+json"), None),
            (Some("*/json"), None),
            (Some("*/*;a=1"), Some(HTML)),
            // Cannot be parsed, so everything is accepted.
            (Some("foo"), Some(HTML)),
            (Some("application/json;a"), Some(HTML)),
            (Some("application/json;q=2"), Some(HTML)),
        ] {
            assert_eq!(accept(header).best_of(&[HTML, JSON]), expected, "{header:?}");
        }
    }
}
