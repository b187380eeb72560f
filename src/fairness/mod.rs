//! How work is shared among callers: [`turns`] for long work, [`watch`] for what they wait for.

pub mod turns;
pub mod watch;
