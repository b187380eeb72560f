//! Options of the policy.

use std::path::PathBuf;

use clap::Args;

use crate::auth::policy::Source;

/// Options of the policy.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Policy")]
pub struct PolicyOptions {
    /// YAML or JSON file with rules that override the defaults (see docs/policy.md).
    ///
    /// Berth reads the file again when it changes.
    #[arg(long, value_name = "FILE")]
    pub policy_file: Option<PathBuf>,

    /// Directories with further policy files, applied after --policy-file in the order of their
    /// names.
    #[arg(long, value_delimiter = ',', value_name = "DIRECTORIES")]
    pub policy_dirs: Vec<PathBuf>,

    /// Apply only the present default rules.
    ///
    /// With false, the older default rules apply as well: an administrator may then do what is
    /// otherwise reserved for services (`POST /reshaper`).
    #[arg(long, default_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub enforce_new_defaults: bool,
}

impl PolicyOptions {
    /// The source of the rules.
    pub fn source(&self) -> Source {
        Source {
            file: self.policy_file.clone(),
            directories: self.policy_dirs.clone(),
            enforce_new_defaults: self.enforce_new_defaults,
        }
    }
}
