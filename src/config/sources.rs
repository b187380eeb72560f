//! The origin of each option: a flag, an environment variable, a line of the configuration file, or a
//! credential of systemd.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::Config;
use crate::http::current_options::{CurrentOptions, OptionInForce};

/// Prefix of Berth's environment variables.
pub const PREFIX: &str = "BERTH_";

/// Returns the environment variable of an option, which is given by its name or by clap's id.
pub fn variable(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_uppercase())
}

/// An option with its value and origin.
#[derive(Debug)]
pub struct Source {
    /// The option, without the leading dashes.
    pub option: String,
    /// The value, a URL without its password, or `(set)` instead of a secret.
    pub value: String,
    /// Its origin.
    pub origin: Origin,
    /// A hash of the value, including secrets, that is stable for the life of this process.
    pub digest: u64,
}

impl Source {
    /// Shows the option.
    pub fn in_force(&self) -> OptionInForce {
        let (option, value) = (self.option.clone(), self.value.clone());
        OptionInForce { option, value, origin: self.origin.to_string() }
    }
}

/// Origin of an option's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag.
    Flag,
    /// The environment variable with this name.
    Variable(String),
    /// A line of the configuration file, counted from 1.
    File(PathBuf, usize),
    /// A credential of systemd.
    Credential,
    /// The default value.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::File(path, line) => write!(f, "{}, line {line}", path.display()),
            Self::Credential => f.write_str("systemd credential"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Appends the origins of the options that an error message names.
pub fn with_origins(mut why: String, sources: &[Source]) -> String {
    let named = |option: &str| {
        let flag = format!("--{option}");
        let mut behind = why.match_indices(&flag).filter_map(|(at, _)| why.get(at + flag.len()..));
        behind.any(|rest| !rest.starts_with(|next: char| next == '-' || next.is_alphanumeric()))
    };
    let is_set = |source: &&Source| !matches!(source.origin, Origin::Default | Origin::Flag);
    let set: Vec<&Source> = sources.iter().filter(is_set).collect();
    let named: Vec<&Source> = set.into_iter().filter(|source| named(&source.option)).collect();
    for Source { option, origin, .. } in named {
        why.extend(["\n  --", option, " is set by: ", &origin.to_string()]);
    }
    why
}

/// A digest of the value of each option that has one, by the name of the option.
pub type Digests = BTreeMap<String, u64>;

/// Returns the digests of options.
pub fn digests(sources: &[Source]) -> Digests {
    sources.iter().map(|source| (source.option.clone(), source.digest)).collect()
}

/// Returns the options of `berth serve` and their origins, or everything that is wrong with them.
pub type ReadOptions = fn() -> Result<(Box<Config>, Vec<Source>), String>;

/// The options of a running server, and how they are read again.
#[derive(Debug)]
pub struct Reloading {
    /// The options that the process was started with.
    pub started_with: Digests,
    /// Reads the options as the command line, environment and file give them now.
    pub read_options: ReadOptions,
    /// The options in force, as operators see them.
    pub current: CurrentOptions,
}
