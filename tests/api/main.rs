//! The API from outside: a router or a server over a real PostgreSQL.

#![expect(missing_docs, reason = "tests speak for themselves")]

mod bad_input;
mod concurrency;
mod crash;
mod differences;
mod freshness;
mod front;
mod microversions;
mod samples;
mod support;
mod vanish;
