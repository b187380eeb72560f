//! Builds a world from rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalogue::{Catalogue, Names};
use super::draft::Draft;
use super::layout::World;
use crate::model::provider::ProviderRow;
use crate::model::traits::SHARING;

impl Names {
    pub(super) fn new(catalogue: Catalogue) -> Self {
        let classes = catalogue.classes.iter().map(|(id, entry)| (entry.name.clone(), *id));
        let traits = catalogue.traits.iter().map(|(id, entry)| (entry.name.clone(), *id));
        let (classes, traits) = (classes.collect(), traits.collect());
        let mut names = Self { catalogue, classes, traits, shares: None };
        names.shares = names.traits.get(SHARING).copied();
        names
    }
}

impl World {
    /// Lays out a world from the rows of all providers, each once, in any order. A provider whose parent is not among
    /// them is taken for a root.
    pub fn build(catalogue: Catalogue, mut providers: Vec<ProviderRow>) -> Self {
        let world = Self { names: Arc::new(Names::new(catalogue)), ..Self::default() };
        let mut draft = Draft::new(world);
        providers.sort_by_key(|row| row.id);
        let members = providers.into_iter().map(|row| draft.admit(row)).collect();
        draft.restructure(&BTreeSet::new(), &BTreeMap::new(), members);
        let mut world = draft.finish();
        world.by_id.shrink();
        world.by_uuid.shrink();
        world
    }
}
