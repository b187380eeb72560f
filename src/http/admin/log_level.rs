//! `/-/log` of the admin address: what is logged and in which format, and how to change it for a while.

use std::time::Duration;

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use percent_encoding::percent_decode_str;

use crate::http::admin::health::text;
use crate::observe::log_settings::{self, Current, LogFormat, LogSettings};

/// The path.
pub(in crate::http) const PATH: &str = "/-/log";
/// The longest time for which directives can be set, in seconds.
const SECONDS_MAX: u64 = 86_400;
/// How to use it.
const USAGE: &str = "PUT /-/log?[filter=DIRECTIVES][&format=human|json][&for=SECONDS], \
                     such as filter=info,berth::store=debug&for=600\n";

/// Answers a request. `is_local`: it comes from this machine; others may only look.
pub(in crate::http) fn answer(method: &Method, query: &str, is_local: bool) -> Response {
    match *method {
        Method::GET | Method::HEAD => shown(),
        Method::PUT | Method::DELETE if !is_local => {
            text(StatusCode::FORBIDDEN, "the log can be changed only from the same machine\n")
        }
        Method::PUT => match Change::read(query).and_then(Change::make) {
            Ok(()) => shown(),
            Err(why) => text(StatusCode::BAD_REQUEST, format!("{why}\n{USAGE}")),
        },
        Method::DELETE => match log_settings::reset() {
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
    match log_settings::current() {
        Ok(Current { settings: LogSettings { filter, format }, remaining }) => {
            let lasts = remaining.map_or_else(String::new, |remaining| {
                format!(" (for {} more seconds)", remaining.as_secs())
            });
            let format = format.name();
            text(StatusCode::OK, format!("{filter}{lasts}\nformat={format}{lasts}\n"))
        }
        Err(why) => text(StatusCode::CONFLICT, format!("{why}\n")),
    }
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    filter: Option<String>,
    format: Option<LogFormat>,
    lasts: Option<Duration>,
}

impl Change {
    fn read(query: &str) -> Result<Self, String> {
        let (mut filter, mut format, mut lasts) = (None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(format!("{pair} has no value"))?;
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| format!("{name} is not UTF-8"))?;
            match name {
                "filter" if value.trim().is_empty() => return Err("filter is empty".to_owned()),
                "filter" => filter = Some(value.into_owned()),
                "format" => format = Some(LogFormat::read(&value)?),
                "for" => match value.parse() {
                    Ok(seconds @ 1..=SECONDS_MAX) => lasts = Some(Duration::from_secs(seconds)),
                    _ => return Err(format!("for must be a number from 1 to {SECONDS_MAX}")),
                },
                other => return Err(format!("{other} is not known")),
            }
        }
        if filter.is_none() && format.is_none() {
            return Err("filter and format are missing".to_owned());
        }
        Ok(Self { filter, format, lasts })
    }

    fn make(self) -> Result<(), String> {
        let Self { filter, format, lasts } = self;
        let LogSettings { filter, format } = log_settings::replace(filter, format, lasts)?;
        tracing::info!(
            filter,
            format = format.name(),
            seconds = lasts.map(|it| it.as_secs()),
            "the log settings were replaced"
        );
        if let Some(lasts) = lasts {
            tokio::spawn(async move {
                tokio::time::sleep(lasts).await;
                if log_settings::end_expired() {
                    tracing::info!("the configured log settings are in force again");
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
    use crate::observe::log_settings::LogFormat;

    #[test]
    fn a_change_is_read() {
        let read = Change::read("filter=info,berth%3A%3Astore=debug&for=60").unwrap();
        let (filter, lasts) = (Some("info,berth::store=debug".to_owned()), Duration::from_mins(1));
        assert_eq!(read, Change { filter, format: None, lasts: Some(lasts) });
        assert_eq!(Change::read("filter=warn").unwrap().lasts, None);
        let read = Change::read("format=json").unwrap();
        assert_eq!((read.filter, read.format), (None, Some(LogFormat::Json)));
        for query in [
            "",
            "for=60",
            "filter=",
            "filter=info&for=0",
            "filter=info&x=1",
            "filter",
            "format=xml",
            "format=",
        ] {
            Change::read(query).unwrap_err();
        }
    }
}
