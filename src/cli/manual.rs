//! Generates shell completions, manual pages and the sample configuration from the commands and options.

use std::io;
use std::path::Path;

use clap_complete::Shell;

use super::commands::command;
use crate::config;
use crate::model::Bug;

/// Returns a completion script for a shell.
pub fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "berth", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes a manual page for each command into a directory: `berth.1`, `berth-serve.1` and so on.
///
/// # Errors
/// The directory does not exist, or a file in it cannot be written.
pub fn man_pages(directory: &Path) -> io::Result<()> {
    // The page of `help` would repeat those of the commands.
    clap_mangen::generate_to(command().disable_help_subcommand(true), directory)
}

/// The text of `berth config sample`.
pub fn sample() -> String {
    let command = command();
    let serve = command.find_subcommand("serve");
    config::file::sample(serve.unwrap_or_else(|| Bug::raise("there is no command `serve`")))
}
