//! A world that is being changed.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::layout::World;
use super::slot_data::MovedProvider;
use crate::model::{ClassId, ProviderId, TraitId};

/// A world under construction.
pub(super) struct Draft {
    pub(super) world: World,
    /// Roots of trees whose signature may have changed.
    pub(super) stale: Vec<u32>,
    /// For each aggregate whose sharing members changed: whether it had any before.
    pub(super) shared_before: BTreeMap<Uuid, bool>,
    pub(super) emptied: Emptied,
}

/// Traits, aggregates and classes that lost their last provider. They are removed when the world is finished,
/// unless they have a provider again.
#[derive(Default)]
pub(super) struct Emptied {
    pub(super) traits: Vec<TraitId>,
    pub(super) aggregates: Vec<Uuid>,
    pub(super) classes: Vec<ClassId>,
}

/// A member of the trees that are laid out again.
pub(super) struct Member {
    pub(super) id: ProviderId,
    pub(super) parent: Option<ProviderId>,
    pub(super) source: Source,
}

/// The origin of a member.
pub(super) enum Source {
    Slot(u32),
    Outside(Box<MovedProvider>),
}
