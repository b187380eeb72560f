//! Berth, a resource placement service.
//!
//! Layers, each using only those below it: [`http`] responds to requests, [`store`] keeps the data in PostgreSQL,
//! [`world`] and [`search`] hold all providers in memory and find candidates, [`model`] has the vocabulary and the
//! rules. Beside them, [`audit`] records who has changed what, [`auth`] authenticates callers and decides what they
//! may do, [`moving`] has the tools for moving from the reference, [`solver`] places many servers at once,
//! [`planner`] has the rules of plans, and `planning` runs both and stores the outcome.

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
