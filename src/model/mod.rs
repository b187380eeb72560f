//! The vocabulary of Placement and its rules, as plain values and functions.
//!
//! A *resource provider* has *inventories* (a total per *resource class*, with the terms of its
//! allocation), *traits* and *aggregates*, and may have a parent. A *consumer* has *allocations*:
//! amounts of classes on providers. The rules are functions without I/O; the layers above read the
//! facts, store the outcome and translate it.

pub mod bug;
pub mod claim;
pub mod consumer;
pub(crate) mod effort;
pub mod exclusive;
pub mod generation;
pub mod group;
pub mod ids;
pub mod inventory;
pub(crate) mod nearest;
pub mod placement_policy;
pub mod provider;
pub mod refusal;
pub mod traits;
pub(crate) mod wording;

pub use bug::Bug;
pub use exclusive::ExclusiveHost;
pub use generation::{Expected, Generation};
pub use group::{GroupKind, Level};
pub use ids::{ClassId, ConsumerId, ProviderId, TraitId};
pub use inventory::Inventory;
pub use placement_policy::{Goal, PlacementPolicy};
pub use refusal::Refusal;
