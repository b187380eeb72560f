//! What a world keeps of each provider, by slot.

use std::sync::Arc;

use uuid::Uuid;

use super::column::InventoryEntry;
use crate::model::{ClassId, Generation, ProviderId, TraitId};

/// Stands where there is no slot.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Where a provider stands in its tree. Members of a tree stand in slots next to each other, each
/// before those below it, so that a subtree is a range of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Slot of the provider it hangs below, or [`NOWHERE`].
    pub(crate) parent: u32,
    /// Slot of the top of its tree; [`NOWHERE`] if nobody is here.
    pub(crate) root: u32,
    /// Providers in the subtree that begins here, itself counted.
    pub(crate) len: u32,
    /// Of a root: slots its tree may use are 2 to the power of this.
    pub(crate) order: u32,
}

impl Default for Place {
    fn default() -> Self {
        Self { parent: NOWHERE, root: NOWHERE, len: 0, order: 0 }
    }
}

/// What seldom changes.
#[derive(Clone, Debug)]
pub(super) struct ProviderData {
    pub(super) id: ProviderId,
    pub(super) uuid: Uuid,
    pub(super) name: Arc<str>,
    /// Ascending, as are the others.
    pub(super) traits: Arc<[TraitId]>,
    pub(super) aggregates: Arc<[Uuid]>,
    /// All aggregates as clients spelled them; nothing if each is spelled in the usual way, as
    /// nearly all are.
    pub(super) spellings: Option<Arc<[String]>>,
    /// Those it has inventories of.
    pub(super) classes: Arc<[ClassId]>,
}

impl ProviderData {
    /// All aggregates as clients spelled them; nothing if each is spelled in the usual way.
    pub(super) fn spellings(&self) -> &[String] {
        match &self.spellings {
            Some(spellings) => spellings,
            None => &[],
        }
    }
}

/// What changes with every write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) generation: Generation,
    pub(super) updated_at: i64,
}

/// A provider on its way into a slot, or from one to another.
#[derive(Debug)]
pub(super) struct MovedProvider {
    pub(super) data: ProviderData,
    pub(super) version: Version,
    pub(super) rows: Vec<(ClassId, InventoryEntry)>,
}
