//! Compares two placement services: everything that clients can read.
//!
//! The providers of both are listed, then what each has is read from both services and compared as it
//! comes ([`pair`]), so that memory does not grow with what the providers hold. Then follow the
//! consumers that were met, the projects of these, and questions for candidates that are made of the
//! data ([`candidates`]). [`answers`] has the differences of two answers to the same request, and [`known`]
//! those that are meant; [`mod@explained`] has those that the report of an import explains.
//!
//! What differs is read once more before it is reported: the services may be in use. What cannot be compared is
//! counted, and the rest is compared. [`state`] keeps what has been compared, if that is wanted.

pub mod answers;
mod candidates;
pub mod explained;
mod failure;
pub mod known;
mod options;
mod pair;
mod paths;
mod providers;
pub mod report;
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
use self::state::State;
use crate::moving::placement_client::{Client, Microversion};

/// The microversion below which neither consumers' generations nor trees can be read as they are here.
const OLDEST: Microversion = Microversion(28);

/// Compares two services. Differences that an import explains are counted by themselves.
///
/// # Errors
/// The services do not show their versions or their providers: one does not answer, refuses the token, fails, or is no
/// placement service. Or the file of the state cannot be used.
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
        Some(path) => Some(State::open(path, &about(&report, options)).map_err(Failure::State)?),
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

/// What a file of the state belongs to: answers that were the same are still the same only with these.
fn about(report: &Report, options: &Options) -> serde_json::Value {
    serde_json::json!({
        "left": report.left.url,
        "right": report.right.url,
        "microversion": report.microversion,
        "rules": format!("{:?}, all consumers: {}", options.rules, options.consumers.is_none()),
    })
}
