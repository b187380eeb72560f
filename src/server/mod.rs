//! The process of `berth serve`: start, reload, stop, and its integration with systemd and a private PostgreSQL.

pub mod database;
pub mod descriptors;
pub mod embedded_postgres;
pub mod failure;
mod heartbeat;
pub mod opening;
pub mod parts;
pub mod reload;
pub mod serve;
pub mod stop;
pub mod systemd;
