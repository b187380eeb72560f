//! `berth config show`: the options of a running server.

use clap::Args;

use super::columns::FormatOptions;
use super::explain::shown;
use super::service::ServiceOptions;
use crate::http::current_options::OptionInForce;
use crate::http::operator::views::options::OptionsInForce;
use crate::moving::placement_client::Microversion;
use crate::server::failure::Failure;

/// Path of the options.
const PATH: &str = "/-/v1/options";

/// Options of `config show`.
#[derive(Args, Clone, Debug)]
pub struct ShowConfigOptions {
    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The server.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth config show`, and returns its output.
///
/// # Errors
/// The server does not respond, or the caller may not read its options.
pub async fn run(options: &ShowConfigOptions) -> Result<String, Failure> {
    of_server(&options.service, options.format).await
}

/// Returns the options of a running server.
///
/// # Errors
/// As of [`run`].
pub(super) async fn of_server(
    service: &ServiceOptions,
    format: FormatOptions,
) -> Result<String, Failure> {
    let response = service.reader()?.get(PATH, Microversion::MAX).await?;
    shown(response, format, |it: &OptionsInForce, _| lines(&it.options))
}

/// Returns options with their values and origins, one per line.
pub fn lines(options: &[OptionInForce]) -> String {
    let line = |it: &OptionInForce| format!("{} = {} ({})", it.option, it.value, it.origin);
    options.iter().map(line).collect::<Vec<_>>().join("\n")
}
