//! How much is kept of requests that were refused or found nothing.

use std::time::Duration;

use clap::Args;

use crate::http::RefusedSettings;

/// The most requests that are kept.
const REQUESTS_MAX: i64 = 1_000_000;
/// The longest time for which they are kept, in seconds: a week.
const AGE_MAX: i64 = 7 * 24 * 60 * 60;

/// Options of what is kept of refused requests.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Refused requests")]
pub struct RefusedOptions {
    /// Requests to keep in memory that were refused or found nothing, for `berth why`; 0: none.
    ///
    /// Queries for allocation candidates without a result, and writes that were refused for what is
    /// stored, with the reasons. The oldest give way.
    #[arg(long, env = "BERTH_REFUSED_REQUESTS", default_value = "10000", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(0..=REQUESTS_MAX))]
    pub refused_requests: u32,

    /// Bytes of memory for refused requests; 0: none are kept.
    #[arg(long, env = "BERTH_REFUSED_BYTES", default_value = "16777216", value_name = "BYTES")]
    pub refused_bytes: usize,

    /// Seconds for which refused requests are kept; 0: none are kept.
    #[arg(long, env = "BERTH_REFUSED_AGE", default_value = "3600", value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(0..=AGE_MAX))]
    pub refused_age: u32,
}

impl RefusedOptions {
    /// What they mean.
    pub fn settings(&self) -> RefusedSettings {
        RefusedSettings {
            requests: usize::try_from(self.refused_requests).map_or(usize::MAX, |count| count),
            bytes: self.refused_bytes,
            age: Duration::from_secs(self.refused_age.into()),
        }
    }
}
