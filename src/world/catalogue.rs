//! The names of resource classes and traits.

use std::collections::BTreeMap;

use crate::model::{ClassId, TraitId};

/// The names of resource classes and traits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// Resource classes by key.
    pub classes: BTreeMap<ClassId, Name>,
    /// Traits by key.
    pub traits: BTreeMap<TraitId, Name>,
}

/// A named entry of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name that clients use.
    pub name: String,
    /// Last change, seconds since the Unix epoch.
    pub updated_at: i64,
}

/// The catalogue, and its keys by name.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) catalogue: Catalogue,
    pub(super) classes: BTreeMap<String, ClassId>,
    pub(super) traits: BTreeMap<String, TraitId>,
    /// The trait of sharing providers.
    pub(super) shares: Option<TraitId>,
}
