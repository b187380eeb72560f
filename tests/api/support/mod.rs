//! The support code of the tests of the API.

pub mod app;
pub mod closing_peer;
pub mod cloud;
pub mod cluster;
pub mod described;
pub mod postgres;
pub mod process;
pub mod served;
