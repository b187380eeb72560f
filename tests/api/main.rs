//! The API from outside: a router or a server over a real PostgreSQL.

#![expect(unreachable_pub, reason = "tests speak for themselves")]
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that finds something else than it expects panics, also in its helpers"
)]

mod aggregates;
mod allocations;
mod audit_log;
mod bad_input;
mod bulk;
mod candidate_order;
mod candidates;
mod change_log;
mod check;
mod claim_command;
mod closed_connections;
mod compression;
mod concurrency;
mod configuration;
mod consistency;
mod console;
mod consumers;
mod cors;
mod crash;
mod database_commands;
mod databases;
mod debugging;
mod differences;
mod event_copies;
mod events;
mod explain;
mod explain_claim;
mod failover;
mod fit;
mod framing;
mod freshness;
mod front;
mod fuzz;
mod health;
mod held;
mod history;
mod inventories;
mod limits;
mod listeners;
mod logs;
mod looking;
mod members;
mod metrics;
mod microversions;
mod moves;
mod openapi;
mod opening;
mod panics;
mod policy;
mod proxies;
mod recorded;
mod refused;
mod reshaper;
mod restores;
mod samples;
mod schema;
mod service;
mod statements;
mod support;
mod terminals;
mod tls;
mod traces;
mod traits;
mod tree;
mod unread_body;
mod usages;
mod vanish;
