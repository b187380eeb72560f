//! The findings of an audit, as data for the report and for the plan.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::kind::Kind;
use super::placement::Held;

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The situation.
    pub kind: Kind,
    /// The consumer.
    pub subject: Uuid,
    /// A description of the evidence.
    pub evidence: String,
    /// The remedy.
    pub remedy: Remedy,
}

/// The remedy for a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The allocations of the consumer are changed.
    Change(Change),
    /// An operator must decide; the alternatives.
    Person(String),
}

/// A consumer's allocations before and after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The consumer.
    pub consumer: Uuid,
    /// Its generation; `None` without allocations.
    pub generation: Option<i64>,
    /// Its present allocations.
    pub before: Held,
    /// Its new allocations.
    pub after: Held,
}

/// Reason why a consumer was not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// An operation on the server is in progress.
    Busy,
    /// It may be the migration of a server with an operation in progress.
    MaybeMigration,
    /// It has changed so recently that nova may not have finished.
    Recent,
    /// It changed during the audit.
    Changing,
    /// It is in a cell that was not read, or did not respond.
    Elsewhere,
    /// No provider has the name of the server's host.
    UnknownHost,
    /// It is neither a server nor a migration.
    NotNovas,
}

impl Reason {
    /// The reason as text, to follow a number of consumers.
    pub fn words(self) -> &'static str {
        match self {
            Self::Busy => "nova is doing something with the server",
            Self::MaybeMigration => {
                "may belong to the migration of a server with which nova is doing something"
            }
            Self::Recent => "changed less than --grace before the servers were listed, or since",
            Self::Changing => "changed during the audit",
            Self::Elsewhere => "known to nova, but in a cell that was not read or did not respond",
            Self::UnknownHost => "on a host whose name no provider has",
            Self::NotNovas => {
                "of another kind than a server or a migration (by its type, or by its resource classes)"
            }
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::MaybeMigration => "maybe-migration",
            Self::Recent => "recent",
            Self::Changing => "changing",
            Self::Elsewhere => "elsewhere",
            Self::UnknownHost => "unknown-host",
            Self::NotNovas => "not-novas",
        }
    }
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The findings, by kind.
    pub findings: Vec<Finding>,
    /// The consumers that were not judged, by reason.
    pub left: BTreeMap<Reason, Vec<Uuid>>,
}

/// Formats a time, to the second.
pub fn shown(time: OffsetDateTime) -> String {
    let truncated = time.truncate_to_second();
    truncated.format(&Rfc3339).unwrap_or_else(|error| error.to_string())
}
