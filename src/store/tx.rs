//! A write transaction, with what it has changed so far.

use std::collections::BTreeSet;

use sqlx::PgConnection;

use super::effects::{Effect, Recorder};
use super::events::event::NotedChanges;
use super::log_entry::LogEntry;
use super::options::StoreOptions;
use super::world_delta::CATALOGUE;
use crate::model::{ConsumerId, ProviderId};
use crate::observe::spans::Spans;

/// A write transaction, and the providers and names that it has changed so far.
#[derive(Debug)]
pub struct Tx<'c> {
    pub(super) conn: &'c mut PgConnection,
    /// Allows claims in units that other groups have exclusively, and reports them.
    pub(super) report_only: bool,
    /// The recorder of effects.
    pub(super) recorder: Recorder,
    /// Whether the history of changes is on.
    pub(super) has_history: bool,
    /// Effects to record after the commit, each with its recorder.
    pub(super) effects: Vec<(Recorder, Effect)>,
    /// Changes for the log of events; `None`: it is off.
    pub(super) noted: Option<NotedChanges>,
    /// The spans of the requests behind it.
    pub(super) spans: Spans,
    /// Keys for the change log: of providers, [`CATALOGUE`], and negative ones of holds.
    pub(super) touched: BTreeSet<i64>,
    /// Entries for the change log.
    pub(super) logged: Vec<LogEntry>,
}

/// The observers of a transaction.
#[derive(Debug)]
pub(super) struct Observers {
    /// The recorder of effects.
    pub(super) recorder: Recorder,
    /// Whether the history of changes is on.
    pub(super) has_history: bool,
    /// Whether the log of events is on.
    pub(super) has_events: bool,
    /// The spans of the requests behind it.
    pub(super) spans: Spans,
}

impl Observers {
    /// Makes the observers that the options of a store demand.
    pub(super) fn new(options: &StoreOptions, recorder: Recorder, spans: Spans) -> Self {
        let has_history = options.history_days.is_some();
        Self { recorder, has_history, has_events: options.events_hours.is_some(), spans }
    }
}

impl<'c> Tx<'c> {
    /// Makes a transaction for reads that changes use as well.
    pub(super) fn reading(conn: &'c mut PgConnection, report_only: bool) -> Self {
        Tx {
            conn,
            report_only,
            recorder: Recorder::none(),
            has_history: false,
            effects: Vec::new(),
            noted: None,
            spans: Spans::current(),
            touched: BTreeSet::new(),
            logged: Vec::new(),
        }
    }
}

impl Tx<'_> {
    /// Marks a provider as visibly changed.
    pub(super) fn touch(&mut self, provider: ProviderId) {
        self.touched.insert(provider.0);
        if let Some(noted) = &mut self.noted {
            noted.providers.insert(provider.0);
        }
    }

    /// Marks a consumer as changed that is the hold of a plan, or may be.
    pub(super) fn touch_hold(&mut self, consumer: ConsumerId) {
        self.touched.insert(-consumer.0);
    }

    /// Marks the names of classes or traits as changed.
    pub(super) fn touch_catalogue(&mut self) {
        self.touched.insert(CATALOGUE);
    }
}
