//! Listeners, connections and TLS: everything below the requests themselves.

pub(crate) mod activity;
mod bare_errors;
pub mod bounds;
pub mod certificates;
pub(crate) mod connections;
mod framing;
pub mod listener;
pub(crate) mod listeners;
mod observed;
pub mod server;
pub(crate) mod serving;
pub mod tls;
pub(crate) mod unread_body;
