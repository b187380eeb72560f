//! What Placement is about: plain values and the rules over them.
//!
//! A *resource provider* has *inventories* (a total per *resource class*, with the terms under
//! which it is handed out), *traits* and *aggregates*, and stands in a tree. A *consumer* holds
//! *allocations*: amounts of classes on providers. Everything that may be refused is refused here,
//! by functions without I/O; the layers above fetch, store and translate.

pub mod bug;
pub mod claim;
pub(crate) mod effort;
pub mod exclusive;
pub mod generation;
pub mod ids;
pub mod inventory;
pub mod provider;
pub mod refusal;

pub use bug::Bug;
pub use generation::{Expected, Generation};
pub use ids::{ClassId, ConsumerId, ProviderId, TraitId};
pub use inventory::Inventory;
pub use refusal::Refusal;
