//! The data of each provider, by slot.

use std::sync::Arc;

use uuid::Uuid;

use super::column::InventoryEntry;
use crate::model::{ClassId, Generation, ProviderId, TraitId};

/// The value for no slot.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// The position of a provider in its tree. The members of a tree have consecutive slots, each member before
/// its descendants, so a subtree is a range of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreePosition {
    /// Slot of its parent, or [`NOWHERE`].
    pub(crate) parent: u32,
    /// Slot of its root; [`NOWHERE`] if no provider has the slot.
    pub(crate) root: u32,
    /// Number of providers in its subtree, including itself.
    pub(crate) len: u32,
    /// For a root: its tree may use 2^order slots.
    pub(crate) order: u32,
}

impl Default for TreePosition {
    fn default() -> Self {
        Self { parent: NOWHERE, root: NOWHERE, len: 0, order: 0 }
    }
}

/// Data that seldom changes.
#[derive(Clone, Debug)]
pub(super) struct ProviderData {
    pub(super) id: ProviderId,
    pub(super) uuid: Uuid,
    pub(super) name: Arc<str>,
    /// Ascending, like the other lists.
    pub(super) traits: Arc<[TraitId]>,
    pub(super) aggregates: Arc<[Uuid]>,
    /// All aggregates in the spelling of clients; `None` if each has its canonical spelling, as nearly all do.
    pub(super) spellings: Option<Arc<[String]>>,
    /// The classes of its inventories.
    pub(super) classes: Arc<[ClassId]>,
}

impl ProviderData {
    /// All aggregates in the spelling of clients; empty if each has its canonical spelling.
    pub(super) fn spellings(&self) -> &[String] {
        match &self.spellings {
            Some(spellings) => spellings,
            None => &[],
        }
    }
}

/// Data that changes with every write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) generation: Generation,
    pub(super) updated_at: i64,
}

/// A provider between two slots.
#[derive(Debug)]
pub(super) struct MovedProvider {
    pub(super) data: ProviderData,
    pub(super) version: Version,
    pub(super) rows: Vec<(ClassId, InventoryEntry)>,
}
