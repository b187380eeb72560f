//! Logs, traces and metrics, and the context of the request that a task works for.

pub(crate) mod line_queue;
pub mod log_settings;
pub(crate) mod log_throttle;
pub mod metrics;
pub mod printable;
pub(crate) mod request_context;
pub(crate) mod spans;
pub mod telemetry;
pub(crate) mod times;
pub(crate) mod trace_context;
pub mod version;
