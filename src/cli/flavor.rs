//! `berth flavor`: manages the flavors of plans.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::columns::{ListFormat, columns};
use super::db_options::{DbOptions, ListOptions};
use crate::config::flavors;
use crate::config::values::pair;
use crate::planner::flavor::Flavor;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::server::opening::settle_schema;
use crate::store::planner::change;
use crate::store::planner::flavors::{SetFlavor, SetFlavors, UnsetFlavor, list};

/// Commands for the flavors that plans refer to.
#[derive(Debug, Subcommand)]
pub enum FlavorCommand {
    /// Create or replace a flavor.
    ///
    /// Existing plans keep the sizes with which they were made.
    Set(Box<FlavorSetOptions>),
    /// Print all flavors.
    List(ListOptions),
    /// Delete a flavor.
    Unset(FlavorUnsetOptions),
    /// Store all flavors of a TOML file, or none if one of them is invalid.
    ///
    /// See samples/flavors.toml. Flavors that are not in the file are kept.
    Load(FlavorLoadOptions),
}

/// Options of `flavor set`.
#[derive(Args, Clone, Debug)]
pub struct FlavorSetOptions {
    /// Name of the flavor.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Number of virtual processors.
    #[arg(long, value_name = "COUNT")]
    pub vcpus: i32,

    /// Memory, in MiB.
    #[arg(long, value_name = "MIB")]
    pub ram: i32,

    /// Root disk, in GiB.
    #[arg(long, value_name = "GIB", default_value = "0")]
    pub disk: i32,

    /// Additional local disk, in GiB.
    #[arg(long, value_name = "GIB", default_value = "0")]
    pub ephemeral: i32,

    /// Swap, in MiB.
    #[arg(long, value_name = "MIB", default_value = "0")]
    pub swap: i32,

    /// Id of the flavor. Default: the id it has; for a new flavor, its name.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,

    /// Property, such as `trait:STORAGE_DISK_SSD=required` or `resources:PCPU=2`; may be repeated.
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = pair)]
    pub properties: Vec<(String, String)>,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Options of `flavor unset`.
#[derive(Args, Clone, Debug)]
pub struct FlavorUnsetOptions {
    /// Name of the flavor.
    #[arg(value_name = "NAME")]
    pub name: String,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Options of `flavor load`.
#[derive(Args, Clone, Debug)]
pub struct FlavorLoadOptions {
    /// TOML file with flavors.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Runs `berth flavor`, and returns its output.
///
/// # Errors
/// A flavor is invalid, or the database is unavailable.
pub async fn run(command: &FlavorCommand) -> Result<String, Failure> {
    // Invalid arguments are reported before a private database is started.
    let (task, db) = match command {
        FlavorCommand::Set(options) => {
            (Task::Set(SetFlavors(vec![options.flavor().map_err(Failure)?])), &options.db)
        }
        FlavorCommand::Load(options) => {
            let flavors = flavors::read(&options.file).map_err(Failure)?;
            (Task::Set(SetFlavors(flavors)), &options.db)
        }
        FlavorCommand::Unset(options) => {
            (Task::Unset(UnsetFlavor(options.name.clone())), &options.db)
        }
        FlavorCommand::List(options) => (Task::List(options.format.chosen()), &options.db),
    };
    Database::with(&db.database, async |database| task.carry_out(database).await).await
}

/// A validated command.
enum Task {
    Set(SetFlavors),
    Unset(UnsetFlavor),
    List(ListFormat),
}

impl Task {
    async fn carry_out(&self, database: &Database) -> Result<String, Failure> {
        settle_schema(database).await?;
        let mut conn = database.connect().await?;
        match self {
            Self::Set(flavors) => change(&mut conn, flavors).await?,
            Self::Unset(unset) => change(&mut conn, unset).await?,
            Self::List(format) => {
                let flavors = list(&mut conn).await?;
                return Ok(match format {
                    ListFormat::Table => table(&flavors),
                    ListFormat::Json => {
                        format!("{:#}", flavors.iter().map(view).collect::<Value>())
                    }
                });
            }
        }
        Ok(String::new())
    }
}

impl FlavorSetOptions {
    fn flavor(&self) -> Result<SetFlavor, String> {
        let flavor = Flavor {
            name: self.name.clone(),
            vcpus: self.vcpus,
            ram_mb: self.ram,
            root_gb: self.disk,
            ephemeral_gb: self.ephemeral,
            swap_mb: self.swap,
            extra_specs: self.properties.iter().cloned().collect(),
            ..Flavor::default()
        };
        SetFlavor::new(flavor, self.id.clone())
    }
}

/// A flavor, with the names of the options of `flavor set`.
fn view(flavor: &Flavor) -> Value {
    json!({
        "name": flavor.name,
        "id": flavor.id,
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mb,
        "disk": flavor.root_gb,
        "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
        "properties": flavor.extra_specs,
    })
}

fn table(flavors: &[Flavor]) -> String {
    let heads = ["name", "id", "vcpus", "ram", "disk", "ephemeral", "swap", "properties"];
    let rows = flavors.iter().map(|flavor| {
        let pairs = flavor.extra_specs.iter().map(|(key, value)| format!("{key}={value}"));
        [
            flavor.name.clone(),
            flavor.id.clone(),
            flavor.vcpus.to_string(),
            flavor.ram_mb.to_string(),
            flavor.root_gb.to_string(),
            flavor.ephemeral_gb.to_string(),
            flavor.swap_mb.to_string(),
            pairs.collect::<Vec<_>>().join(" "),
        ]
    });
    columns(heads, rows)
}

#[cfg(test)]
mod tests {
    use super::{Flavor, table};

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let flavor = Flavor {
            name: "m1.small".to_owned(),
            id: "2".to_owned(),
            vcpus: 1,
            ram_mb: 2048,
            extra_specs: [("a".to_owned(), "b".to_owned()), ("c".to_owned(), "d".to_owned())]
                .into(),
            ..Flavor::default()
        };
        insta::assert_snapshot!(table(&[flavor]), @"
        name      id  vcpus  ram   disk  ephemeral  swap  properties
        m1.small  2   1      2048  0     0          0     a=b c=d
        ");
    }
}
