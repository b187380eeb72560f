//! Berth, a resource placement service.
//!
//! Layers, each using only what stands below it:
//! [`http`] answers requests, [`store`] keeps the truth in PostgreSQL, [`world`] and [`search`]
//! hold all providers in memory and find where things fit, [`model`] is the vocabulary and the
//! rules. Beside them, [`audit`] writes who has changed what, [`keystone`] knows whose a token is, [`policy`] what they may do,
//! [`import`] reads the configuration of the reference, [`solver`] finds places for many things
//! at once, [`planner`] has the rules of plans, and `planning` runs both and stores the outcome.

pub mod audit;
pub mod auth;
pub mod cli;
pub mod config;
pub mod fairness;
pub mod http;
mod http_client;
pub mod model;
pub mod moving;
pub mod observe;
pub mod planner;
mod planning;
pub mod search;
pub mod server;
pub mod solver;
pub mod store;
pub mod world;
