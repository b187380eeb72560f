//! Fair sharing of work among callers: [`turns`] for long work, [`watch`] for its deadlines.

pub mod turns;
pub mod watch;
