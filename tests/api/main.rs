//! The API from outside: a router or a server over a real PostgreSQL.

#![expect(unreachable_pub, reason = "tests speak for themselves")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that stumbles over its own assumptions has failed"
)]

mod concurrency;
mod crash;
mod differences;
mod freshness;
mod samples;
mod schema;
mod service;
mod support;
mod vanish;
