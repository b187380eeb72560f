//! PostgreSQL: the authoritative state, and the only SQL of the program.
//!
//! The database has the names of classes and traits, providers with their trees, inventories, traits and
//! aggregates, and consumers with their allocations. Everything that a replica keeps in memory (the
//! [`World`](crate::world::World)) is derived from these rows.
//!
//! There are three ways in: [`Changes::commit`] and the claim writer behind
//! [`Changes::replace_allocations`] change the rows, [`Store::world`] returns the provider side
//! from memory, and [`reads`] has the consumer side by SQL.

mod access;
pub mod aggregates;
pub mod allocations;
pub mod change;
pub mod claim_check;
mod claims;
mod commit;
pub mod condition;
pub mod consistency;
mod consumer_claim;
mod consumer_feed;
mod consumer_rows;
pub mod consumers;
pub mod described;
pub mod effects;
mod epoch;
pub mod error;
pub mod events;
mod feed;
pub mod history;
pub mod holders;
pub mod inventories;
mod lock_report;
mod locks;
mod log_entry;
pub mod maintenance;
mod noting;
mod options;
mod owners;
pub mod planner;
pub mod primary;
mod provider_lock;
pub mod providers;
mod prune;
pub mod reads;
mod recent;
mod recording;
pub mod replicas;
pub mod report;
pub mod resource_classes;
pub mod schema;
mod schema_watch;
pub mod sessions;
pub mod snapshot;
pub mod standard;
mod statement_plans;
mod stored_reads;
pub mod traits;
mod tx;
mod world_delta;
mod world_rows;
mod write_health;
mod write_limits;
mod writer;

pub use access::Store;
pub use change::Change;
pub use commit::Changes;
pub use consumer_claim::ConsumerClaim;
pub use error::{Error, Result};
pub use options::{Pruning, StoreOptions, Timeouts};
pub use tx::Tx;

/// Starts counters at zero: rates of a counter need its first value.
pub(crate) fn count_from_zero() {
    recording::count_from_zero();
}
