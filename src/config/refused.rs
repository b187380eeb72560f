//! How much is kept of requests that were refused or found nothing.

use clap::Args;

use crate::http::RefusedSettings;

/// The most requests that are kept.
const REQUESTS_MAX: i64 = 1_000_000;

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
}

impl RefusedOptions {
    /// What they mean.
    pub fn settings(&self) -> RefusedSettings {
        RefusedSettings {
            requests: usize::try_from(self.refused_requests).map_or(usize::MAX, |count| count),
            ..RefusedSettings::default()
        }
    }
}
