//! Flavors: the sizes that servers have, by name.

use std::collections::BTreeMap;

/// What a server needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Size {
    /// Amounts by resource class, each at least 1.
    pub needs: BTreeMap<String, i64>,
    /// Traits it requires.
    pub required: Vec<String>,
    /// Traits it forbids.
    pub forbidden: Vec<String>,
}
