//! The API from outside: a router or a server over a real PostgreSQL.

#![expect(missing_docs, reason = "tests speak for themselves")]

mod concurrency;
mod crash;
mod freshness;
mod support;
mod vanish;
