//! The schema that this program expects.

use sqlx::migrate::Migrator;

pub(super) static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// A query for the objects of a schema. Its result for a current one is written by `tools/sqlx`.
pub(super) const OBJECTS: &str = include_str!("objects.sql");
pub(super) const EXPECTED: &str = include_str!("objects.txt");

/// A table that only Berth has, and one that only openstack-placement has.
pub(super) const OURS: &str = "change_log_horizon";
