//! The audit log: one line of JSON for each request that may change something, with its caller, its outcome
//! and its changes.
//!
//! An [`Entry`] is created with the request, and written when the last reference to it is dropped: the request
//! and the changes that it started hold one, and those go on even if the client disconnects. Lines have
//! Berth's own form ([`text`]) or are events of CADF ([`cadf`]), and wait in a bounded queue ([`writer`]).

mod cadf;
mod contents;
mod text;
mod writer;

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use time::OffsetDateTime;

use self::contents::EntryContents;
pub use self::contents::{AuditedRequest, AuditedResponse};
use self::writer::Entries;
pub use self::writer::Target;
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
    open: Arc<OpenEntries>,
}

/// Number of entries that are not in the queue yet.
#[derive(Debug, Default)]
struct OpenEntries {
    count: Mutex<usize>,
    changed: Condvar,
}

impl AuditLog {
    /// Starts writing to a target.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn start(target: Target, format: Format) -> std::io::Result<Self> {
        let dropped_line: fn(u64) -> Vec<u8> = match format {
            Format::Json => |dropped| line(&text::dropped(dropped, OffsetDateTime::now_utc())),
            Format::Cadf => |dropped| line(&cadf::dropped(dropped, OffsetDateTime::now_utc())),
        };
        Ok(Self { entries: Entries::start(target, dropped_line)?, format, open: Arc::default() })
    }

    /// Creates the entry of a request.
    pub fn start_entry(&self, request: AuditedRequest) -> Arc<Entry> {
        let (log, began) = (self.clone(), OffsetDateTime::now_utc());
        *self.open.count() += 1;
        Arc::new(Entry { log, request, began, state: Mutex::default() })
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

impl OpenEntries {
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

/// The outcome of a request so far.
#[derive(Debug, Default)]
struct EntryState {
    response: Option<AuditedResponse>,
    effects: Vec<Effect>,
    /// Number of effects beyond those kept.
    omitted: usize,
}

/// The entry of a request. It is written when its last reference is dropped.
#[derive(Debug)]
pub struct Entry {
    log: AuditLog,
    request: AuditedRequest,
    began: OffsetDateTime,
    state: Mutex<EntryState>,
}

impl Entry {
    /// Records the response.
    pub fn record_response(&self, response: AuditedResponse) {
        self.state().response = Some(response);
    }

    fn state(&self) -> MutexGuard<'_, EntryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record for Entry {
    fn record(&self, effect: Effect) {
        let mut state = self.state();
        if state.effects.len() < EFFECTS_MAX {
            state.effects.push(effect);
        } else {
            state.omitted += 1;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let contents = EntryContents {
            request: &self.request,
            began: self.began,
            response: state.response.as_ref(),
            effects: &state.effects,
            omitted: state.omitted,
        };
        let value = match self.log.format {
            Format::Json => text::entry(&contents),
            Format::Cadf => cadf::event(&contents),
        };
        self.log.entries.push(&line(&value));
        *self.log.open.count() -= 1;
        self.log.open.changed.notify_all();
    }
}

fn line(value: &Value) -> Vec<u8> {
    let mut line = escaped_json(&value.to_string()).into_owned().into_bytes();
    line.push(b'\n');
    line
}
