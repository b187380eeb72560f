//! The tower layers that every request passes; [`middleware`] puts them in order.

pub(crate) mod access_log;
pub(crate) mod around;
pub(crate) mod audited;
mod broken_off;
pub mod cors;
pub(crate) mod external_url;
pub mod identity;
pub(crate) mod middleware;
mod paced;
pub(crate) mod panics;
pub mod proxy;
pub(crate) mod request_id;
pub(crate) mod response_info;
pub(crate) mod service;
mod slow;
pub(crate) mod traced;
mod well_formed;
