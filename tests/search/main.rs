//! The search against its specification: a slow and literal oracle, worked examples, and a world
//! changed step by step against one built from scratch.

mod cloud;
mod defects;
mod examples;
mod generate;
mod listing;
mod oracle;
mod precedence;
mod properties;
mod stepwise;
mod why;
