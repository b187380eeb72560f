//! Searches on several threads.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::model::Model;
use super::super::state::State;
use super::super::{
    Budget, Draws, Outcome, PlacementProblem, Pool, Rule, Solution, ThreadCount, solve,
    solve_within,
};
use super::exhaustive::{exhaustive, found_soon, problems};
use super::{broken, hosts, hosts_of, is_drawn, never, one_way, pools, servers, ways};
use crate::model::Level;

/// Timeout for something that takes a moment.
const PATIENCE: Duration = Duration::from_mins(2);

/// Servers of eight sizes on hosts of many sizes, a third of them apart. No bound is near the best placement, so a
/// search ends only when its time is up.
fn problem() -> PlacementProblem {
    let free = (0..40).map(|nth: u64| (20 + nth * 37 % 29, (nth % 6) as u32));
    let mut hosts = hosts(&free.collect::<Vec<_>>());
    hosts.iter_mut().step_by(2).for_each(|host| host.in_use = true);
    let pools = pools(&hosts);
    let mut all = servers(48, 1, hosts.len());
    let sizes: Vec<_> = (0..8).map(|size| one_way(5 + 3 * size, hosts.len())).collect();
    for (nth, server) in all.iter_mut().enumerate() {
        server.ways = sizes[nth * 5 % sizes.len()].clone();
    }
    let apart =
        |from: usize| Rule::Apart(Level::Host, (from..from + 8).map(|it| vec![it]).collect());
    let rules = vec![apart(0), apart(20), apart(40)];
    PlacementProblem { hosts, pools, servers: all, rules, ..PlacementProblem::default() }
}

/// Servers of three sizes, on hosts with two providers each.
fn nodes(hosts: usize) -> PlacementProblem {
    let pools = (0..2 * hosts).map(|pool| Pool { class: 0, free: 4 + pool as u64 % 7 });
    let sizes = [2, 3, 5].map(|need: u64| {
        let on_host = |host: usize| {
            vec![Draws::from([(2 * host, need)]), Draws::from([(2 * host + 1, need)])]
        };
        Arc::new(ways(&(0..hosts).map(on_host).collect::<Vec<_>>()))
    });
    let mut all = servers(6, 1, hosts);
    for (server, ways) in all.iter_mut().zip(sizes.iter().cycle()) {
        server.ways = Arc::clone(ways);
    }
    let hosts = super::hosts(&vec![(0, 0); hosts]);
    PlacementProblem { hosts, pools: pools.collect(), servers: all, ..PlacementProblem::default() }
}

#[test]
fn they_prepare_a_search_as_one_thread_does() {
    let problem = nodes(1200);
    let prepared = |threads: Option<&ThreadCount<'_>>| {
        let mut is_up = never;
        let mut budget = Budget::new(&mut is_up);
        if let Some(threads) = threads {
            budget = budget.on_threads(threads);
        }
        let model = Model::of(&problem, &mut budget).unwrap();
        let state = State::new(&model, &mut budget);
        assert!(!budget.is_spent());
        (format!("{state:?}"), budget.kept(), budget.worked())
    };
    let alone = prepared(None);
    assert!(alone.0.contains("ChoicesOnHosts"));
    assert!(prepared(Some(&|| 3)) == alone, "the threads prepared something else");
}

/// Returns whether this is a thread that a search has started.
fn is_further() -> bool {
    thread::current().name().is_some_and(|name| name.starts_with("solver-"))
}

fn checked(problem: &PlacementProblem, outcome: Outcome) -> Solution {
    let Outcome::Placed(found) = outcome else { panic!("{outcome:?}") };
    assert_eq!(broken(problem, &hosts_of(&found)), None);
    assert!(is_drawn(problem, &found));
    assert!(found.bound <= found.cost);
    *found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn they_find_the_best_of_all_placements(problem in problems()) {
        let solve = |budget: Budget<'_>| solve_within(&problem, &mut budget.on_threads(&|| 4));
        let outcome = found_soon(solve)?;
        match exhaustive(&problem) {
            None => prop_assert_eq!(outcome, Outcome::Impossible),
            Some(best) => {
                let found = checked(&problem, outcome);
                prop_assert_eq!((&found.cost, &found.bound), (&best, &best));
            }
        }
    }

    #[test]
    fn cut_short_they_say_nothing_wrong(problem in problems(), looks_max in 0_usize..1500) {
        let best = exhaustive(&problem);
        let mut looks = 0;
        let mut is_up = || {
            looks += 1;
            looks > looks_max
        };
        let count = || 3;
        let mut budget = Budget::looking_always(&mut is_up).on_threads(&count);
        match solve_within(&problem, &mut budget) {
            outcome @ Outcome::Placed(_) => {
                let found = checked(&problem, outcome);
                prop_assert!(best.is_some_and(|best| found.bound <= best && best <= found.cost));
            }
            Outcome::Impossible => prop_assert_eq!(best, None),
            Outcome::OutOfTime => prop_assert!(looks > looks_max),
        }
    }
}

/// With one thread, a search that may use several is the same as any other.
#[test]
fn one_thread_needs_no_others() {
    let problem = problem();
    let after = |looks_max: usize| {
        let mut looks = 0;
        move || {
            looks += 1;
            looks > looks_max
        }
    };
    let (mut is_up, count) = (after(300), || 1);
    let found = solve_within(&problem, &mut Budget::new(&mut is_up).on_threads(&count));
    assert_eq!(found, solve(&problem, after(300)));
}

/// Threads end when the search may use fewer, start when it may use more, and all have ended when the search has.
#[test]
fn they_come_and_go_with_their_number() {
    let problem = problem();
    let allowed = AtomicUsize::new(3);
    // Threads that queried their allowed number, and threads that were stopped.
    let (queried, stopped) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    let key = |id: ThreadId| format!("{id:?}");
    let count = || {
        let allowed = allowed.load(Ordering::SeqCst);
        if is_further() {
            let id = key(thread::current().id());
            let list = if allowed == 1 { &stopped } else { &queried };
            list.lock().unwrap().insert(id);
        }
        allowed
    };
    let (mut phase, began) = (0, Instant::now());
    let mut is_up = || {
        let (queried, stopped) = (queried.lock().unwrap().len(), stopped.lock().unwrap().len());
        match phase {
            0 if queried == 2 => allowed.store(1, Ordering::SeqCst),
            1 if stopped == 2 => allowed.store(3, Ordering::SeqCst),
            2 if queried == 4 => return true,
            _ => {
                // The others get time to do so.
                thread::sleep(Duration::from_millis(1));
                return began.elapsed() > PATIENCE;
            }
        }
        phase += 1;
        false
    };
    let outcome = solve_within(&problem, &mut Budget::new(&mut is_up).on_threads(&count));
    checked(&problem, outcome);
    let both = (queried.lock().unwrap().len(), stopped.lock().unwrap().len());
    assert_eq!((phase, both), (2, (4, 2)));
}

#[test]
fn the_panic_of_one_is_that_of_the_search() {
    let problem = problem();
    let count = || {
        assert!(!is_further(), "one has panicked");
        3
    };
    let began = Instant::now();
    let mut is_up = || began.elapsed() > PATIENCE;
    let mut budget = Budget::new(&mut is_up).on_threads(&count);
    let panic = catch_unwind(AssertUnwindSafe(|| solve_within(&problem, &mut budget))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"one has panicked"));
    assert!(began.elapsed() < PATIENCE);
}

/// If the first thread panics, the others end, and the search with them.
#[test]
fn a_panic_of_the_first_thread_ends_the_others() {
    let problem = problem();
    let further = AtomicUsize::new(0);
    let count = || {
        if is_further() {
            further.fetch_add(1, Ordering::SeqCst);
        }
        3
    };
    let mut is_up = || {
        assert!(further.load(Ordering::SeqCst) == 0, "the first has panicked");
        false
    };
    let mut budget = Budget::new(&mut is_up).on_threads(&count);
    let panic = catch_unwind(AssertUnwindSafe(|| solve_within(&problem, &mut budget))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the first has panicked"));
}
