//! Compares two placement services: everything that clients can read.
//!
//! The providers of both are listed, then what each has is read from both services and compared as it
//! comes ([`pair`]), so that memory does not grow with what the providers hold. Then follow the
//! consumers that were met, the projects of these, and questions for candidates that are made of the
//! data ([`candidates`]). [`answers`] has the differences of two answers to the same request, and [`known`]
//! those that are meant; [`mod@explained`] has those that the report of an import explains.
//!
//! What differs is read once more before it is reported: the services may be in use.

pub mod answers;
mod candidates;
pub mod explained;
pub mod known;
mod options;
mod pair;
mod paths;
mod providers;
pub mod report;
mod stages;

use std::time::Instant;

use self::explained::Explained;
pub use self::options::Options;
use self::pair::Pair;
use self::report::Report;
use self::stages::Stages;
use crate::placement_client::{Client, Error, Microversion};
use crate::progress::Progress;

/// The microversion below which neither consumers' generations nor trees can be read as they are here.
const OLDEST: Microversion = Microversion(28);

/// Why two services could not be compared: a sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A service gave no usable answer.
    #[error("{0}")]
    Service(#[from] Error),
    /// A service is too old.
    #[error("{0}")]
    TooOld(String),
}

/// Compares two services. Differences that an import explains are counted by themselves.
///
/// # Errors
/// A service cannot be read: it does not answer, refuses the token, fails, or is no placement service.
pub async fn compare(
    left: &Client,
    right: &Client,
    options: Options,
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
        options.kept,
    );
    let pair = Pair::new(left.clone(), right.clone(), version, options);
    let mut stages = Stages::new(&pair, &mut report, explained, Progress::new());
    stages.names().await?;
    let found = providers::compare(&mut stages, options).await?;
    stages.consumers(found.consumers, options).await?;
    let queries = candidates::queries(&found.profiles, options.candidates, options.seed, version);
    stages.candidates(&queries).await?;
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}
