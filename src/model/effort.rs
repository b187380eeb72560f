//! Counts, in tests, the work that a request causes on a thread that serves other requests too.
//!
//! Functions that read or judge a request call [`steps`] for each name, pair, value or comparison. Tests
//! compare the sums at two sizes: a request of eight times the size must take about eight times the steps
//! and the heap, and not 64 times.

/// Counts names, pairs or values that are examined.
#[cfg(not(test))]
pub(crate) fn steps(_count: usize) {}

#[cfg(test)]
pub(crate) use self::counting::{grows_evenly, steps, steps_of};

#[cfg(test)]
mod counting {
    use std::cell::Cell;

    /// The ratio of the sizes of the two requests.
    const TIMES: usize = 8;

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn steps(count: usize) {
        STEPS.with(|steps| steps.set(steps.get() + count));
    }

    /// Returns the number of steps that a function takes.
    pub(crate) fn steps_of(run: impl FnOnce()) -> usize {
        STEPS.with(|steps| steps.set(0));
        run();
        STEPS.with(Cell::get)
    }

    /// Fails if the work of `run` on the request that `make` makes grows faster than its size, given as a
    /// number of parts. `most` is the size of the largest possible request.
    pub(crate) fn grows_evenly<T>(
        name: &str,
        most: usize,
        make: impl Fn(usize) -> T,
        run: impl Fn(&T),
    ) {
        let measure = |parts: usize| {
            let request = make(parts);
            let mut heap = 0;
            let steps = steps_of(|| {
                heap = allocation_counter::measure(|| run(&request)).bytes_total;
            });
            (steps, heap)
        };
        // Work done once for all requests is not counted.
        measure(1);
        let (few, small) = measure(most / TIMES);
        let (many, large) = measure(most);
        assert!(many > 0, "{name}: nothing is counted");
        assert!(many <= few * TIMES * 3 / 2 + 100, "{name}: {few} steps, then {many}");
        let bound = small * TIMES as u64 * 2 + 65_536;
        assert!(large <= bound, "{name}: {small} bytes of the heap, then {large}");
    }
}
