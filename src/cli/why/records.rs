//! Options of `berth why`, and requests for the records of servers.

use clap::Args;
use reqwest::StatusCode;

use crate::cli::columns::FormatOptions;
use crate::cli::explain::only_berth;
use crate::cli::service::ReplicaOptions;
use crate::http::operator::views::refused::FoundRequests;
use crate::moving::placement_client::{Client, Microversion};
use crate::observe::printable::escaped;
use crate::server::failure::Failure;

/// Path of the resource.
pub(super) const PATH: &str = "/-/v1/refused";

/// Options of `why`.
#[derive(Args, Clone, Debug)]
pub struct WhyOptions {
    /// ID of the request, or of the request on whose behalf it was sent: the `req-...` in the log of nova.
    ///
    /// A whole line of a log is accepted as well. Without it, lists the latest requests that were refused or found
    /// nothing.
    #[arg(value_name = "REQUEST_ID")]
    pub request_id: Option<String>,

    /// List only requests of this kind: `candidates`, `claim`, `reshape`, `provider`, `inventories`, `traits`,
    /// `aggregates` or `resource_classes`.
    #[arg(long, value_name = "KIND", conflicts_with = "request_id")]
    pub kind: Option<String>,

    /// List only requests of callers with this project.
    #[arg(long, value_name = "ID", conflicts_with = "request_id")]
    pub project: Option<String>,

    /// List only requests of this user.
    #[arg(long, value_name = "ID", conflicts_with = "request_id")]
    pub user: Option<String>,

    /// List only requests of the last seconds.
    #[arg(long, value_name = "COUNT", conflicts_with = "request_id")]
    pub seconds: Option<u32>,

    /// Maximum number of requests to list.
    #[arg(long, value_name = "COUNT", default_value = "50",
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,

    /// Do not check the present state.
    #[arg(long)]
    pub then: bool,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The servers.
    #[command(flatten)]
    pub service: ReplicaOptions,
}

/// The address of a replica, or an error.
pub(super) async fn address(client: &Client) -> String {
    client.url().await.map_or_else(|error| error.to_string(), |url| url.to_string())
}

/// The requests with an ID, or the error message of a server without a record.
pub(super) async fn find(
    client: &Client,
    id: &str,
) -> Result<Result<FoundRequests, String>, Failure> {
    let response = client.get(&format!("{PATH}/{id}"), Microversion::MAX).await?;
    if response.status() != StatusCode::NOT_FOUND {
        let response = response.expect(StatusCode::OK)?;
        return Ok(Ok(response.json_as()?));
    }
    let error = response.json().ok();
    let detail = error.as_ref().and_then(|it| it.pointer("/errors/0/detail")?.as_str());
    // Other services have nothing at this path, and word the error differently.
    let own = detail.filter(|it| it.starts_with("This "));
    Ok(Err(own.map_or_else(|| only_berth(&response).0, escaped)))
}
