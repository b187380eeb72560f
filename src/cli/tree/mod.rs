//! `berth tree`: shows resource providers as trees, with their inventories and usage.

pub(super) mod drawing;

use clap::Args;

use self::drawing::draw;
use super::columns::FormatOptions;
use super::providers::{PARTS, Provider, bulk, find, list, read, too_many, version};
use super::service::ServiceOptions;
use super::terminal::Colours;
use crate::moving::placement_client::{Client, Microversion};
use crate::server::failure::Failure;

/// Options of `tree`.
#[derive(Args, Clone, Debug)]
pub struct TreeOptions {
    /// Name or UUID of a provider, whose tree is shown. Default: all trees.
    #[arg(value_name = "PROVIDER")]
    pub provider: Option<String>,

    /// Maximum number of providers; if there are more, nothing is shown.
    ///
    /// OpenStack Placement needs four requests for each; Berth returns all of them at once.
    #[arg(long, value_name = "COUNT", default_value = "1000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The service, Berth or OpenStack Placement.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth tree`, and returns its output.
///
/// # Errors
/// The service does not respond, or there is no such provider.
pub async fn run(options: &TreeOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let version = version(&client).await?;
    let tree = match &options.provider {
        None => None,
        Some(provider) => {
            let uuid = find(&client, version, provider).await?;
            let missing = || Failure(format!("there is no resource provider {provider}"));
            Some(uuid.ok_or_else(missing)?)
        }
    };
    let providers = providers(&client, version, tree.as_deref(), options.limit as usize).await?;
    Ok(if options.format.is_json() {
        format!("{:#}", serde_json::json!(providers))
    } else if providers.is_empty() {
        "There are no resource providers.".to_owned()
    } else {
        draw(&providers, Colours::of_stdout())
    })
}

/// Reads the providers of one tree, or all.
async fn providers(
    client: &Client,
    version: Microversion,
    tree: Option<&str>,
    limit: usize,
) -> Result<Vec<Provider>, Failure> {
    let Some(providers) = bulk(client, version, &PARTS, tree).await? else {
        let query = tree.map_or_else(String::new, |uuid| format!("?in_tree={uuid}"));
        let listed = list(client, version, &query).await?;
        return read(client, version, listed, &PARTS, limit).await;
    };
    if providers.len() > limit {
        return Err(too_many(providers.len()));
    }
    Ok(providers)
}
