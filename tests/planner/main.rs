//! The planner's API from outside: a server of both APIs over a real PostgreSQL.

#![expect(unreachable_pub, reason = "tests speak for themselves")]
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that finds something else than it expects panics, also in its helpers"
)]

mod aggregates;
mod bad_input;
mod caps;
mod compat;
mod contract;
mod crowd;
mod demands;
mod dice;
mod effort;
mod explanations;
mod flavor_groups;
mod flavors;
mod following;
mod group_command;
mod group_terms;
mod grouping;
mod groups;
mod handover;
mod headroom;
mod held_hosts;
mod history;
mod invariants;
mod journal;
mod killed;
mod killer;
mod large;
mod membership;
mod migrations;
mod misplaced;
mod pipes;
mod placement_policies;
mod placements;
mod plan_rows;
mod plans;
mod policies;
mod proportion;
mod races;
mod regressions;
mod relocations;
mod requests;
mod reservations;
mod resources;
mod rest;
mod roles;
mod room;
mod server_groups;
mod site;
mod stack;
mod stacks;
mod status;
mod storm;
mod storm_stacks;
#[expect(dead_code, reason = "the tests of the other API need more of it")]
#[path = "../api/support/mod.rs"]
mod support;
mod tenancy;
mod tenants;
mod tree_explanations;
mod trees;
mod truth;
mod turns;
mod units;
mod updates;
mod upkeep;
mod valet_clients;
mod volumes;
mod wrong_plans;
