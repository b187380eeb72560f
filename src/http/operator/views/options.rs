//! The response of `GET /-/v1/options`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::http::current_options::OptionInForce;

/// The options of a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OptionsInForce {
    /// All options that have a value, sorted by name.
    pub options: Vec<OptionInForce>,
}
