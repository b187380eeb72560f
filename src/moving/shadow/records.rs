//! Writes differences as JSON lines to a file, one object each, up to a maximum size.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::exchange::{RequestHead, TimedResponse};
use super::tally::Outcome;
use crate::moving::compare::known::Rule;
use crate::moving::compare::response::Difference;
use crate::observe::line_queue::{LineQueue, Pushed};
use crate::observe::printable::escaped_json;

/// Mode of the file: readable for its group.
const MODE: u32 = 0o640;
/// Maximum number of bytes that wait to be written.
const WAITING_MAX: usize = 4 << 20;
/// Maximum number of differences per request, and of characters per value.
const DIFFERENCES_MAX: usize = 20;
const VALUE_MAX: usize = 2000;
/// Maximum number of characters of a write's body, and of a target.
const TEXT_MAX: usize = 8000;

/// A request whose responses differ.
#[derive(Clone, Copy)]
pub(super) struct RecordedDifference<'f> {
    pub(super) head: &'f RequestHead,
    /// The body of a write.
    pub(super) body: &'f [u8],
    pub(super) upstream: &'f TimedResponse,
    pub(super) berth: &'f TimedResponse,
    pub(super) outcome: Outcome,
    pub(super) known: Option<&'static Rule>,
    /// Number of repetitions with the same difference.
    pub(super) confirmations: usize,
    pub(super) differences: &'f [Difference],
}

impl RecordedDifference<'_> {
    /// The record, without headers, because these contain tokens.
    fn record(&self, now: OffsetDateTime) -> Value {
        let differences: Vec<Value> = self
            .differences
            .iter()
            .take(DIFFERENCES_MAX)
            .map(|it| {
                json!({"place": it.place(), "upstream": cut(it.left.as_ref()), "berth": cut(it.right.as_ref())})
            })
            .collect();
        let body = (!self.body.is_empty())
            .then(|| shortened(&String::from_utf8_lossy(self.body), TEXT_MAX));
        json!({
            "time": now.format(&Rfc3339).ok(),
            "outcome": self.outcome.name(),
            "known": self.known.map(|it| it.id),
            "method": self.head.method.as_str(),
            "target": shortened(self.head.target(), TEXT_MAX),
            "microversion": self.head.microversion(),
            "body": body,
            "request_id": self.upstream.request_id(),
            "berth_request_id": self.berth.request_id(),
            "upstream_status": self.upstream.status.as_u16(),
            "berth_status": self.berth.status.as_u16(),
            "confirmations": self.confirmations,
            "differences": differences,
            "differences_total": self.differences.len(),
        })
    }
}

/// A value, or the beginning of its text if it is long.
fn cut(value: Option<&Value>) -> Value {
    match value {
        None => Value::Null,
        Some(value) => {
            let text = value.to_string();
            if text.len() <= VALUE_MAX { value.clone() } else { shortened(&text, VALUE_MAX).into() }
        }
    }
}

/// Truncates a long text.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Records {
    queue: Arc<LineQueue>,
    /// Bytes that it may still get.
    left: AtomicU64,
    not_written: AtomicU64,
}

impl Records {
    /// Opens a file, to which records are appended up to `bytes_max` bytes.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
        let left = bytes_max.saturating_sub(file.metadata()?.len());
        let queue = LineQueue::new(WAITING_MAX);
        let taken = Arc::clone(&queue);
        let thread = std::thread::Builder::new().name("differences".to_owned());
        thread.spawn(move || write_all(&taken, file))?;
        Ok(Self { queue, left: AtomicU64::new(left), not_written: AtomicU64::new(0) })
    }

    /// Adds a record, if there is room. Never waits for the file.
    pub(super) fn add(&self, found: &RecordedDifference<'_>) {
        let record = found.record(OffsetDateTime::now_utc()).to_string();
        let mut line = escaped_json(&record).into_owned();
        line.push('\n');
        let size = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size));
        if taken.is_err() || self.queue.push(line.as_bytes()) != Pushed::Waits {
            self.not_written.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of records that were dropped, because the file is full or the disk is slow.
    pub(super) fn not_written(&self) -> u64 {
        self.not_written.load(Ordering::Relaxed)
    }

    /// Waits until all records are written, at most for `most`.
    pub(super) fn end(&self, most: Duration) -> bool {
        self.queue.end(most)
    }
}

fn write_all(queue: &LineQueue, mut file: File) {
    let mut has_failed = false;
    queue.run(|lines, _| {
        if let Err(error) = file.write_all(lines)
            && !std::mem::replace(&mut has_failed, true)
        {
            tracing::error!(%error, "--differences cannot be written");
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
    use serde_json::{Value, json};

    use super::super::copied_body::Budget;
    use super::{
        DIFFERENCES_MAX, Outcome, RecordedDifference, Records, RequestHead, TimedResponse,
        shortened,
    };
    use crate::moving::compare::response::Difference;

    fn answered(status: StatusCode) -> TimedResponse {
        let body = Budget::new(10).copy(10);
        TimedResponse { status, headers: HeaderMap::new(), body, took: Duration::ZERO }
    }

    fn head() -> RequestHead {
        let token = HeaderValue::from_static("a-secret");
        let version = HeaderValue::from_static("placement 1.39");
        let headers = [
            ("x-auth-token".parse().unwrap(), token),
            ("openstack-api-version".parse().unwrap(), version),
        ];
        let uri = Uri::from_static("/usages?project_id=p");
        RequestHead { method: Method::GET, uri, headers: HeaderMap::from_iter(headers) }
    }

    fn lines(count: usize, bytes_max: u64) -> (Vec<Value>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("differences");
        let records = Records::open(&path, bytes_max).unwrap();
        let (head, upstream, berth) =
            (head(), answered(StatusCode::OK), answered(StatusCode::NOT_FOUND));
        let long = Some(Value::String("x".repeat(5000)));
        let difference =
            Difference { path: vec!["status".to_owned()], left: Some(json!(200)), right: long };
        let differences = vec![difference; DIFFERENCES_MAX + 5];
        for _ in 0..count {
            records.add(&RecordedDifference {
                head: &head,
                body: b"",
                upstream: &upstream,
                berth: &berth,
                outcome: Outcome::Different,
                known: None,
                confirmations: 2,
                differences: &differences,
            });
        }
        assert!(records.end(Duration::from_secs(30)));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("secret") && text.len() as u64 <= bytes_max);
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        (lines.collect(), records.not_written())
    }

    #[test]
    fn a_record_has_all_but_headers() {
        let (lines, not_written) = lines(1, 1 << 20);
        assert_eq!((lines.len(), not_written), (1, 0));
        let record = &lines[0];
        assert_eq!(record["target"], "/usages?project_id=p");
        assert_eq!(record["microversion"], "placement 1.39");
        assert_eq!(
            (&record["upstream_status"], &record["berth_status"]),
            (&json!(200), &json!(404))
        );
        let differences = record["differences"].as_array().unwrap();
        assert_eq!((differences.len(), &record["differences_total"]), (20, &json!(25)));
        assert_eq!(differences[0]["upstream"], 200);
        assert!(differences[0]["berth"].as_str().unwrap().ends_with("x..."));
    }

    #[test]
    fn the_file_has_a_bound() {
        let (lines, not_written) = lines(10, 100_000);
        assert_eq!((lines.len(), not_written), (2, 8));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö...");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
