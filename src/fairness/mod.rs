//! Fair sharing of work among callers: [`turns`] for long work, [`watch`] for its deadlines, [`rate_limits`] for the
//! number of requests.

pub mod rate_limits;
pub mod turns;
pub mod watch;
