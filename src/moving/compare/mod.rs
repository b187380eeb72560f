//! Compares everything that clients can read from two placement services.
//!
//! The providers of both are listed; then the parts of each are read from both services and compared at once
//! ([`pair`]), so that memory use does not grow with them. Then follow the consumers that were found, their projects,
//! and requests for candidates that are generated from the data ([`candidates`]). [`response`] computes the
//! differences between two responses, [`known`] explains the intended ones, and [`mod@explained`] those in the report
//! of an import.
//!
//! Differing responses are requested again before they are reported, since the services may be in use. Failed
//! comparisons are counted, and the others continue. [`state`] optionally keeps the progress.

mod candidates;
pub mod explained;
mod failure;
pub mod known;
mod options;
mod pair;
mod paths;
mod providers;
pub mod report;
pub mod response;
mod stages;
mod state;
pub mod subject;

use std::time::Instant;

use self::explained::Explained;
pub use self::failure::Failure;
pub use self::options::Options;
use self::pair::Pair;
use self::report::Report;
use self::stages::Stages;
use self::state::StateFile;
use crate::moving::placement_client::{Client, Microversion};

/// First microversion at which the generations of consumers and the trees of providers can be read.
const OLDEST: Microversion = Microversion(28);

/// Compares two services. Differences that an import explains are counted separately.
///
/// # Errors
/// A service does not show its versions or its providers (it does not respond, refuses the token, fails, or is not a
/// placement service); or the state file cannot be used.
pub async fn compare(
    left: &Client,
    right: &Client,
    options: &Options,
    explained: Explained,
) -> Result<Report, Failure> {
    let began = Instant::now();
    let (left_highest, right_highest) =
        futures_util::try_join!(left.highest_microversion(), right.highest_microversion())?;
    let version = left_highest.min(right_highest).min(Microversion::MAX);
    let (left_url, right_url) = futures_util::try_join!(left.url(), right.url())?;
    if version < OLDEST {
        let url = if left_highest < OLDEST { &left_url } else { &right_url };
        return Err(Failure::TooOld(format!(
            "{url}: the highest microversion is {version}, and {OLDEST} is needed to compare (since \
             Rocky)"
        )));
    }
    let mut report = Report::new(
        (left_url.to_string(), left_highest),
        (right_url.to_string(), right_highest),
        version,
        options,
    );
    let state = match &options.state {
        Some(path) => {
            Some(StateFile::open(path, &about(&report, options)).map_err(Failure::State)?)
        }
        None => None,
    };
    if let Some(state) = state.as_ref().filter(|state| state.count() > 0) {
        report.notes.push(format!("{} requests had been compared before", state.count()));
    }
    let pair = Pair::new(left.clone(), right.clone(), version, options.clone());
    let mut stages = Stages::new(&pair, &mut report, options, state.as_ref(), explained);
    stages.names().await;
    let found = providers::compare(&mut stages).await?;
    stages.consumers(found.consumers).await?;
    stages.candidates(found.profiles, found.spellings).await?;
    if let Some(state) = state.filter(|_| report.failures() == 0) {
        state.remove().map_err(Failure::State)?;
    }
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// Identifies the comparison of a state file: recorded responses are valid only with the same values.
fn about(report: &Report, options: &Options) -> serde_json::Value {
    serde_json::json!({
        "left": report.left.url,
        "right": report.right.url,
        "microversion": report.microversion,
        "rules": format!("{:?}, all consumers: {}", options.rules, options.consumers.is_none()),
    })
}
