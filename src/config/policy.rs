//! Where the rules of who may do what are from.

use std::path::PathBuf;

use clap::Args;

use crate::policy::Source;

/// Options about who may do what.
#[derive(Args, Clone, Debug)]
pub struct PolicyOptions {
    /// A file with rules that replace the defaults, in YAML or JSON (see docs/policy.md). It is
    /// read again when it changes.
    #[arg(long, env = "BERTH_POLICY_FILE", value_name = "FILE")]
    pub policy_file: Option<PathBuf>,

    /// Directories with more such files, which count after it, in the order of their names.
    #[arg(long, env = "BERTH_POLICY_DIRS", value_delimiter = ',', value_name = "DIRECTORIES")]
    pub policy_dirs: Vec<PathBuf>,

    /// The rule that stands for those that rules refer to and that do not exist.
    #[arg(long, env = "BERTH_POLICY_DEFAULT_RULE", default_value = "default", value_name = "NAME")]
    pub policy_default_rule: String,

    /// Let only the present default rules of who may do what hold. With false, the rules before
    /// them hold too: an administrator may then do what is otherwise for services alone
    /// (`POST /reshaper`).
    #[arg(long, env = "BERTH_ENFORCE_NEW_DEFAULTS", default_value = "true", num_args = 0..=1,
          default_missing_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub enforce_new_defaults: bool,
}

impl PolicyOptions {
    /// Where the rules are from.
    pub fn source(&self) -> Source {
        Source {
            file: self.policy_file.clone(),
            directories: self.policy_dirs.clone(),
            default_rule: self.policy_default_rule.clone(),
            enforce_new_defaults: self.enforce_new_defaults,
        }
    }
}
