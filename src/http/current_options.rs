//! The options of the running process, for operators.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An option of a running process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OptionInForce {
    /// The option, without the leading dashes.
    pub option: String,
    /// The value, a URL without its password, or `(set)` instead of a secret.
    pub value: String,
    /// A flag, an environment variable, a line of a file, a credential or the default.
    pub origin: String,
}

/// The options of the running process, some of which a reload changes. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CurrentOptions(Arc<Mutex<Vec<OptionInForce>>>);

impl CurrentOptions {
    /// The options at the start, sorted by name.
    pub fn new(options: Vec<OptionInForce>) -> Self {
        Self(Arc::new(Mutex::new(options)))
    }

    fn options(&self) -> MutexGuard<'_, Vec<OptionInForce>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the options, sorted by name.
    pub(super) fn all(&self) -> Vec<OptionInForce> {
        self.options().clone()
    }

    /// Replaces an option that a reload has changed.
    pub fn set(&self, changed: OptionInForce) {
        let mut options = self.options();
        options.retain(|it| it.option != changed.option);
        options.push(changed);
        options.sort_by(|one, other| one.option.cmp(&other.option));
    }
}
