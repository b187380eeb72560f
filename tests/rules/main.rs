//! The rules that need no database: claims, the search, what a candidate costs, and the import of
//! configurations.

mod claims;
mod cost;
mod import;
mod search;
