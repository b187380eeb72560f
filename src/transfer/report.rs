//! What was read, written, and done about odd rows: in words and as JSON.

use serde::Serialize;

use super::Error;

/// How many findings of one kind are written out in words. JSON has all.
const SHOWN: usize = 10;

/// What an import or an export has done, or would do.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The database of OpenStack Placement, without its password; or the URL of the service.
    pub database: String,
    /// The version of its schema; or the microversion at which the service was read.
    pub schema: String,
    /// Whether nothing was written because nothing was to be.
    pub dry_run: bool,
    /// What else the operator should know, in sentences.
    pub notes: Vec<String>,
    /// The rows that were read, by table.
    pub read: Vec<TableRows>,
    /// The rows that were written, by table.
    pub written: Vec<TableRows>,
    /// Rows that Berth stores differently, or not at all.
    pub findings: Vec<Finding>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// How many rows a table has.
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
    /// What is odd about it, in one word for all of its kind.
    pub kind: String,
    /// The row.
    pub row: String,
    /// What becomes of it.
    pub done: String,
    /// Which provider, classes, consumer and project show something else for it than the old service does, and
    /// which amount was left out: what `berth compare --import-report` goes by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<serde_json::Value>,
}

/// A finding as SQL gives it: what it is about is JSON, as text.
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
        // A report is of strings and finite numbers, which always have a form in JSON.
        serde_json::to_string_pretty(self).unwrap_or_else(|error| error.to_string())
    }

    /// The report in words.
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
        lines.extend(self.advice());
        lines.join("\n")
    }
}

impl Report {
    /// How to find out whether clients see the same of both services; none if nothing was written.
    fn advice(&self) -> Option<String> {
        let is_service = self.database.starts_with("http");
        let old = if is_service { self.database.trim_end_matches('/') } else { "http://OLD:8778" };
        let compare = format!("berth compare {old} http://BERTH:8778");
        (!self.written.is_empty())
            .then(|| format!("to verify it while both services run and nobody writes: {compare}"))
    }
}

/// A line that says how many rows each table has; none without tables.
fn tables(what: &str, tables: &[TableRows]) -> Option<String> {
    let each: Vec<String> = tables.iter().map(|it| format!("{} {}", it.rows, it.table)).collect();
    (!each.is_empty()).then(|| format!("{what}: {}", each.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::{Finding, Report, TableRows};

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
