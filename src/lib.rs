//! Berth, a resource placement service.
//!
//! Layers, each using only what stands below it:
//! [`http`] answers requests, [`store`] keeps the truth in PostgreSQL, [`world`] and [`search`]
//! hold all providers in memory and find where things fit, [`model`] is the vocabulary and the
//! rules. Beside them, [`audit`] writes who has changed what, [`keystone`] knows whose a token is, [`policy`] what they may do,
//! [`import`] reads the configuration of the reference, [`solver`] finds places for many things
//! at once, [`planner`] has the rules of plans, and `planning` runs both and stores the outcome.

pub mod audit;
pub mod cli;
pub mod compare;
pub mod config;
pub mod descriptors;
pub mod doctor;
pub mod embedded_postgres;
pub mod health;
pub mod http;
mod http_client;
pub mod import;
pub mod keystone;
mod line_queue;
pub mod log_settings;
pub mod metrics;
pub mod model;
pub mod opening;
pub mod operator_api;
pub mod placement_client;
pub mod planner;
mod planning;
pub mod policy;
pub mod printable;
pub mod progress;
mod reload;
mod request_context;
pub mod search;
pub mod serve;
pub mod server_audit;
pub mod shadow;
pub mod solver;
mod spans;
pub mod stop;
pub mod store;
pub mod systemd;
pub mod telemetry;
mod trace_context;
pub mod transfer;
pub mod turns;
pub mod version;
pub mod watch;
mod wording;
pub mod world;
