//! `/-/log` of the admin address: what is logged, and how to change it for a while.

use std::time::Duration;

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use percent_encoding::percent_decode_str;

use super::health::text;
use crate::log_filter::{self, Current};

/// The path.
pub(super) const PATH: &str = "/-/log";
/// The longest time for which directives can be set, in seconds.
const SECONDS_MAX: u64 = 86_400;
/// How to use it.
const USAGE: &str =
    "PUT /-/log?filter=DIRECTIVES[&for=SECONDS], such as filter=info,berth::store=debug&for=600\n";

/// Answers a request. `is_local`: it comes from this machine; others may only look.
pub(super) fn answer(method: &Method, query: &str, is_local: bool) -> Response {
    match *method {
        Method::GET | Method::HEAD => shown(),
        Method::PUT | Method::DELETE if !is_local => {
            text(StatusCode::FORBIDDEN, "the log can be changed only from the same machine\n")
        }
        Method::PUT => match Change::read(query).and_then(Change::make) {
            Ok(()) => shown(),
            Err(why) => text(StatusCode::BAD_REQUEST, format!("{why}\n{USAGE}")),
        },
        Method::DELETE => match log_filter::reset() {
            Ok(_) => shown(),
            Err(why) => text(StatusCode::CONFLICT, format!("{why}\n")),
        },
        _ => {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, USAGE);
            let allowed = HeaderValue::from_static("GET, HEAD, PUT, DELETE");
            response.headers_mut().insert(header::ALLOW, allowed);
            response
        }
    }
}

fn shown() -> Response {
    match log_filter::current() {
        Ok(Current { directives, remaining: None }) => {
            text(StatusCode::OK, format!("{directives}\n"))
        }
        Ok(Current { directives, remaining: Some(remaining) }) => {
            let seconds = remaining.as_secs();
            text(StatusCode::OK, format!("{directives} (for {seconds} more seconds)\n"))
        }
        Err(why) => text(StatusCode::CONFLICT, format!("{why}\n")),
    }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    filter: String,
    lasts: Option<Duration>,
}

impl Change {
    fn read(query: &str) -> Result<Self, String> {
        let (mut filter, mut lasts) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(format!("{pair} has no value"))?;
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| format!("{name} is not UTF-8"))?;
            match name {
                "filter" => filter = Some(value.into_owned()),
                "for" => match value.parse() {
                    Ok(seconds @ 1..=SECONDS_MAX) => lasts = Some(Duration::from_secs(seconds)),
                    _ => return Err(format!("for must be a number from 1 to {SECONDS_MAX}")),
                },
                other => return Err(format!("{other} is not known")),
            }
        }
        let filter = filter.filter(|filter| !filter.trim().is_empty());
        Ok(Self { filter: filter.ok_or("filter is missing")?, lasts })
    }

    fn make(self) -> Result<(), String> {
        let Self { filter, lasts } = self;
        log_filter::replace(&filter, lasts)?;
        tracing::info!(
            filter,
            seconds = lasts.map(|it| it.as_secs()),
            "the log filter was replaced"
        );
        if let Some(lasts) = lasts {
            tokio::spawn(async move {
                tokio::time::sleep(lasts).await;
                if log_filter::end_expired() {
                    tracing::info!("the configured log filter is in force again");
                }
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Change;

    #[test]
    fn a_change_is_read() {
        let read = Change::read("filter=info,berth%3A%3Astore=debug&for=60").unwrap();
        let lasts = Some(Duration::from_mins(1));
        assert_eq!(read, Change { filter: "info,berth::store=debug".to_owned(), lasts });
        assert_eq!(Change::read("filter=warn").unwrap().lasts, None);
        for query in ["", "for=60", "filter=", "filter=info&for=0", "filter=info&x=1", "filter"] {
            Change::read(query).unwrap_err();
        }
    }
}
