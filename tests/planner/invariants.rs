//! Whatever clients of both APIs do at the same time, at one replica or at two: capacity is never
//! exceeded, nothing is counted twice or held for nobody, groups keep what they ask for, units have
//! no strangers, and every plan is whole and says where its servers are.
//!
//! Chance decides what they do. `STORM_SEED` repeats it, as far as what they meet repeats itself;
//! `STORM_SECONDS` says how long.

#![expect(clippy::print_stdout, reason = "who repeats a run needs its seed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth::http::app::{App, Options};
use berth::store::{Store, StoreOptions};
use sqlx::postgres::PgConnectOptions;

use crate::dice::{Dice, seed};
use crate::site::Site;
use crate::storm::{Client, Storm, calm};
use crate::support::app::Berth;
use crate::support::postgres;
use crate::truth::faults;
use crate::upkeep::Upkeep;

/// Clients of each replica.
const CLIENTS: usize = 6;
const CONNECTIONS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

fn duration() -> Duration {
    let seconds = std::env::var("STORM_SECONDS").ok().and_then(|it| it.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

async fn storm(sites: &[Arc<Site>]) {
    let seed = seed();
    println!("STORM_SEED={seed}");
    let site = &sites[0];
    let storm = Storm::over(site).await;
    let end = Instant::now() + duration();
    let clients: Vec<_> = (0..CLIENTS * sites.len())
        .map(|number| {
            let dice = Dice(seed.wrapping_mul(1000).wrapping_add(u64::try_from(number).unwrap()));
            let site = Arc::clone(&sites[number % sites.len()]);
            let client = Client { site, storm: Arc::clone(&storm), dice, number, made: 0 };
            tokio::spawn(client.run(end))
        })
        .chain(sites.iter().enumerate().map(|(number, site)| {
            let upkeep = Upkeep { site: Arc::clone(site), storm: Arc::clone(&storm), number };
            tokio::spawn(upkeep.run(end))
        }))
        .collect();
    let mut session = site.session().await;
    let mut looks = 0;
    while Instant::now() < end && clients.iter().all(|client| !client.is_finished()) {
        let found = faults(&mut session, || storm.known().clone()).await;
        assert!(found.is_empty(), "{found:#?}");
        looks += 1;
        tokio::time::sleep(PAUSE).await;
    }
    for client in clients {
        client.await.unwrap();
    }
    let known = storm.known().clone();
    site.assert_true(&known).await;
    let counts = storm.counts.lock().unwrap().clone();
    let sum: usize = counts.values().sum();
    let deadlocks: i64 = sqlx::query_scalar(
        "select deadlocks from pg_stat_database where datname = current_database()",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    println!("{sum} answers, {looks} looks, {deadlocks} deadlocks: {counts:?}");
    assert_eq!(deadlocks, 0, "transactions have waited for each other in a circle");
    calm(site).await;
}

/// A database in which every deadlock is counted.
async fn watched() -> PgConnectOptions {
    let database = postgres::database().await;
    Berth::watch_deadlocks(&database).await;
    database
}

/// A replica with more connections than it has clients, each of which may wait for another one.
async fn replica(database: &PgConnectOptions) -> Arc<Site> {
    let store = Store::open(StoreOptions::at(database.clone(), CONNECTIONS)).await.unwrap();
    Arc::new(Site::serving(App::new(store, Options::default()), database).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn at_one_replica() {
    storm(&[replica(&watched().await).await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_two_replicas() {
    let database = watched().await;
    storm(&[replica(&database).await, replica(&database).await]).await;
}
