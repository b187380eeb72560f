//! `berth compare`: checks whether two placement services show the same.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::report_file::ReportFile;
use super::service::{LimitOptions, named};
use crate::auth::keystone::Secret;
use crate::config::LogOptions;
use crate::config::values::secret;
use crate::moving::compare::explained::Explained;
use crate::moving::compare::report::Report;
use crate::moving::compare::response::Rules;
use crate::moving::compare::subject::Subject;
use crate::moving::compare::{self, Options};
use crate::moving::placement_client::Client;
use crate::server::failure::Failure;

/// Parts that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ignored {
    /// The generations of providers.
    ProviderGenerations,
    /// The generations of consumers.
    ConsumerGenerations,
}

/// Options of `compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareOptions {
    /// One service: its URL, or the name of a cloud in clouds.yaml.
    ///
    /// `envvars` is the cloud that the environment describes (`OS_AUTH_URL` and so on): the service
    /// is the one in its catalog.
    #[arg(env = "BERTH_COMPARE_LEFT", value_name = "LEFT")]
    pub left: String,

    /// The other service, in the same way.
    #[arg(env = "BERTH_COMPARE_RIGHT", value_name = "RIGHT")]
    pub right: String,

    /// Token for the left service, if LEFT is a URL.
    ///
    /// By default, the token is Keystone's if --os-cloud or the environment has credentials; else `admin`, which a
    /// service without authentication (noauth2) accepts for the administrator. Other processes on the machine can see
    /// flags: prefer the environment.
    #[arg(long, env = "BERTH_COMPARE_LEFT_TOKEN", hide_env_values = true, value_name = "TOKEN",
          value_parser = secret)]
    pub left_token: Option<Secret>,

    /// Token for the right service, if RIGHT is a URL.
    #[arg(long, env = "BERTH_COMPARE_RIGHT_TOKEN", hide_env_values = true, value_name = "TOKEN",
          value_parser = secret)]
    pub right_token: Option<Secret>,

    /// Cloud in clouds.yaml whose credentials are used for services that are URLs, instead of the
    /// environment's.
    #[arg(long, env = "OS_CLOUD", value_name = "NAME")]
    pub os_cloud: Option<String>,

    /// Parts that may differ.
    ///
    /// An import from the API, with `berth import --from-api`, brings no generations of consumers of
    /// services before 1.28.
    #[arg(long, env = "BERTH_COMPARE_IGNORE", value_delimiter = ',', value_name = "WHAT")]
    pub ignore: Vec<Ignored>,

    /// Subjects to skip, such as those that a service fails at.
    ///
    /// Consumers are found in `provider-allocations`, projects in `consumers`, and requests for candidates are made
    /// from `inventories`: these are skipped together.
    #[arg(long, env = "BERTH_COMPARE_SKIP", value_delimiter = ',', value_name = "SUBJECT")]
    pub skip: Vec<Subject>,

    /// Record the progress in this file, so that the same command continues after an interruption.
    ///
    /// Requests whose responses were equal are not repeated. The file is removed when everything has been compared.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// Also compare the modification times of providers, inventories and allocations.
    ///
    /// They are unknown after an import from the API.
    #[arg(long, env = "BERTH_COMPARE_TIMES", default_value = "false", num_args = 0..=1,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub times: bool,

    /// Maximum number of consumers to compare, chosen by the seed. Default: all.
    ///
    /// Allocations are compared with each provider anyway; comparing projects, users and types takes a request per
    /// consumer.
    #[arg(long, env = "BERTH_COMPARE_CONSUMERS", value_name = "COUNT")]
    pub consumers: Option<usize>,

    /// Number of requests for allocation candidates, made from the data.
    #[arg(long, env = "BERTH_COMPARE_SAMPLE", default_value = "100", value_name = "COUNT")]
    pub sample: usize,

    /// Seed for samples: with the same data, it chooses the same ones.
    #[arg(long, env = "BERTH_COMPARE_SEED", default_value = "1", value_name = "NUMBER")]
    pub seed: u64,

    /// Print the report as JSON instead of text.
    #[arg(long)]
    pub json: bool,

    /// Write the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// The report that `berth import` wrote as JSON when it filled the right service from the left one.
    ///
    /// Differences of inventories, usages, allocations, consumers and projects that its rows explain are shown
    /// separately, and do not change the exit code.
    #[arg(long, env = "BERTH_COMPARE_IMPORT_REPORT", value_name = "FILE")]
    pub import_report: Option<PathBuf>,

    /// Maximum number of differences in the report; all are counted.
    #[arg(long, env = "BERTH_COMPARE_DIFFERENCES", default_value = "1000", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub differences: u32,

    /// Limits of the requests.
    #[command(flatten)]
    pub limits: LimitOptions,
    /// The logs.
    #[command(flatten)]
    pub logs: LogOptions,
}

/// Compares, and returns the report as text, and the exit code: 0 if there are no differences but those that an
/// import explains, 1 if there are others, 2 if nothing could be compared, and 3 if there are none, but a part could
/// not be compared.
///
/// # Errors
/// The services could not be compared, or the report cannot be written.
pub async fn run(options: &CompareOptions) -> Result<(String, u8), Failure> {
    // Checks that the report can be written before anything is done.
    let file = options.report.as_deref().map(ReportFile::open).transpose()?;
    let explained = options.explained().map_err(Failure)?;
    let left = options.client(&options.left, options.left_token.as_ref()).map_err(Failure)?;
    let right = options.client(&options.right, options.right_token.as_ref()).map_err(Failure)?;
    let compared = compare::compare(&left, &right, &options.what(), explained).await;
    let report = compared.map_err(|why| Failure(why.to_string()))?;
    if let Some(file) = file {
        file.write(report.json())?;
    }
    let text = if options.json { report.json() } else { report.words() };
    Ok((text, code(&report)))
}

fn code(report: &Report) -> u8 {
    match (report.total, report.comparisons(), report.failures()) {
        (1.., _, _) => 1,
        (0, 0, _) => 2,
        (0, _, 1..) => 3,
        (0, _, 0) => 0,
    }
}

impl CompareOptions {
    fn what(&self) -> Options {
        Options {
            rules: Rules {
                provider_generations: !self.ignore.contains(&Ignored::ProviderGenerations),
                consumer_generations: !self.ignore.contains(&Ignored::ConsumerGenerations),
                times: self.times,
                error_texts: true,
            },
            consumers: self.consumers,
            candidates: self.sample,
            seed: self.seed,
            kept: usize::try_from(self.differences).map_or(usize::MAX, |kept| kept),
            skipped: self.skip.clone(),
            state: self.state.clone(),
        }
    }

    /// Reads the report of an import.
    fn explained(&self) -> Result<Explained, String> {
        let Some(path) = &self.import_report else { return Ok(Explained::default()) };
        let report = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Explained::read(&report).map_err(|why| format!("{} {why}", path.display()))
    }

    fn client(&self, name: &str, token: Option<&Secret>) -> Result<Client, String> {
        named(name, token, self.os_cloud.as_deref(), self.limits)
    }
}
