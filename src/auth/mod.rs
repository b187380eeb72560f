//! Authentication and authorization: [`keystone`] validates tokens, [`policy`] decides what their
//! callers may do.

pub mod keystone;
pub mod policy;
