//! The commands for moving from OpenStack Placement: import its configuration and data, compare,
//! mirror requests, and audit what it holds beside nova's servers.

pub mod compare;
pub mod config_import;
pub mod placement_client;
pub mod progress;
pub mod server_audit;
pub mod shadow;
pub mod transfer;
