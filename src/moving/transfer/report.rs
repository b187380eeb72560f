//! The report of an import or export, as text and JSON.

use std::time::Duration;

use serde::Serialize;

use super::error::Error;
use crate::observe::printable;

/// Maximum number of findings of one kind in the text. JSON has all.
const SHOWN: usize = 10;
/// Duration of writing, relative to computing the rows: measured with 2,000 hosts and 40,000 instances.
const WRITING: f64 = 2.0;
/// Estimates of at least this many seconds are shown in minutes.
const MINUTES_FROM: f64 = 120.0;

/// Outcome of an import or export, or of a dry run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The OpenStack Placement database, without its password; or the URL of the service.
    pub database: String,
    /// The version of its schema; or the microversion at which the service was read.
    pub schema: String,
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Estimated duration of an import, after a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Further notes for the operator.
    pub notes: Vec<String>,
    /// Rows read, by table.
    pub read: Vec<TableRows>,
    /// Rows written, by table.
    pub written: Vec<TableRows>,
    /// Rows that Berth stores differently, or not at all.
    pub findings: Vec<Finding>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Estimated duration of an import, from the measurements of a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Estimated seconds.
    pub seconds: f64,
    /// Number of rows read.
    pub rows: u64,
    /// Seconds spent reading them.
    pub reading_seconds: f64,
}

impl Estimate {
    /// Estimates from a dry run: the rows read, the time spent reading, and the total time.
    pub(super) fn new(read: &[TableRows], reading: Duration, all: Duration) -> Self {
        let computing = all.saturating_sub(reading);
        let seconds = all + computing.mul_f64(WRITING);
        Self {
            seconds: seconds.as_secs_f64(),
            rows: read.iter().map(|it| it.rows).sum(),
            reading_seconds: reading.as_secs_f64(),
        }
    }

    fn words(&self) -> String {
        let rate = if self.reading_seconds > 0.0 {
            let rows = u32::try_from(self.rows).map_or(f64::from(u32::MAX), f64::from);
            format!(" ({:.0} rows a second)", rows / self.reading_seconds)
        } else {
            String::new()
        };
        format!(
            "an import will take about {}: an estimate, because {} rows were read in {:.1} s{rate}, and writing them \
             takes time as well",
            about(self.seconds),
            self.rows,
            self.reading_seconds
        )
    }
}

/// A duration in whole seconds or minutes.
fn about(seconds: f64) -> String {
    if seconds < MINUTES_FROM {
        format!("{:.0} s", seconds.max(1.0))
    } else {
        format!("{:.0} minutes", seconds / 60.0)
    }
}

/// Number of rows of a table.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct TableRows {
    /// The table.
    pub table: String,
    /// The rows.
    pub rows: u64,
}

/// A row that Berth stores differently, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of difference.
    pub kind: String,
    /// The row.
    pub row: String,
    /// The treatment of the row in Berth.
    pub done: String,
    /// The provider, classes, consumer and project that differ from the old service because of it, and the amount
    /// left out: used by `berth compare --import-report`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<serde_json::Value>,
}

/// A finding as returned by SQL; `about` is JSON as text.
pub(super) type FindingRow = (String, String, String, Option<String>);

impl Finding {
    pub(super) fn new((kind, row, done, about): FindingRow) -> Result<Self, Error> {
        let about = about.map(|about| serde_json::from_str(&about)).transpose();
        let about = about.map_err(|error| Error::Refused(format!("{kind}, {row}: {error}")))?;
        Ok(Self { kind, row, done, about })
    }
}

impl Report {
    /// The report as JSON.
    pub fn json(&self) -> String {
        printable::json(self)
    }

    /// The report as text.
    pub fn words(&self) -> String {
        let mut lines = vec![format!("{} (schema {})", self.database, self.schema)];
        lines.extend(self.notes.iter().cloned());
        lines.extend(tables("read", &self.read));
        lines.extend(tables("written", &self.written));
        let kinds = self.findings.chunk_by(|one, other| one.kind == other.kind);
        for findings in kinds {
            let Some(first) = findings.first() else { continue };
            lines.push(format!("{}: {}", first.kind, findings.len()));
            let shown = findings.iter().take(SHOWN);
            lines.extend(shown.map(|finding| format!("  {}: {}", finding.row, finding.done)));
            if let Some(more) = findings.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                lines.push(format!("  ... and {more} more: see --report"));
            }
        }
        let ending = if self.dry_run { "nothing was written (--dry-run)" } else { "done" };
        lines.push(format!("{ending}, in {:.1} s", self.seconds));
        lines.extend(self.estimate.map(|estimate| estimate.words()));
        lines.extend(self.advice());
        lines.join("\n")
    }
}

impl Report {
    /// How to verify that clients see the same in both services; `None` if nothing was written.
    fn advice(&self) -> Option<String> {
        let is_service = self.database.starts_with("http");
        let old = if is_service { self.database.trim_end_matches('/') } else { "http://OLD:8778" };
        let compare = format!("berth compare {old} http://BERTH:8778");
        (!self.written.is_empty()).then(|| {
            format!("to verify it while both services run and nothing is written: {compare}")
        })
    }
}

/// A line with the row count of each table; `None` without tables.
fn tables(what: &str, tables: &[TableRows]) -> Option<String> {
    let each: Vec<String> = tables.iter().map(|it| format!("{} {}", it.rows, it.table)).collect();
    (!each.is_empty()).then(|| format!("{what}: {}", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Estimate, Finding, Report, TableRows};

    #[test]
    fn an_estimate_says_what_it_comes_from() {
        let read = [TableRows { table: "users".to_owned(), rows: 4000 }];
        let estimate = |reading, all| {
            Estimate::new(&read, Duration::from_secs(reading), Duration::from_secs(all)).words()
        };
        assert!(estimate(8, 10).starts_with(
            "an import will take about 14 s: an estimate, because 4000 rows were read in 8.0 s (500 rows a second)"
        ));
        assert!(estimate(600, 640).starts_with("an import will take about 12 minutes: "));
        assert!(estimate(0, 0).starts_with("an import will take about 1 s: an estimate, because"));
    }

    #[test]
    fn many_findings_of_a_kind_are_cut_off_in_words_only() {
        let finding = |nth: u32| Finding {
            kind: "spelling".to_owned(),
            row: format!("aggregate {nth}"),
            done: "as it is".to_owned(),
            about: None,
        };
        let report = Report {
            database: "mysql://db/placement".to_owned(),
            schema: "b4ed3a175331".to_owned(),
            dry_run: true,
            estimate: None,
            notes: Vec::new(),
            read: vec![TableRows { table: "users".to_owned(), rows: 3 }],
            written: Vec::new(),
            findings: (0..12).map(finding).collect(),
            seconds: 1.25,
        };
        let words = report.words();
        assert!(
            words.contains("read: 3 users\nspelling: 12\n  aggregate 0: as it is\n"),
            "{words}"
        );
        assert!(words.ends_with(
            "  ... and 2 more: see --report\nnothing was written (--dry-run), in 1.2 s"
        ));
        assert!(report.json().contains("aggregate 11"));
    }
}
