//! `berth aggregate`: metadata of host aggregates, which the planner's flavors may require.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use uuid::Uuid;

use super::columns::{ListFormat, columns};
use super::db_options::{DbOptions, ListOptions};
use crate::config::values::pair;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::server::opening::settle_schema;
use crate::store::planner::aggregates::{SetAggregate, UnsetAggregate, list};
use crate::store::planner::change;

/// Maximum length of a key or value, in characters.
const TEXT_MAX: usize = 255;

/// Commands for the metadata of host aggregates.
#[derive(Debug, Subcommand)]
pub enum AggregateCommand {
    /// Set metadata of an aggregate; other keys are kept.
    Set(AggregateSetOptions),
    /// Print the metadata of all aggregates.
    List(ListOptions),
    /// Remove metadata of an aggregate: the keys given, or all.
    Unset(AggregateUnsetOptions),
}

/// Options of `aggregate set`.
#[derive(Args, Clone, Debug)]
pub struct AggregateSetOptions {
    /// UUID of the aggregate, as in the Placement API.
    #[arg(value_name = "AGGREGATE")]
    pub aggregate: Uuid,

    /// Metadata, such as `ssd=true`. Commas separate several values of a key.
    #[arg(value_name = "KEY=VALUE", required = true, value_parser = pair)]
    pub metadata: Vec<(String, String)>,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Options of `aggregate unset`.
#[derive(Args, Clone, Debug)]
pub struct AggregateUnsetOptions {
    /// UUID of the aggregate.
    #[arg(value_name = "AGGREGATE")]
    pub aggregate: Uuid,

    /// Keys to remove; without any, all keys.
    #[arg(value_name = "KEY")]
    pub keys: Vec<String>,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Runs `berth aggregate`, and returns its output.
///
/// # Errors
/// The arguments are invalid, a key does not exist, or the database is unavailable.
pub async fn run(command: &AggregateCommand) -> Result<String, Failure> {
    // Invalid arguments are reported before a private database is started.
    if let AggregateCommand::Set(options) = command {
        let texts = options.metadata.iter().flat_map(|(key, value)| [key, value]);
        let is_wrong = |text: &&String| {
            text.chars().nth(TEXT_MAX).is_some() || text.chars().any(char::is_control)
        };
        if options.metadata.iter().any(|(key, _)| key.trim().is_empty()) {
            return Err(Failure("a key is empty".to_owned()));
        }
        if let Some(text) = texts.into_iter().find(is_wrong) {
            let why = format!("{text:?}: a key or value has at most {TEXT_MAX} characters");
            return Err(Failure(format!("{why}, and no control characters")));
        }
    }
    let db = match command {
        AggregateCommand::Set(AggregateSetOptions { db, .. })
        | AggregateCommand::List(ListOptions { db, .. })
        | AggregateCommand::Unset(AggregateUnsetOptions { db, .. }) => db,
    };
    Database::with(&db.database, async |database| carry_out(command, database).await).await
}

async fn carry_out(command: &AggregateCommand, database: &Database) -> Result<String, Failure> {
    settle_schema(database).await?;
    let mut conn = database.connect().await?;
    match command {
        AggregateCommand::Set(options) => {
            let metadata = options.metadata.iter().cloned().collect();
            let request = SetAggregate { aggregate: options.aggregate, metadata };
            change(&mut conn, &request).await?;
        }
        AggregateCommand::Unset(options) => {
            let (aggregate, keys) = (options.aggregate, options.keys.clone());
            change(&mut conn, &UnsetAggregate { aggregate, keys }).await?;
        }
        AggregateCommand::List(options) => {
            let rows = list(&mut conn).await?;
            return Ok(match options.format.chosen() {
                ListFormat::Table => table(&rows),
                ListFormat::Json => format!("{:#}", view(rows)),
            });
        }
    }
    Ok(String::new())
}

fn view(rows: Vec<(Uuid, String, String)>) -> Value {
    let mut all: BTreeMap<Uuid, BTreeMap<String, String>> = BTreeMap::new();
    for (aggregate, key, value) in rows {
        all.entry(aggregate).or_default().insert(key, value);
    }
    all.iter().map(|(uuid, metadata)| json!({"uuid": uuid, "metadata": metadata})).collect()
}

fn table(rows: &[(Uuid, String, String)]) -> String {
    let rows = rows
        .iter()
        .map(|(aggregate, key, value)| [aggregate.to_string(), key.clone(), value.clone()]);
    columns(["aggregate", "key", "value"], rows)
}
