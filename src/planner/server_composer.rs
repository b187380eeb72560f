//! Composes the servers of the solver's problem: the allowed hosts of each, and the ways in which it fits there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::failure::{Failure, in_time};
use super::flavor::Size;
use super::host_filter::{Demands, HostFilter};
use super::stack::{HostNames, Stack};
use crate::solver::{self, AllowedHosts, Budget, Draws, Ways};

/// Composes servers: the allowed hosts of each, and the ways in which it fits there. Equal servers share the data.
pub(super) struct ServerComposer<'s, 'w> {
    stack: &'s Stack,
    current_hosts: &'w [Option<usize>],
    kept: &'w [Option<Draws>],
    ways: &'w HashMap<&'s Size, Arc<Ways>>,
    filter: &'s HostFilter<'s>,
    staying: HashMap<usize, Arc<Ways>>,
    known: HashMap<ServerKey<'s>, solver::Server>,
}

/// The properties that servers with the same data have in common. Of a server that may be treated differently on its
/// current host, that host, and its draws if it keeps its allocations there.
type ServerKey<'s> = (&'s Size, Demands<'s>, Option<(usize, Option<Draws>)>);

impl<'s, 'w> ServerComposer<'s, 'w> {
    /// Creates the composer of a stack; `kept` has the draws of servers that keep their allocations if they stay, and
    /// `ways` those of each size.
    pub(super) fn new(
        stack: &'s Stack,
        (current_hosts, kept): (&'w [Option<usize>], &'w [Option<Draws>]),
        ways: &'w HashMap<&'s Size, Arc<Ways>>,
        filter: &'s HostFilter<'s>,
    ) -> Self {
        let (staying, known) = (HashMap::new(), HashMap::new());
        Self { stack, current_hosts, kept, ways, filter, staying, known }
    }

    /// All servers of the stack.
    pub(super) fn all(&mut self, budget: &mut Budget<'_>) -> Result<Vec<solver::Server>, Failure> {
        let mut composed = Vec::with_capacity(self.stack.servers.len());
        for (nth, (server, current_host)) in
            self.stack.servers.iter().zip(self.current_hosts).enumerate()
        {
            budget.is_spent_after(32);
            in_time(budget)?;
            composed.push(match current_host.filter(|_| server.is_fixed()) {
                Some(home) => self.staying(home),
                None => self.movable(nth, &server.locations, *current_host, budget)?,
            });
        }
        Ok(composed)
    }

    /// A server that has to stay on its host.
    fn staying(&mut self, home: usize) -> solver::Server {
        let ways = self.staying.entry(home).or_insert_with(|| Arc::new(Ways::staying_on(home)));
        solver::Server {
            ways: Arc::clone(ways),
            allowed_hosts: AllowedHosts::Only(home),
            current_host: Some(home),
            ..solver::Server::default()
        }
    }

    /// A server as it would be if it did not have to stay on its host. One that is fixed is composed like a new one, so
    /// that equal ones share the data wherever they are.
    pub(super) fn if_free(
        &mut self,
        nth: usize,
        budget: &mut Budget<'_>,
    ) -> Result<solver::Server, Failure> {
        let missing = || Failure::bug(format!("server {nth} is not in the stack"));
        let server = self.stack.servers.get(nth).ok_or_else(missing)?;
        let locations = server.locations_if_free.as_ref().unwrap_or(&server.locations);
        let home = self.current_hosts.get(nth).copied().flatten();
        self.movable(nth, locations, home.filter(|_| !server.is_fixed()), budget)
    }

    /// A server that may move to the hosts in these lists.
    fn movable(
        &mut self,
        nth: usize,
        locations: &'s [HostNames],
        current_host: Option<usize>,
        budget: &mut Budget<'_>,
    ) -> Result<solver::Server, Failure> {
        let missing = || Failure::bug(format!("server {nth} has no size"));
        let server = self.stack.servers.get(nth).ok_or_else(missing)?;
        let kept = self.kept.get(nth).and_then(Option::as_ref);
        let may_differ = |home: &usize| kept.is_some() || self.filter.tells_homes_apart(*home);
        let home = current_host.filter(may_differ).map(|home| (home, kept.cloned()));
        let key = (&server.size, self.filter.demands(nth, locations), home.clone());
        let entry = match self.known.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let ways = self.ways.get(&server.size).ok_or_else(missing)?;
                let ways = match home {
                    Some((home, Some(draws))) => Arc::new(ways.or_staying_on(home, draws)),
                    Some((_, None)) | None => Arc::clone(ways),
                };
                let demands = self.filter.demands_of_hosts(nth, locations);
                let allowed_hosts = self.filter.open_to(&demands, &ways, current_host, budget);
                entry.insert(solver::Server { ways, allowed_hosts, ..solver::Server::default() })
            }
        };
        let is_counted_at_home = kept == Some(&Draws::NONE);
        Ok(solver::Server { current_host, is_counted_at_home, ..entry.clone() })
    }
}
