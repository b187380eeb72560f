//! The audit log: one line of JSON for each request that may change something, with its caller, its outcome
//! and its changes.
//!
//! An [`Entry`] is created with the request, and written when the last reference to it is dropped: the request
//! and the changes that it started hold one, and those go on even if the client disconnects. Lines have
//! Berth's own form ([`text`]) or are events of CADF ([`cadf`]), and wait in a bounded queue ([`writer`]).

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

/// Maximum number of effects kept of one request. Further ones are only counted.
const EFFECTS_MAX: usize = 100;

/// The format of entries.
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

/// Number of entries that are not in the queue yet.
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

    /// Creates the entry of a request.
    pub fn begin(&self, request: Request) -> Arc<Entry> {
        let (log, began) = (self.clone(), OffsetDateTime::now_utc());
        *self.open.count() += 1;
        Arc::new(Entry { log, request, began, found: Mutex::default() })
    }

    /// Returns the number of entries waiting to be written.
    pub fn waiting(&self) -> usize {
        self.entries.unwritten().0
    }

    /// Returns the number of entries that would be missing if the process ended now: those that wait, and those
    /// dropped without a line that counts them.
    pub fn unwritten(&self) -> u64 {
        let (waiting, dropped) = self.entries.unwritten();
        let open = *self.open.count();
        (waiting + open) as u64 + dropped
    }

    /// Waits for at most this time until all entries are written. Returns whether they are.
    ///
    /// A response may be sent before its entry is complete.
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

/// Facts about a request that are known when it arrives.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its id.
    pub request_id: String,
    /// The id of the client's own request that this one is part of, as the client states it.
    pub global_request_id: Option<String>,
    /// The address of the client; `unix:` for a Unix socket.
    pub remote: String,
    /// The API of its path: `placement` or `planner`.
    pub api: &'static str,
    /// The HTTP method.
    pub method: String,
    /// The path, as the client wrote it.
    pub path: String,
}

/// Facts about a request that are known when the response is sent.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The caller; `None` if it was not identified.
    pub caller: Option<Arc<Caller>>,
}

/// The outcome of a request so far.
#[derive(Debug, Default)]
struct Found {
    answer: Option<Answer>,
    effects: Vec<Effect>,
    /// Number of effects beyond those kept.
    more: usize,
}

/// The entry of a request. It is written when its last reference is dropped.
#[derive(Debug)]
pub struct Entry {
    log: AuditLog,
    request: Request,
    began: OffsetDateTime,
    found: Mutex<Found>,
}

impl Entry {
    /// Records the response.
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

/// The contents of an entry.
struct Told<'e> {
    request: &'e Request,
    began: OffsetDateTime,
    answer: Option<&'e Answer>,
    effects: &'e [Effect],
    more: usize,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    /// The client disconnected, or the server does not know: the request may have been carried out.
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
