//! Looking at all hosts, to find out which of them is the primary.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep, timeout};

use super::Inner;
use super::identity::{Identity, identify};
use crate::store::error::{Error, Result};
use crate::store::session;

/// How often all hosts are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// How long a pause there is between two looks at least.
const PAUSE: Duration = Duration::from_millis(100);
/// How long one host has to say what it is.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// The same for a host that said nothing in the look before, if there are others: one of those may
/// be promoted, and a look that waits for a silent host is late to see that.
const LOOK_SILENT: Duration = Duration::from_millis(300);
/// Of so many looks at a silent host one gives it the whole time.
const LOOKS_SILENT: u32 = 6;
/// How long the primary may be silent before its connections are given up. Shorter than the time
/// after which PostgreSQL gives up the session of a client that is gone.
const SILENT_MAX: Duration = Duration::from_secs(30);

/// What a host says.
#[derive(Debug)]
enum Said {
    /// It is this primary.
    Primary(Identity),
    /// It is a standby.
    Standby,
    /// It lets nobody in, for this reason: it starts, stops, or has too many clients.
    Refused(String),
    /// Nothing, as far as is known for this reason.
    Nothing(String),
}

/// The host that is the primary, of several.
///
/// # Errors
/// None of them is; what each of them says.
pub async fn find(hosts: &[PgConnectOptions]) -> Result<PgConnectOptions> {
    let said = ask_all(hosts, None, &mut Silence::default()).await;
    let best = best(&said, None).and_then(|(host, _)| hosts.get(host));
    best.cloned().ok_or_else(|| nobody(hosts, &said))
}

/// Looks at all hosts, and begins a term if another one is the primary now.
pub(super) async fn look(inner: &Arc<Inner>, silence: &mut Silence) -> Result<()> {
    let known = inner.state.borrow().newest;
    let said = ask_all(&inner.hosts, known, silence).await;
    let (newest, term) = {
        let state = inner.state.borrow();
        (state.newest, state.term.clone())
    };
    let present = term.as_ref().map(|term| (term.host, term.identity));
    let Some((host, found)) = best(&said, present.or(newest.map(|it| (usize::MAX, it)))) else {
        if let Some(term) = term {
            match said.get(term.host) {
                Some(Said::Standby) => inner.lose(&term, "it is a standby now"),
                Some(Said::Refused(_)) => term.hear(),
                Some(Said::Primary(_) | Said::Nothing(_)) | None => {}
            }
            if term.silence() >= SILENT_MAX {
                inner.lose(&term, &format!("no answer for {SILENT_MAX:?}"));
            }
        }
        return Err(nobody(&inner.hosts, &said));
    };
    // Of another cluster than the one before: all hosts lead there, or nowhere.
    let alone = newest.is_some_and(|newest| newest.system != found.system);
    inner.admit(found, host, alone).map(|term| term.hear())
}

/// The primary to be followed: of the known cluster if it has one, with the newest timeline, and on
/// the host where it was before if there are several ways to it.
fn best(said: &[Said], known: Option<(usize, Identity)>) -> Option<(usize, Identity)> {
    let primaries = said.iter().enumerate().filter_map(|(host, said)| match said {
        Said::Primary(identity) => Some((host, *identity)),
        Said::Standby | Said::Refused(_) | Said::Nothing(_) => None,
    });
    primaries.max_by_key(|(host, identity)| {
        let is_known = known.is_some_and(|(_, known)| known.system == identity.system);
        let is_same = known.is_some_and(|(known, _)| known == *host);
        (is_known, identity.timeline, is_same, std::cmp::Reverse(*host))
    })
}

/// In how many looks in a row each host has said nothing.
#[derive(Debug, Default)]
pub(super) struct Silence(Vec<u32>);

impl Silence {
    /// How long a host has to say what it is, of so many hosts.
    fn patience(&self, host: usize, hosts: usize) -> Duration {
        let looks = self.0.get(host).copied().unwrap_or(0);
        if hosts > 1 && !looks.is_multiple_of(LOOKS_SILENT) { LOOK_SILENT } else { LOOK_MAX }
    }

    fn note(&mut self, said: &[Said]) {
        self.0.resize(said.len(), 0);
        for (looks, said) in self.0.iter_mut().zip(said) {
            *looks = if matches!(said, Said::Nothing(_)) { *looks + 1 } else { 0 };
        }
    }
}

async fn ask_all(
    hosts: &[PgConnectOptions],
    newest: Option<Identity>,
    silence: &mut Silence,
) -> Vec<Said> {
    let asked = hosts.iter().enumerate().map(|(number, host)| {
        let patience = silence.patience(number, hosts.len());
        ask(host, patience)
    });
    let said = hear(asked, newest).await;
    silence.note(&said);
    said
}

/// What all hosts say. Who has been promoted since the newest known primary is believed without
/// waiting for the others: that one may be silent, and all requests wait.
async fn hear<F: Future<Output = Said>>(
    hosts: impl Iterator<Item = F>,
    newest: Option<Identity>,
) -> Vec<Said> {
    let follows = |found: &Identity| {
        newest.is_some_and(|it| it.system == found.system && it.timeline < found.timeline)
    };
    let numbered = hosts.enumerate().map(|(host, said)| async move { (host, said.await) });
    let mut asked: FuturesUnordered<_> = numbered.collect();
    let unheard = || Said::Nothing("its answer was not waited for".to_owned());
    let mut all: Vec<_> = std::iter::repeat_with(unheard).take(asked.len()).collect();
    while let Some((host, said)) = asked.next().await {
        let is_promoted = matches!(&said, Said::Primary(found) if follows(found));
        if let Some(place) = all.get_mut(host) {
            *place = said;
        }
        if is_promoted {
            break;
        }
    }
    all
}

/// Asks one host, over a new connection.
async fn ask(host: &PgConnectOptions, patience: Duration) -> Said {
    let said = timeout(patience, async {
        let mut conn = match PgConnection::connect_with(&session(host.clone())).await {
            Ok(conn) => conn,
            Err(sqlx::Error::Database(error)) => return Ok(Said::Refused(error.to_string())),
            Err(error) => return Ok(Said::Nothing(error.to_string())),
        };
        let identity = identify(&mut conn).await?;
        drop(conn.close().await);
        Ok::<_, Error>(identity.map_or(Said::Standby, Said::Primary))
    });
    match said.await {
        Ok(Ok(said)) => said,
        Ok(Err(error)) => Said::Nothing(error.to_string()),
        Err(_) => Said::Nothing(format!("no answer within {patience:?}")),
    }
}

fn nobody(hosts: &[PgConnectOptions], said: &[Said]) -> Error {
    let each = hosts.iter().zip(said).map(|(host, said)| {
        let said = match said {
            Said::Primary(identity) => identity.to_string(),
            Said::Standby => "it is a standby".to_owned(),
            Said::Refused(why) | Said::Nothing(why) => why.clone(),
        };
        format!("{}:{}: {said}", host.get_host(), host.get_port())
    });
    Error::Unavailable(each.collect::<Vec<_>>().join("; "))
}

/// Looks every second, and when asked to, for as long as the store lives.
pub(super) async fn watch(inner: Weak<Inner>) {
    let mut began = Instant::now();
    let mut silence = Silence::default();
    loop {
        let Some(inner) = inner.upgrade() else { return };
        // A silent host has taken its time already.
        let pause = EVERY.saturating_sub(began.elapsed());
        drop(timeout(pause, inner.look.notified()).await);
        began = Instant::now();
        if let Err(error) = look(&inner, &mut silence).await {
            tracing::debug!(%error, "no primary was found");
        }
        inner.looks.send_modify(|looks| *looks += 1);
        drop(inner);
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, pending, ready};

    use futures_util::future::Either;

    use super::{Identity, LOOK_MAX, LOOK_SILENT, LOOKS_SILENT, Said, Silence, best, hear};

    fn primary(system: i64, timeline: u32) -> Said {
        Said::Primary(Identity { system, timeline })
    }

    fn nothing() -> Said {
        Said::Nothing(String::new())
    }

    fn host(said: &[Said], known: Option<(usize, Identity)>) -> Option<usize> {
        best(said, known).map(|(host, _)| host)
    }

    #[test]
    fn the_newest_timeline_of_the_known_cluster_is_followed() {
        let known = Some((0, Identity { system: 1, timeline: 3 }));
        assert_eq!(host(&[primary(1, 3), primary(1, 4)], known), Some(1));
        assert_eq!(host(&[primary(1, 3), Said::Standby, nothing()], known), Some(0));
        assert_eq!(host(&[primary(2, 9), primary(1, 3)], known), Some(1));
        assert_eq!(host(&[primary(2, 9), nothing()], known), Some(0));
        assert_eq!(host(&[Said::Standby, nothing()], known), None);
    }

    #[test]
    fn of_several_ways_to_one_server_the_present_one_is_kept() {
        let identity = Identity { system: 1, timeline: 3 };
        let said = [primary(1, 3), primary(1, 3)];
        assert_eq!(host(&said, Some((1, identity))), Some(1));
        assert_eq!(host(&said, None), Some(0));
    }

    /// A frozen primary says nothing for as long as it is waited for.
    #[tokio::test]
    async fn a_promoted_host_is_followed_while_another_one_is_silent() {
        let newest = Identity { system: 1, timeline: 3 };
        let silent = || Either::Left(pending::<Said>());
        let says = |said: Said| -> Either<_, Ready<Said>> { Either::Right(ready(said)) };
        let hosts = [silent(), says(Said::Standby), says(primary(1, 4))];
        let said = hear(hosts.into_iter(), Some(newest)).await;
        assert_eq!(host(&said, Some((0, newest))), Some(2));
        // The others are heard to the end.
        let hosts = [says(primary(2, 9)), says(Said::Standby), says(primary(1, 3))];
        let said = hear(hosts.into_iter(), Some(newest)).await;
        assert_eq!(host(&said, Some((0, newest))), Some(2));
    }

    #[test]
    fn a_silent_host_is_waited_for_less_but_not_always() {
        let mut silence = Silence::default();
        let patience = |silence: &Silence| [0, 1].map(|host| silence.patience(host, 2));
        assert_eq!(patience(&silence), [LOOK_MAX; 2]);
        for _ in 1..LOOKS_SILENT {
            silence.note(&[Said::Standby, nothing()]);
            assert_eq!(patience(&silence), [LOOK_MAX, LOOK_SILENT]);
            assert_eq!(silence.patience(1, 1), LOOK_MAX, "there is nobody else");
        }
        silence.note(&[Said::Standby, nothing()]);
        assert_eq!(patience(&silence), [LOOK_MAX; 2]);
        silence.note(&[Said::Standby, nothing()]);
        silence.note(&[Said::Standby, primary(1, 3)]);
        assert_eq!(patience(&silence), [LOOK_MAX; 2]);
    }
}
