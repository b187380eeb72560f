//! `berth config convert`: converts a configuration file of OpenStack Placement.

use std::path::PathBuf;

use clap::Args;

use crate::moving::config_import::{self, Overrides, Sources};
use crate::server::failure::Failure;

/// Options of `config convert`.
#[derive(Args, Clone, Debug)]
pub struct ConvertOptions {
    /// Files in oslo.config's format; a later file overrides an earlier one.
    ///
    /// Environment variables `OS_GROUP__OPTION` override all files, as in OpenStack Placement.
    /// Without any file, Berth reads what OpenStack Placement reads: placement.conf in
    /// `$OS_PLACEMENT_CONFIG_DIR`, or else in /etc/placement and the other default places.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Directory whose *.conf files are read after the files, in the order of their names.
    #[arg(long, value_name = "DIRECTORY")]
    pub config_dir: Vec<PathBuf>,

    /// URL of Berth's PostgreSQL, instead of the one in the files.
    ///
    /// Required if the files name a database other than PostgreSQL.
    #[arg(long, value_name = "URL")]
    pub database_url: Option<String>,

    /// Write to this file instead of standard output.
    ///
    /// Only its owner can read it, and the group `berth` if root writes it.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Overwrite an existing file.
    #[arg(long, requires = "output")]
    pub force: bool,

    /// Print only a Markdown table of the conversion of each option.
    #[arg(long, hide = true, exclusive = true)]
    pub table: bool,
}

/// Runs `berth config convert`, and returns its output. Passes notes, warnings and errors to `notice`.
///
/// # Errors
/// A file cannot be read or written, or an option can neither be converted nor safely left out.
pub fn run(options: &ConvertOptions, notice: impl Fn(&str)) -> Result<Option<String>, Failure> {
    if options.table {
        return Ok(Some(config_import::table::markdown()));
    }
    let sources = Sources::read(&options.files, &options.config_dir)
        .map_err(|why| Failure(why.to_string()))?;
    let overrides = Overrides { database_url: options.database_url.clone() };
    let outcome = config_import::import(&sources, &overrides);
    let diagnostics = outcome.as_ref().map_or_else(|it| it, |imported| &imported.diagnostics);
    for diagnostic in diagnostics {
        notice(&diagnostic.to_string());
    }
    let Ok(imported) = outcome else {
        return Err(Failure("nothing was written because of the errors above".to_owned()));
    };
    let Some(path) = &options.output else { return Ok(Some(imported.toml)) };
    let written = config_import::output::write(path, &imported.toml, options.force);
    written.map(|()| None).map_err(|why| Failure(format!("{}: {why}", path.display())))
}
