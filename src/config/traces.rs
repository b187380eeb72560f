//! Options of slow requests and traces.

use std::time::Duration;

use clap::Args;

use super::values::seconds_or_none;
use crate::http_client::http_url;
use crate::observe::telemetry::TraceSettings;

/// Path of the collector's endpoint for spans, below its URL.
const SPANS: [&str; 2] = ["v1", "traces"];

/// Options of slow requests and traces.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Slow requests and traces")]
pub struct TraceOptions {
    /// Log a warning of each request that takes longer than this many seconds; 0: of none.
    ///
    /// The warning says where the time went: waiting for turns, locks or the database, searching, sending and so on.
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = seconds_or_none)]
    pub slow_request: Duration,

    /// Send traces of requests to the OpenTelemetry collector at this URL, such as
    /// `http://127.0.0.1:4318`. Default: no traces.
    ///
    /// Spans are sent as OTLP over HTTP (protobuf) to `/v1/traces` below the URL. A slow or
    /// unavailable collector delays no request: spans are dropped when the queue is full.
    #[arg(long, value_name = "URL")]
    pub otlp_endpoint: Option<String>,

    /// The share of requests whose traces are recorded, from 0 to 1.
    ///
    /// A request with `traceparent` is recorded if its client records it (the flag `sampled`),
    /// regardless of the share.
    #[arg(long, default_value = "1", value_name = "RATIO", value_parser = ratio)]
    pub otlp_sample_ratio: f64,
}

impl TraceOptions {
    /// The time after which a request is slow; `None`: no request is.
    pub fn slow_request(&self) -> Option<Duration> {
        Some(self.slow_request).filter(|after| !after.is_zero())
    }

    /// The settings of the export; `None` without --otlp-endpoint.
    ///
    /// # Errors
    /// The endpoint is not an HTTP URL, or has credentials.
    pub fn settings(&self) -> Result<Option<TraceSettings>, String> {
        let Some(text) = &self.otlp_endpoint else { return Ok(None) };
        let mut endpoint = http_url(text).map_err(|why| format!("--otlp-endpoint {why}"))?;
        if let Ok(mut path) = endpoint.path_segments_mut() {
            path.pop_if_empty().extend(SPANS);
        }
        Ok(Some(TraceSettings { endpoint, sample_ratio: self.otlp_sample_ratio }))
    }
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("must be a number from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{TraceOptions, ratio};

    fn endpoint(text: &str) -> Result<String, String> {
        let options = TraceOptions {
            slow_request: Duration::ZERO,
            otlp_endpoint: Some(text.to_owned()),
            otlp_sample_ratio: 1.0,
        };
        options.settings().map(|settings| settings.unwrap().endpoint.to_string())
    }

    #[test]
    fn spans_are_taken_below_the_url_of_the_collector() {
        for (text, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector/otlp", "https://collector/otlp/v1/traces"),
        ] {
            assert_eq!(endpoint(text).unwrap(), url);
        }
        for text in ["", "127.0.0.1:4318", "grpc://collector:4317", "http://"] {
            assert!(endpoint(text).unwrap_err().starts_with("--otlp-endpoint"), "{text}");
        }
        assert!(!endpoint("http://u:s3cret@collector").unwrap_err().contains("s3cret"));
    }

    #[test]
    fn a_ratio_is_from_0_to_1() {
        assert_eq!(ratio("0.25"), Ok(0.25));
        for text in ["", "-0.1", "1.1", "NaN", "all"] {
            ratio(text).unwrap_err();
        }
    }
}
