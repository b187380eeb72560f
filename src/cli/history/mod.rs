//! `berth history`: shows the changes of a provider or a consumer, with their authors.

use clap::Args;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::columns::{columns, or_dash};
use super::db_options::DbOptions;
use super::times::since;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::server::opening::settle_schema;
use crate::store::history::entry::HistoryEntry;
use crate::store::history::reading::{HistoryQuery, HistoryResult, Period, read};
use crate::store::history::summary::summary;

/// Maximum number of entries in the output.
const LIMIT_MAX: i64 = 100_000;

/// Options of `history`.
#[derive(Args, Clone, Debug)]
pub struct HistoryQueryOptions {
    /// UUID of a provider, a consumer, a plan, a placement or a group; or name of a provider, which
    /// may have been deleted.
    #[arg(value_name = "PROVIDER|CONSUMER")]
    pub object: String,

    /// Show changes from this time on: a time (`2026-11-22T20:00:00Z`), a date, or an age (`90s`, `30m`, `12h`,
    /// `7d`).
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<OffsetDateTime>,

    /// Maximum number of changes to print; the newest are printed.
    #[arg(long, value_name = "COUNT", default_value = "50",
          value_parser = clap::value_parser!(u32).range(1..=LIMIT_MAX))]
    pub limit: u32,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,

    /// The database.
    #[command(flatten)]
    pub db: DbOptions,
}

/// Runs `berth history`, and returns its output.
///
/// # Errors
/// Changes have never been recorded, or the database is unavailable.
pub async fn run(options: &HistoryQueryOptions) -> Result<String, Failure> {
    let found = async |database: &Database| find(options, database).await;
    let found = Database::with(&options.db.database, found).await?;
    if found.periods.is_empty() {
        let why = "there is no history: no server has recorded changes; start all of them with --history 7 or more";
        return Err(Failure(why.to_owned()));
    }
    Ok(if options.json { format!("{:#}", document(&found)) } else { text(options, &found) })
}

async fn find(
    options: &HistoryQueryOptions,
    database: &Database,
) -> Result<HistoryResult, Failure> {
    settle_schema(database).await?;
    let mut conn = database.connect().await?;
    let question = HistoryQuery {
        object: options.object.clone(),
        since: options.since.map(seconds),
        limit: options.limit,
    };
    Ok(read(&mut conn, &question).await?)
}

/// A time in seconds since 1970, to the microsecond.
#[expect(clippy::cast_precision_loss, reason = "a double has microseconds until the year 2255")]
fn seconds(time: OffsetDateTime) -> f64 {
    time.unix_timestamp_nanos() as f64 / 1e9
}

/// The changes as text.
fn text(options: &HistoryQueryOptions, found: &HistoryResult) -> String {
    let object = &options.object;
    let mut text = if found.objects.is_empty() {
        format!("No provider is or was named {object:?}, as far as is recorded.\n")
    } else if found.entries.is_empty() {
        format!("No change of {object} is recorded.\n")
    } else {
        table(found)
    };
    if found.has_more {
        text.push_str("There are older changes: see --limit.\n");
    }
    text + &reach(options.since, &found.periods)
}

fn table(found: &HistoryResult) -> String {
    let heads = ["time", "kind", "object", "generation", "change", "user", "project", "request"];
    let rows = found.entries.iter().map(|entry| {
        [
            entry.at.clone(),
            entry.kind.clone(),
            entry.object.clone(),
            or_dash(entry.generation.map(|it| it.to_string()).as_ref()),
            summary(entry, &found.names),
            or_dash(entry.user.as_ref()),
            or_dash(entry.project.as_ref()),
            or_dash(entry.request_id.as_ref()),
        ]
    });
    columns(heads, rows)
}

/// Describes the recorded periods and their gaps.
fn reach(since: Option<OffsetDateTime>, periods: &[Period]) -> String {
    let Some(first) = periods.first() else { return String::new() };
    let is_too_early = since.is_some_and(|since| seconds(since) < first.began_at);
    let short = if is_too_early { "The history does not reach that far back. " } else { "" };
    let mut text = format!("{short}Changes are known since {}.\n", first.began);
    let next = periods.iter().skip(1).map(Some).chain([None]);
    for (period, next) in periods.iter().zip(next) {
        let Some(ended) = &period.ended else { continue };
        let gap = match next {
            Some(Period { began, .. }) => {
                format!("From {ended} to {began} changes were not recorded")
            }
            None => format!("Since {ended} changes are not recorded"),
        };
        text += &gap;
        text += ": there were servers with --history 0.\n";
    }
    text
}

/// The changes as JSON.
fn document(found: &HistoryResult) -> Value {
    let periods: Value = found
        .periods
        .iter()
        .map(|period| json!({"from": period.began, "to": period.ended}))
        .collect();
    let entries: Value = found.entries.iter().map(view).collect();
    json!({"recorded": periods, "objects": found.objects, "changes": entries, "more": found.has_more})
}

fn view(entry: &HistoryEntry) -> Value {
    json!({
        "id": entry.id,
        "time": entry.at,
        "request_id": entry.request_id,
        "global_request_id": entry.global_request_id,
        "user": entry.user,
        "project": entry.project,
        "type": entry.kind,
        "object": entry.object,
        "generation": entry.generation,
        "before": entry.before,
        "after": entry.after,
    })
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::{Period, reach, since};

    #[test]
    fn a_time_is_absolute_or_an_age() {
        assert_eq!(since("1970-01-01T00:01:00Z").unwrap().unix_timestamp(), 60);
        assert_eq!(since("1970-01-02").unwrap().unix_timestamp(), 86400);
        let time = since("2h").unwrap();
        assert_eq!((OffsetDateTime::now_utc() - time).whole_hours(), 2);
        for wrong in ["", "h", "2", "2w", "-1h", "yesterday", "99999999999999d", "1970-02-30", "2€"]
        {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    fn period(began: &str, at: f64, ended: Option<&str>) -> Period {
        let ended = ended.map(str::to_owned);
        Period { began: began.to_owned(), began_at: at, ended }
    }

    #[test]
    fn gaps_are_reported() {
        let one = [period("A", 10.0, None)];
        assert_eq!(reach(None, &one), "Changes are known since A.\n");
        let early = since("1970-01-01").unwrap();
        assert_eq!(
            reach(Some(early), &one),
            "The history does not reach that far back. Changes are known since A.\n"
        );
        let three = [
            period("A", 10.0, Some("B")),
            period("C", 30.0, Some("D")),
            period("E", 40.0, Some("F")),
        ];
        let text = reach(None, &three);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].starts_with("From B to C changes were not recorded"), "{text}");
        assert!(lines[2].starts_with("From D to E changes were not recorded"), "{text}");
        assert!(lines[3].starts_with("Since F changes are not recorded"), "{text}");
    }
}
