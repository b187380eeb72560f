//! Berth, a resource placement service.
//!
//! Layers, each using only what stands below it:
//! [`http`] answers requests, [`store`] keeps the truth in PostgreSQL, [`world`] and [`search`]
//! hold all providers in memory and find where things fit, [`model`] is the vocabulary and the
//! rules.

pub mod http;
pub mod model;
pub mod search;
pub mod store;
pub mod world;
