//! Options of the record of requests that were refused or found nothing.

use clap::Args;

use crate::http::RefusedSettings;

/// Maximum number of recorded requests.
const REQUESTS_MAX: i64 = 1_000_000;

/// Options of the record of refused requests.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Refused requests")]
pub struct RefusedOptions {
    /// Requests to keep in memory that were refused or found nothing, for `berth why`; 0: none.
    ///
    /// Queries for allocation candidates without a result, and writes that were refused because of
    /// the stored data, with the reasons. The oldest are dropped first.
    #[arg(long, default_value = "10000", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(0..=REQUESTS_MAX))]
    pub refused_requests: u32,
}

impl RefusedOptions {
    /// The settings of the record.
    pub fn settings(&self) -> RefusedSettings {
        RefusedSettings {
            requests: usize::try_from(self.refused_requests).map_or(usize::MAX, |count| count),
            ..RefusedSettings::default()
        }
    }
}
