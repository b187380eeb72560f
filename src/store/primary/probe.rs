//! Probes all hosts of the database URL to find the primary.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep, timeout};

use super::identity::{Identity, identify};
use super::state::Inner;
use crate::store::error::{Error, Result};
use crate::store::recording;
use crate::store::sessions::session;

/// Interval of probes.
const EVERY: Duration = Duration::from_secs(1);
/// Minimum pause between two probes.
const PAUSE: Duration = Duration::from_millis(100);
/// Timeout for one host.
const PROBE_MAX: Duration = Duration::from_secs(1);
/// Timeout for one host when a command finds no primary within [`PROBE_MAX`].
const FIND_MAX: Duration = Duration::from_secs(8);
/// Timeout for a host that did not respond to the previous probe, if there are other hosts: one of them may be
/// promoted, and a probe that waits for a silent host notices that late.
const PROBE_SILENT_MAX: Duration = Duration::from_millis(300);
/// A silent host gets the full timeout in one of this many probes.
const FULL_PROBE_EVERY: u32 = 6;
/// Time after which the connections of a silent primary are given up. Shorter than the time after which
/// PostgreSQL gives up the session of a client that is gone.
const SILENT_MAX: Duration = Duration::from_secs(30);

/// The state of a host in a probe.
#[derive(Debug)]
enum HostState {
    /// This primary.
    Primary(Identity),
    /// A standby.
    Standby,
    /// The host refuses connections, for this reason: it is starting, stopping, or has too many clients.
    Refused(String),
    /// The host did not respond, for this reason.
    Silent(String),
}

/// Finds the host that is the primary, for a command: hosts that do not respond within a second get more time if no
/// other one is the primary.
///
/// # Errors
/// None of them is; the error has the result of each.
pub async fn find(hosts: &[PgConnectOptions]) -> Result<PgConnectOptions> {
    let mut states = Vec::new();
    for patience in [PROBE_MAX, FIND_MAX] {
        states = states_of(hosts.iter().map(|host| probe_host(host, patience)), None).await;
        if let Some(primary) = best(&states, None).and_then(|(host, _)| hosts.get(host)) {
            return Ok(primary.clone());
        }
        if !states.iter().any(|state| matches!(state, HostState::Silent(_))) {
            break;
        }
    }
    Err(no_primary(hosts, &states))
}

/// Probes all hosts, and begins a term if another one is the primary now.
pub(super) async fn probe(inner: &Arc<Inner>, missed_probes: &mut MissedProbes) -> Result<()> {
    let known = inner.state.borrow().newest;
    let states = probe_all(&inner.options.hosts, known, missed_probes).await;
    let (newest, term) = {
        let state = inner.state.borrow();
        (state.newest, state.term.clone())
    };
    let present = term.as_ref().map(|term| (term.host, term.identity));
    let Some((host, found)) = best(&states, present.or(newest.map(|it| (usize::MAX, it)))) else {
        if let Some(term) = term {
            match states.get(term.host) {
                Some(HostState::Standby) => inner.lose(&term, "it is a standby now"),
                Some(HostState::Refused(_)) => term.note_response(),
                Some(HostState::Primary(_) | HostState::Silent(_)) | None => {}
            }
            if term.since_response() >= SILENT_MAX {
                inner.lose(&term, &format!("no response for {SILENT_MAX:?}"));
            }
        }
        return Err(no_primary(&inner.options.hosts, &states));
    };
    // A primary of another cluster than before means that all hosts lead there, or nowhere.
    let alone = newest.is_some_and(|newest| newest.system != found.system);
    inner.admit(found, host, alone).map(|term| term.note_response())
}

/// Returns the primary to follow: of the known cluster if it has one, with the newest timeline, and on the
/// same host as before if there are several ways to it.
fn best(states: &[HostState], known: Option<(usize, Identity)>) -> Option<(usize, Identity)> {
    let primaries = states.iter().enumerate().filter_map(|(host, state)| match state {
        HostState::Primary(identity) => Some((host, *identity)),
        HostState::Standby | HostState::Refused(_) | HostState::Silent(_) => None,
    });
    primaries.max_by_key(|(host, identity)| {
        let is_known = known.is_some_and(|(_, known)| known.system == identity.system);
        let is_same = known.is_some_and(|(known, _)| known == *host);
        (is_known, identity.timeline, is_same, std::cmp::Reverse(*host))
    })
}

/// Number of successive probes that each host has missed.
#[derive(Debug, Default)]
pub(super) struct MissedProbes(Vec<u32>);

impl MissedProbes {
    /// Returns the timeout for a host, given the number of hosts.
    fn patience(&self, host: usize, hosts: usize) -> Duration {
        let missed = self.0.get(host).copied().unwrap_or(0);
        if hosts > 1 && !missed.is_multiple_of(FULL_PROBE_EVERY) {
            PROBE_SILENT_MAX
        } else {
            PROBE_MAX
        }
    }

    fn note(&mut self, states: &[HostState]) {
        self.0.resize(states.len(), 0);
        for (missed, state) in self.0.iter_mut().zip(states) {
            *missed = if matches!(state, HostState::Silent(_)) { *missed + 1 } else { 0 };
        }
    }
}

async fn probe_all(
    hosts: &[PgConnectOptions],
    newest: Option<Identity>,
    missed_probes: &mut MissedProbes,
) -> Vec<HostState> {
    let probes = hosts.iter().enumerate().map(|(number, host)| {
        let patience = missed_probes.patience(number, hosts.len());
        probe_host(host, patience)
    });
    let states = states_of(probes, newest).await;
    missed_probes.note(&states);
    states
}

/// Returns the states of all hosts. A host that was promoted after the newest known primary is accepted without
/// waiting for the others: the old primary may be silent, and all requests wait.
async fn states_of<F: Future<Output = HostState>>(
    hosts: impl Iterator<Item = F>,
    newest: Option<Identity>,
) -> Vec<HostState> {
    let follows = |found: &Identity| {
        newest.is_some_and(|it| it.system == found.system && it.timeline < found.timeline)
    };
    let numbered = hosts.enumerate().map(|(host, state)| async move { (host, state.await) });
    let mut probes: FuturesUnordered<_> = numbered.collect();
    let unheard = || HostState::Silent("its response was not awaited".to_owned());
    let mut all: Vec<_> = std::iter::repeat_with(unheard).take(probes.len()).collect();
    while let Some((host, state)) = probes.next().await {
        let is_promoted = matches!(&state, HostState::Primary(found) if follows(found));
        if let Some(place) = all.get_mut(host) {
            *place = state;
        }
        if is_promoted {
            break;
        }
    }
    all
}

/// Probes one host over a new connection.
async fn probe_host(host: &PgConnectOptions, patience: Duration) -> HostState {
    let state = timeout(patience, async {
        let mut conn = match PgConnection::connect_with(&session(host.clone())).await {
            Ok(conn) => conn,
            Err(sqlx::Error::Database(error)) => return Ok(HostState::Refused(error.to_string())),
            Err(error) => return Ok(HostState::Silent(error.to_string())),
        };
        let identity = identify(&mut conn).await?;
        drop(conn.close().await);
        Ok::<_, Error>(identity.map_or(HostState::Standby, HostState::Primary))
    });
    match state.await {
        Ok(Ok(state)) => state,
        Ok(Err(error)) => HostState::Silent(error.to_string()),
        Err(_) => HostState::Silent(format!("no response within {patience:?}")),
    }
}

fn no_primary(hosts: &[PgConnectOptions], states: &[HostState]) -> Error {
    let each = hosts.iter().zip(states).map(|(host, state)| {
        let state = match state {
            HostState::Primary(identity) => identity.to_string(),
            HostState::Standby => "it is a standby".to_owned(),
            HostState::Refused(why) | HostState::Silent(why) => why.clone(),
        };
        format!("{}:{}: {state}", host.get_host(), host.get_port())
    });
    Error::Unavailable(each.collect::<Vec<_>>().join("; "))
}

/// Probes every second, and on request, for as long as the store lives.
pub(super) async fn watch(inner: Weak<Inner>) {
    let mut began = Instant::now();
    let mut missed_probes = MissedProbes::default();
    loop {
        let Some(inner) = inner.upgrade() else { return };
        // The time that a silent host has taken counts.
        let pause = EVERY.saturating_sub(began.elapsed());
        drop(timeout(pause, inner.probe_now.notified()).await);
        began = Instant::now();
        if let Err(error) = probe(&inner, &mut missed_probes).await {
            recording::failed_probe();
            tracing::debug!(%error, "no primary was found");
        }
        inner.probes.send_modify(|missed| *missed += 1);
        drop(inner);
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, pending, ready};

    use futures_util::future::Either;

    use super::{
        FULL_PROBE_EVERY, HostState, Identity, MissedProbes, PROBE_MAX, PROBE_SILENT_MAX, best,
        states_of,
    };

    fn primary(system: i64, timeline: u32) -> HostState {
        HostState::Primary(Identity { system, timeline, is_read_only: false })
    }

    fn nothing() -> HostState {
        HostState::Silent(String::new())
    }

    fn host(states: &[HostState], known: Option<(usize, Identity)>) -> Option<usize> {
        best(states, known).map(|(host, _)| host)
    }

    #[test]
    fn the_newest_timeline_of_the_known_cluster_is_followed() {
        let known = Some((0, Identity { system: 1, timeline: 3, is_read_only: false }));
        assert_eq!(host(&[primary(1, 3), primary(1, 4)], known), Some(1));
        assert_eq!(host(&[primary(1, 3), HostState::Standby, nothing()], known), Some(0));
        assert_eq!(host(&[primary(2, 9), primary(1, 3)], known), Some(1));
        assert_eq!(host(&[primary(2, 9), nothing()], known), Some(0));
        assert_eq!(host(&[HostState::Standby, nothing()], known), None);
    }

    #[test]
    fn of_several_ways_to_one_server_the_present_one_is_kept() {
        let identity = Identity { system: 1, timeline: 3, is_read_only: false };
        let states = [primary(1, 3), primary(1, 3)];
        assert_eq!(host(&states, Some((1, identity))), Some(1));
        assert_eq!(host(&states, None), Some(0));
    }

    /// A frozen primary does not respond within any timeout.
    #[tokio::test]
    async fn a_promoted_host_is_followed_while_another_one_is_silent() {
        let newest = Identity { system: 1, timeline: 3, is_read_only: false };
        let silent = || Either::Left(pending::<HostState>());
        let says =
            |state: HostState| -> Either<_, Ready<HostState>> { Either::Right(ready(state)) };
        let hosts = [silent(), says(HostState::Standby), says(primary(1, 4))];
        let states = states_of(hosts.into_iter(), Some(newest)).await;
        assert_eq!(host(&states, Some((0, newest))), Some(2));
        // The responses of all others are awaited.
        let hosts = [says(primary(2, 9)), says(HostState::Standby), says(primary(1, 3))];
        let states = states_of(hosts.into_iter(), Some(newest)).await;
        assert_eq!(host(&states, Some((0, newest))), Some(2));
    }

    #[test]
    fn a_silent_host_is_waited_for_less_but_not_always() {
        let mut missed_probes = MissedProbes::default();
        let patience =
            |missed_probes: &MissedProbes| [0, 1].map(|host| missed_probes.patience(host, 2));
        assert_eq!(patience(&missed_probes), [PROBE_MAX; 2]);
        for _ in 1..FULL_PROBE_EVERY {
            missed_probes.note(&[HostState::Standby, nothing()]);
            assert_eq!(patience(&missed_probes), [PROBE_MAX, PROBE_SILENT_MAX]);
            assert_eq!(missed_probes.patience(1, 1), PROBE_MAX, "there is nobody else");
        }
        missed_probes.note(&[HostState::Standby, nothing()]);
        assert_eq!(patience(&missed_probes), [PROBE_MAX; 2]);
        missed_probes.note(&[HostState::Standby, nothing()]);
        missed_probes.note(&[HostState::Standby, primary(1, 3)]);
        assert_eq!(patience(&missed_probes), [PROBE_MAX; 2]);
    }
}
