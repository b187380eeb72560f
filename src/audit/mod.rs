//! The audit log: one line of JSON for each request that may change something, with who sent it, what
//! came of it, and what it has changed.
//!
//! An [`Entry`] is begun with the request and written when everybody is done with it: the request, and
//! the changes that it has begun, which go on even if the client goes away. Lines are of
//! Berth's own form ([`text`]) or events of CADF ([`cadf`]), and wait in a bounded queue ([`writer`]).

mod cadf;
mod text;
mod writer;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use time::OffsetDateTime;

pub use self::text::summary;
use self::writer::Entries;
pub use self::writer::Target;
use crate::auth::policy::Caller;
use crate::observe::printable::escaped_json;
use crate::store::effects::{Effect, Record};

/// How many effects of one request are kept. More are only counted.
const EFFECTS_MAX: usize = 100;

/// How entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Berth's own form.
    Json,
    /// Events of the Cloud Auditing Data Federation (DMTF DSP0262).
    Cadf,
}

/// An audit log. Clones share it.
#[derive(Clone)]
pub struct AuditLog {
    entries: Entries,
    format: Format,
    open: Arc<Open>,
}

/// How many entries are begun and not in the queue yet.
#[derive(Debug, Default)]
struct Open {
    count: Mutex<usize>,
    changed: Condvar,
}

impl AuditLog {
    /// Starts writing to a target.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn start(target: Target, format: Format) -> std::io::Result<Self> {
        let said: fn(u64) -> Vec<u8> = match format {
            Format::Json => |dropped| line(&text::dropped(dropped, OffsetDateTime::now_utc())),
            Format::Cadf => |dropped| line(&cadf::dropped(dropped, OffsetDateTime::now_utc())),
        };
        Ok(Self { entries: Entries::start(target, said)?, format, open: Arc::default() })
    }

    /// Begins the entry of a request.
    pub fn begin(&self, request: Request) -> Arc<Entry> {
        let (log, began) = (self.clone(), OffsetDateTime::now_utc());
        *self.open.count() += 1;
        Arc::new(Entry { log, request, began, found: Mutex::default() })
    }

    /// How many entries wait to be written.
    pub fn waiting(&self) -> usize {
        self.entries.unwritten().0
    }

    /// How many entries would be missing if the process ended now: those that wait, and those that were dropped and
    /// of which no line says so.
    pub fn unwritten(&self) -> u64 {
        let (waiting, dropped) = self.entries.unwritten();
        let open = *self.open.count();
        (waiting + open) as u64 + dropped
    }

    /// Waits until all entries that were begun are written, for so long at the most. Whether they are.
    ///
    /// A request may be answered before everybody is done with its entry.
    pub fn drain(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let left = || until.saturating_duration_since(Instant::now());
        let is_any = |count: &mut usize| *count > 0;
        let waited = self.open.changed.wait_timeout_while(self.open.count(), left(), is_any);
        let is_open = *waited.unwrap_or_else(PoisonError::into_inner).0 > 0;
        self.entries.drain(left()) && !is_open
    }
}

impl Open {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AuditLog").field("format", &self.format).finish_non_exhaustive()
    }
}

impl PartialEq for AuditLog {
    fn eq(&self, other: &Self) -> bool {
        self.entries.is(&other.entries)
    }
}

/// What is known of a request when it comes.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its id.
    pub request_id: String,
    /// The id of the request on whose behalf the client asks, as the client says.
    pub global_request_id: Option<String>,
    /// The address of the client; `unix:` if it came by a Unix socket.
    pub remote: String,
    /// The API that it is for: `placement` or `planner`.
    pub api: &'static str,
    /// The method.
    pub method: String,
    /// The path, as the client wrote it.
    pub path: String,
}

/// What is known of a request when it is answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Who has sent it; `None` if that was not found out.
    pub caller: Option<Arc<Caller>>,
}

/// What has come of a request so far.
#[derive(Debug, Default)]
struct Found {
    answer: Option<Answer>,
    effects: Vec<Effect>,
    /// Effects beyond those that are kept.
    more: usize,
}

/// The entry of a request. It is written when nobody has it any more.
#[derive(Debug)]
pub struct Entry {
    log: AuditLog,
    request: Request,
    began: OffsetDateTime,
    found: Mutex<Found>,
}

impl Entry {
    /// Notes how the request was answered.
    pub fn answer(&self, answer: Answer) {
        self.found().answer = Some(answer);
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record for Entry {
    fn record(&self, effect: Effect) {
        let mut found = self.found();
        if found.effects.len() < EFFECTS_MAX {
            found.effects.push(effect);
        } else {
            found.more += 1;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let found = self.found.get_mut().unwrap_or_else(PoisonError::into_inner);
        let told = Told {
            request: &self.request,
            began: self.began,
            answer: found.answer.as_ref(),
            effects: &found.effects,
            more: found.more,
        };
        let value = match self.log.format {
            Format::Json => text::entry(&told),
            Format::Cadf => cadf::event(&told),
        };
        self.log.entries.push(&line(&value));
        *self.log.open.count() -= 1;
        self.log.open.changed.notify_all();
    }
}

/// All that an entry tells.
struct Told<'e> {
    request: &'e Request,
    began: OffsetDateTime,
    answer: Option<&'e Answer>,
    effects: &'e [Effect],
    more: usize,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    /// The client went away, or the server does not know: what was asked for may have been done.
    Unknown,
}

impl Outcome {
    fn of(answer: Option<&Answer>) -> Self {
        match answer.map(|answer| answer.status) {
            Some(..400) => Self::Success,
            Some(400..500) => Self::Failure,
            Some(_) | None => Self::Unknown,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Unknown => "unknown",
        }
    }
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = escaped_json(&value.to_string()).into_owned().into_bytes();
    line.push(b'\n');
    line
}
