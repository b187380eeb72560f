//! What the tests of the API stand on.

pub mod app;
pub mod closing_peer;
pub mod cloud;
pub mod cluster;
pub mod postgres;
pub mod process;
pub mod served;
