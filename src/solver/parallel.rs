//! Runs work on several items, on as many threads as a search may use.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use super::budget::{Budget, Share};
use crate::observe::request_context::RequestScope;

/// Interval of the time checks while the other threads work.
const WAIT: Duration = Duration::from_millis(1);

/// Minimum number of hosts for which starting a thread is worthwhile.
const HOSTS_MIN: usize = 1000;

/// Runs the work on each item, within the budget; the work on one concerns `hosts` hosts. The results are in the
/// order of the items; `None` for items skipped because the budget is spent.
///
/// # Panics
/// If the work panics.
pub fn map_items<T: Sync, R: Send>(
    items: &[T],
    hosts: usize,
    budget: &mut Budget<'_>,
    work: impl Fn(&T, &mut Budget<'_>) -> R + Sync,
) -> Vec<Option<R>> {
    let is_worth = hosts >= HOSTS_MIN && items.len() > 1;
    let Some(count) = budget.threads().filter(|count| is_worth && count() > 1) else {
        return items.iter().map(|item| (!budget.is_spent()).then(|| work(item, budget))).collect();
    };
    let share = Share::of(budget);
    let next = AtomicUsize::new(0);
    let results = |number: usize, is_up: &mut dyn FnMut() -> bool| {
        let mut budget = share.budget(is_up);
        let mut results = Vec::new();
        // Another search may have started, which gets some of the threads.
        while number == 0 || count() > number {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at).filter(|_| !budget.is_spent()) else { break };
            results.push((at, work(item, &mut budget)));
        }
        share.end(&budget);
        results
    };
    let is_over = AtomicBool::new(false);
    let mut found: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let mut keep = |results: Vec<(usize, R)>| {
        for (at, result) in results {
            if let Some(found) = found.get_mut(at) {
                *found = Some(result);
            }
        }
    };
    thread::scope(|scope| {
        let (done, all_done) = mpsc::channel::<()>();
        let mut threads = Vec::new();
        for number in 1..count().min(items.len()) {
            let (done, results, is_over) = (done.clone(), &results, &is_over);
            // A panic is logged with the request that the work belongs to.
            let request = RequestScope::current();
            let work = move || {
                request.run(move || {
                    let found = results(number, &mut || is_over.load(Ordering::Relaxed));
                    drop(done);
                    found
                })
            };
            let named = thread::Builder::new().name(format!("solver-{number}"));
            // If the system has no more threads, the existing ones do the work.
            let Ok(thread) = named.spawn_scoped(scope, work) else { break };
            threads.push(thread);
        }
        drop(done);
        let mut is_up = || {
            let is_up = budget.is_spent_now();
            is_over.fetch_or(is_up, Ordering::Relaxed);
            is_up
        };
        keep(results(0, &mut is_up));
        // The other threads cannot check the time.
        while all_done.recv_timeout(WAIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            is_up();
        }
        for thread in threads {
            keep(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    share.return_to(budget);
    found
}

/// Runs the work on the items in equal shares, one for each thread, for work with a setup cost. The results are in
/// the order of the shares; `None` for shares skipped because the budget is spent.
///
/// # Panics
/// If the work panics.
pub(super) fn map_shares<T: Sync, R: Send>(
    items: &[T],
    hosts: usize,
    budget: &mut Budget<'_>,
    work: impl Fn(&[T], &mut Budget<'_>) -> R + Sync,
) -> Vec<Option<R>> {
    let threads = budget.threads().filter(|_| hosts >= HOSTS_MIN).map_or(1, |count| count()).max(1);
    let shares: Vec<&[T]> = items.chunks(items.len().div_ceil(threads).max(1)).collect();
    map_items(&shares, hosts, budget, |share, budget| work(share, budget))
}

/// Runs the work on each item like [`map_items`], and consumes the items.
///
/// # Panics
/// If the work panics.
pub fn map_owned<T: Send, R: Send>(
    items: Vec<T>,
    hosts: usize,
    budget: &mut Budget<'_>,
    work: impl Fn(T, &mut Budget<'_>) -> R + Sync,
) -> Vec<Option<R>> {
    let items: Vec<Mutex<Option<T>>> = items.into_iter().map(|it| Mutex::new(Some(it))).collect();
    let results = map_items(&items, hosts, budget, |item, budget| {
        let item = item.lock().unwrap_or_else(PoisonError::into_inner).take();
        item.map(|item| work(item, budget))
    });
    results.into_iter().map(Option::flatten).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::{self, ThreadId};

    use super::{HOSTS_MIN, map_items};
    use crate::solver::budget::{Budget, KEPT_MAX};

    const ITEMS: [usize; 6] = [0, 1, 2, 3, 4, 5];

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for hosts in [0, HOSTS_MIN] {
            let (mut never, three) = (|| false, || 3);
            let mut budget = Budget::new(&mut never).on_threads(&three);
            let found = map_items(&ITEMS, hosts, &mut budget, |item, budget| {
                budget.is_spent_with(10);
                item * item
            });
            assert_eq!(found, ITEMS.map(|item| Some(item * item)), "{hosts} hosts");
            assert_eq!((budget.kept(), budget.is_spent()), (60, false));
        }
    }

    #[test]
    fn each_thread_waits_for_none_of_the_others() {
        let (mut never, all) = (|| false, || ITEMS.len());
        let mut budget = Budget::new(&mut never).on_threads(&all);
        let began = AtomicUsize::new(0);
        let threads: Mutex<Vec<ThreadId>> = Mutex::default();
        map_items(&ITEMS, HOSTS_MIN, &mut budget, |_, _| {
            began.fetch_add(1, Ordering::SeqCst);
            // It would never end if the items were processed one after the other.
            while began.load(Ordering::SeqCst) < ITEMS.len() {
                thread::yield_now();
            }
            threads.lock().unwrap().push(thread::current().id());
        });
        let mut threads = threads.into_inner().unwrap();
        threads.sort_by_key(|id| format!("{id:?}"));
        threads.dedup();
        assert_eq!(threads.len(), ITEMS.len());
    }

    #[test]
    fn they_end_when_the_time_is_up() {
        let mut looks = 0;
        let mut is_up = || {
            looks += 1;
            looks > 3
        };
        let two = || 2;
        let mut budget = Budget::new(&mut is_up).on_threads(&two);
        let found = map_items(&ITEMS, HOSTS_MIN, &mut budget, |_, budget| {
            while !budget.is_spent_now() {
                thread::yield_now();
            }
        });
        // Each thread was at its first item.
        assert_eq!(found.iter().flatten().count(), 2);
        assert!(budget.is_spent() && !budget.is_full());
    }

    #[test]
    fn they_have_the_memory_of_one() {
        let (mut never, two) = (|| false, || 2);
        let mut budget = Budget::new(&mut never).on_threads(&two);
        let found = map_items(&ITEMS, HOSTS_MIN, &mut budget, |_, budget| {
            budget.is_spent_with(KEPT_MAX / 4)
        });
        assert!(budget.is_spent() && budget.is_full());
        assert!(found.contains(&Some(true)), "{found:?}");
    }

    #[test]
    fn a_panic_goes_on() {
        let (mut never, two) = (|| false, || 2);
        let mut budget = Budget::new(&mut never).on_threads(&two);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            map_items(&ITEMS, HOSTS_MIN, &mut budget, |item, _| assert_ne!(*item, 4));
        }));
        assert!(ended.is_err());
    }
}
