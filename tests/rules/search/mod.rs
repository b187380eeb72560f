//! The search against its specification: a slow and literal oracle, worked examples, and a world
//! changed step by step against one built from scratch.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test that panics has failed, and its numbers are small"
)]

mod cloud;
mod defects;
mod effort;
mod examples;
mod explain;
mod fit;
mod funnel;
mod generate;
mod hard;
mod listing;
mod moves;
mod oracle;
mod order;
mod precedence;
mod properties;
mod released;
mod stepwise;
mod trees;
