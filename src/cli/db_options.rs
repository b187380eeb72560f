//! Options of the commands that use the database.

use std::path::PathBuf;

use clap::Args;

use super::columns::FormatOptions;
use crate::config::{DatabaseOptions, LogOptions};

/// Options of a command that uses the database. [`super::Invocation`] has their values.
#[derive(Args, Clone, Debug)]
pub struct DbOptions {
    /// Read the database and the logging options of `berth serve` from this TOML file.
    ///
    /// Default: /etc/berth/berth.toml if it exists; /dev/null means no file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The database.
    #[command(flatten)]
    pub database: DatabaseOptions,
    /// The logs.
    #[command(flatten)]
    pub logs: LogOptions,
}

/// Options of a command that lists what is in the database.
#[derive(Args, Clone, Debug)]
pub struct ListOptions {
    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}
