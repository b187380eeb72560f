//! Whatever clients of both APIs do at the same time, at one replica or at two: capacity is never
//! exceeded, nothing is counted twice or held for nobody, groups keep what they ask for, units have
//! no strangers, and every plan is whole and says where its servers are.
//!
//! Chance decides what they do. `STORM_SEED` repeats it, as far as what they meet repeats itself;
//! `STORM_SECONDS` says how long.

#![expect(clippy::print_stdout, reason = "who repeats a run needs its seed")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth::http::app::Options;

use crate::dice::{Dice, seed};
use crate::site::Site;
use crate::storm::{Client, Storm, calm};
use crate::truth::faults;

/// Clients of each replica.
const CLIENTS: usize = 6;
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
    println!("{sum} answers, {looks} looks: {counts:?}");
    calm(site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_one_replica() {
    storm(&[Arc::new(Site::new().await)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_two_replicas() {
    let one = Site::new().await;
    let two = Site::over(&one.database, Options::default()).await;
    storm(&[Arc::new(one), Arc::new(two)]).await;
}
