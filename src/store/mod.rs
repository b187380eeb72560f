//! PostgreSQL: the truth, and the only SQL of the program.
//!
//! Durable are the catalogue of names, providers with their tree, inventories, traits and
//! aggregates, and consumers with their allocations. Everything else a replica knows (the
//! [`World`]) is derived from these rows and may be thrown away.

pub mod changes;
pub mod error;
pub mod reads;

use std::sync::Arc;

pub use changes::Change;
pub use error::{Error, Result};

use crate::world::World;

/// The way to everything durable. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {}

impl Store {
    /// The world as of a moment after this call began: what any replica acknowledged before is in
    /// it.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn world(&self) -> Result<Arc<World>> {
        todo!()
    }

    /// Makes a change: entirely or not at all, and to its end even if the caller goes away.
    ///
    /// # Errors
    /// A refusal, or the database cannot be asked.
    pub async fn commit<C: Change>(&self, change: C) -> Result<C::Outcome> {
        let _ = change;
        todo!()
    }
}
