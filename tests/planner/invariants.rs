//! Under arbitrary concurrent requests to both APIs, at one replica or at two: capacity is never exceeded, nothing is
//! counted twice, no hold is without a placement, groups keep their rules, exclusive units have no strangers, and
//! every plan is complete with the hosts of its servers. The same holds at two replicas that are killed, and
//! whose database is killed, while clients are at work.
//!
//! The requests are random. `STORM_SEED` repeats them, as far as timing allows; `STORM_SECONDS` sets the
//! duration.

#![expect(clippy::print_stdout, reason = "who repeats a run needs its seed")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth::http::app::{App, Options};
use berth::store::{Store, StoreOptions};
use sqlx::PgConnection;
use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinHandle;

use crate::dice::{Dice, seed};
use crate::journal;
use crate::killer::Killer;
use crate::site::Site;
use crate::storm::{Client, Storm, calm};
use crate::support::app::{Berth, slow, store_at};
use crate::support::postgres;
use crate::truth::faults;
use crate::upkeep::Upkeep;

/// Clients of each replica.
const CLIENTS: usize = 6;
const CONNECTIONS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// At least one of this many requested plans must succeed: otherwise the storm tests nothing.
const ASKED_PER_PLAN_MAX: usize = 10;
/// Changes of a stored plan.
const UPDATES: [&str; 5] = ["add", "replace", "migrate", "repeat", "drop a placement"];
/// Changes of allocations.
const CLAIMS: [&str; 6] = [
    "arrive",
    "arrive elsewhere",
    "come as a stranger",
    "begin a migration",
    "go to the target",
    "go back",
];

fn duration() -> Duration {
    let seconds = std::env::var("STORM_SECONDS").ok().and_then(|it| it.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

/// Runs clients at all sites, and checks the database meanwhile. A killer, if given, kills between two checks.
async fn storm(sites: &[Arc<Site>], mut killer: Option<Killer>) {
    let seed = seed();
    println!("STORM_SEED={seed}");
    let site = &sites[0];
    journal::keep(&mut site.session().await).await;
    let storm = Storm::over(site).await;
    let end = Instant::now() + duration();
    let clients = clients(sites, &storm, seed, end);
    if let Some(killer) = &mut killer {
        killer.throws(Dice(seed));
    }
    let mut session = site.session().await;
    let (mut looks, mut deadlocks) = (0, 0);
    while Instant::now() < end && clients.iter().all(|client| !client.is_finished()) {
        look(&mut session, &storm).await;
        looks += 1;
        tokio::time::sleep(PAUSE).await;
        if let Some(killer) = &mut killer
            && killer.is_due()
        {
            // A database that is killed forgets what it has counted.
            deadlocks += count_deadlocks(&mut session).await;
            killer.kill().await;
            session = killer.session().await;
            deadlocks -= count_deadlocks(&mut session).await;
        }
    }
    for client in clients {
        client.await.unwrap();
    }
    look(&mut session, &storm).await;
    let known = storm.known().clone();
    site.assert_true(&known).await;
    let counts = storm.counts.lock().unwrap().clone();
    deadlocks += count_deadlocks(&mut session).await;
    println!("{looks} looks, {deadlocks} deadlocks, {}", summary(&counts));
    println!("{counts:?}");
    if let Some(killer) = &killer {
        println!("killed: {:?}", killer.kills);
    }
    let (made, request) = succeeded(&counts, &["create"]);
    assert!(request <= ASKED_PER_PLAN_MAX * (made + 1), "{made} plans were made of {request}");
    assert_eq!(deadlocks, 0, "transactions have waited for each other in a circle");
    calm(site).await;
}

/// Clients of both APIs, and an operator for each site.
fn clients(
    sites: &[Arc<Site>],
    storm: &Arc<Storm>,
    seed: u64,
    end: Instant,
) -> Vec<JoinHandle<()>> {
    let clients = (0..CLIENTS * sites.len()).map(|number| {
        let dice = Dice(seed.wrapping_mul(1000).wrapping_add(u64::try_from(number).unwrap()));
        let site = Arc::clone(&sites[number % sites.len()]);
        let client = Client { site, storm: Arc::clone(storm), dice, number, made: 0 };
        tokio::spawn(client.run(end))
    });
    let upkeep = sites.iter().enumerate().map(|(number, site)| {
        let upkeep = Upkeep { site: Arc::clone(site), storm: Arc::clone(storm), number };
        tokio::spawn(upkeep.run(end))
    });
    clients.chain(upkeep).collect()
}

/// Fails unless all invariants hold, with the journal of the rows.
async fn look(session: &mut PgConnection, storm: &Storm) {
    let found = faults(session, || storm.known().clone()).await;
    if !found.is_empty() {
        let journal = journal::write(session).await;
        panic!("{found:#?}, and how that came to be is in {journal}");
    }
}

async fn count_deadlocks(session: &mut PgConnection) -> i64 {
    let count = "select deadlocks from pg_stat_database where datname = current_database()";
    sqlx::query_scalar(count).fetch_one(session).await.unwrap()
}

/// Returns the number of successful requests of these kinds, and of all of them.
fn succeeded(counts: &BTreeMap<(&'static str, u16), usize>, kinds: &[&str]) -> (usize, usize) {
    let of_kinds = || counts.iter().filter(|((what, _), _)| kinds.contains(what));
    let done = of_kinds().filter(|((_, status), _)| (200..300).contains(status));
    (done.map(|(_, count)| count).sum(), of_kinds().map(|(_, count)| count).sum())
}

/// Returns the number of responses for each kind of request, and of successful ones.
fn summary(counts: &BTreeMap<(&'static str, u16), usize>) -> String {
    let of = |kinds: &[&str]| {
        let (done, all) = succeeded(counts, kinds);
        format!("{done} of {all}")
    };
    let all: usize = counts.values().sum();
    format!(
        "{all} answers; succeeded: {} plans, {} updates, {} reservations, {} claims",
        of(&["create"]),
        of(&UPDATES),
        of(&["reserve", "reserve for an instance"]),
        of(&CLAIMS)
    )
}

/// A database in which every deadlock is counted.
async fn watched() -> PgConnectOptions {
    let database = postgres::database().await;
    Berth::watch_deadlocks(&database).await;
    database
}

/// A replica with more connections than it has clients, each of which may wait for another one.
async fn replica(database: &PgConnectOptions) -> Arc<Site> {
    let store =
        Store::open(StoreOptions { connections: CONNECTIONS, ..store_at(database) }).await.unwrap();
    Arc::new(Site::serving(App::new(store, Options::default()).with_watch(slow()), database).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn at_one_replica() {
    storm(&[replica(&watched().await).await], None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_two_replicas() {
    let database = watched().await;
    storm(&[replica(&database).await, replica(&database).await], None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_two_replicas_that_are_killed_with_their_database() {
    let killer = Killer::new().await;
    let sites = killer.sites().await;
    storm(&sites, Some(killer)).await;
}
