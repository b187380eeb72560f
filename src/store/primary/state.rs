//! The known state of the primary.

use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;
use tokio::sync::{Notify, watch};

use super::identity::Identity;
use super::lease;
use super::term::Term;
use crate::store::error::{Error, Result};
use crate::store::options::StoreOptions;

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) options: StoreOptions,
    pub(super) state: watch::Sender<PrimaryState>,
    /// Requests an immediate probe of all hosts.
    pub(super) probe_now: Notify,
    /// Number of finished probes.
    pub(super) probes: watch::Sender<u64>,
}

/// The known state of the primary.
#[derive(Debug, Default)]
pub(super) struct PrimaryState {
    /// The newest primary so far.
    pub(super) newest: Option<Identity>,
    /// The present term.
    pub(super) term: Option<Arc<Term>>,
}

impl Inner {
    pub(super) fn new(options: StoreOptions) -> Self {
        let (state, probes) = (watch::Sender::new(PrimaryState::default()), watch::Sender::new(0));
        Self { options, state, probe_now: Notify::new(), probes }
    }

    /// Makes a server the primary and ends the term of the previous one, unless the server is known not to be
    /// the primary.
    ///
    /// # Errors
    /// It has been deposed, or is of another cluster while the known primary can still be reached.
    pub(super) fn admit(&self, found: Identity, host: usize, alone: bool) -> Result<Arc<Term>> {
        let mut admitted = Ok(());
        self.state.send_if_modified(|state| {
            let is_present = |it: &Arc<Term>| it.identity == found && it.host == host;
            if state.term.as_ref().is_some_and(is_present) {
                return false;
            }
            admitted = state.newest.map_or(Ok(()), |newest| found.may_follow(newest, alone));
            let options = self.options.hosts.get(host).filter(|_| admitted.is_ok());
            options.is_some_and(|options| {
                self.begin(state, found, host, options);
                true
            })
        });
        admitted?;
        let term = self.state.borrow().term.clone();
        term.ok_or_else(|| Error::bug(format!("{found} has not become the primary")))
    }

    pub(super) fn begin(
        &self,
        state: &mut PrimaryState,
        found: Identity,
        host: usize,
        options: &PgConnectOptions,
    ) {
        let server = format!("{}:{}", options.get_host(), options.get_port());
        if let Some(newest) = state.newest.replace(found) {
            tracing::warn!(%server, "the primary is {found}; before, it was {newest}");
        } else {
            tracing::info!(%server, "the primary is {found}");
        }
        let term = Arc::new(Term::begin(found, host, options.clone(), &self.options));
        if let Some(lease) = self.options.lease {
            tokio::spawn(lease::keep(Arc::clone(&term), lease));
        }
        if let Some(before) = state.term.replace(term) {
            before.end();
        }
    }

    /// Ends the term, if it is still this one.
    pub(super) fn lose(&self, lost: &Arc<Term>, why: &str) {
        self.state.send_if_modified(|state| {
            let is_lost = state.term.as_ref().is_some_and(|term| Arc::ptr_eq(term, lost));
            if is_lost {
                tracing::warn!("{} is no longer the primary: {why}", lost.identity);
                state.term = None;
                lost.end();
            }
            is_lost
        });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Tasks end with the store.
        if let Some(term) = &self.state.borrow().term {
            term.finish();
        }
    }
}
