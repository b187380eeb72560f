//! The layout of a world: columns, names, trees and shared lists.

use std::sync::Arc;

use uuid::Uuid;

use super::catalogue::Names;
use super::column::Column;
use super::holds::Holds;
use super::intern::Interned;
use super::map::Map;
use super::pages::Table;
use super::set::Set;
use super::sharing::{Aggregate, Signatures};
use super::slot_allocator::SlotAllocator;
use super::slot_data::{ProviderData, TreePosition, Version};
use crate::model::{ClassId, ProviderId, TraitId};

/// Every provider with its inventories, usage, traits and aggregates, at one moment.
#[derive(Clone, Default)]
pub struct World {
    pub(super) names: Arc<Names>,
    pub(super) trees: Trees,
    pub(super) provider_data: Table<Option<ProviderData>, 64>,
    pub(super) versions: Table<Version, 256>,
    pub(super) by_id: Map<ProviderId, u32>,
    pub(super) by_uuid: Map<Uuid, u32>,
    /// Ascending by class.
    pub(super) columns: Arc<Vec<(ClassId, Column)>>,
    pub(super) traits: Map<TraitId, Set>,
    pub(super) aggregates: Map<Uuid, Aggregate>,
    pub(super) signatures: Signatures,
    pub(super) lists: SharedLists,
    pub(super) holds: Holds,
}

/// The trees of all providers.
#[derive(Clone, Debug, Default)]
pub(super) struct Trees {
    pub(super) allocator: SlotAllocator,
    pub(super) places: Table<TreePosition, 256>,
    /// Slots of all providers.
    pub(super) present: Set,
    /// Slots of all roots.
    pub(super) roots: Set,
    /// Slots of roots without children.
    pub(super) lone: Set,
    /// Slots of roots whose trees may use more slots than a block of a [`Set`] has.
    pub(super) large: Set,
}

/// Lists that many providers share.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedLists {
    pub(super) traits: Interned<TraitId>,
    pub(super) aggregates: Interned<Uuid>,
    pub(super) classes: Interned<ClassId>,
}
