//! Claims: what consumers want to hold, and the one judge of whether they may.
