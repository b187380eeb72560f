//! What an audit has found: data for the report and for the plan.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::kind::Kind;
use super::placement::Held;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The situation.
    pub kind: Kind,
    /// The consumer.
    pub subject: Uuid,
    /// What was seen.
    pub evidence: String,
    /// What is to be done.
    pub remedy: Remedy,
}

/// What is to be done about a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The allocations of the consumer are changed.
    Change(Change),
    /// A person must decide: between what.
    Person(String),
}

/// What a consumer holds, and what it is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The consumer.
    pub consumer: Uuid,
    /// Its generation; none if it holds nothing.
    pub generation: Option<i64>,
    /// What it holds.
    pub before: Held,
    /// What it is to hold.
    pub after: Held,
}

/// Why something was not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// nova is doing something with the server.
    Busy,
    /// It might be the migration of a server with which nova is doing something.
    MaybeMigration,
    /// It has changed so recently that nova may not have finished.
    Recent,
    /// It has changed while it was looked at.
    Changing,
    /// It is in a cell that was not read, or did not answer.
    Elsewhere,
    /// No provider has the name of the server's host.
    UnknownHost,
    /// It is of another kind than a server or a migration.
    NotNovas,
}

impl Reason {
    /// The reason in words, after a number of consumers.
    pub fn words(self) -> &'static str {
        match self {
            Self::Busy => "nova is doing something with the server",
            Self::MaybeMigration => {
                "may belong to the migration of a server with which nova is doing something"
            }
            Self::Recent => "changed less than --grace before the servers were listed, or since",
            Self::Changing => "changed while the audit looked",
            Self::Elsewhere => "known to nova, but in a cell that was not read or did not answer",
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
    /// What was found, by kind.
    pub findings: Vec<Finding>,
    /// The consumers that were not judged, by the reason.
    pub left: BTreeMap<Reason, Vec<Uuid>>,
}

/// A time for people and programs, to the second.
pub fn shown(time: OffsetDateTime) -> String {
    let whole = time.truncate_to_second();
    whole.format(&Rfc3339).unwrap_or_else(|error| error.to_string())
}
