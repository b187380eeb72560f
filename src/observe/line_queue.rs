//! A bounded queue of lines between the tasks that produce them and a thread that writes them to a file.
//!
//! Adding a line never blocks. If the thread is blocked, because the file is not read or its disk is full, the
//! queue fills, and further lines are dropped and counted.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which the thread lets lines gather before it takes them: waking it for each line would cost the tasks
/// that produce them more than the line itself.
const GATHER: Duration = Duration::from_millis(1);
/// Capacity that the thread's buffer keeps between two rounds, in bytes.
const KEPT: usize = 64 * 1024;

/// A bounded queue of lines.
#[derive(Debug)]
pub(crate) struct LineQueue {
    /// Maximum size of the waiting lines, in bytes.
    bytes_max: usize,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    /// The waiting lines.
    waiting: Vec<u8>,
    /// Number of waiting lines.
    lines: usize,
    /// Number of lines dropped since the thread last took some.
    dropped: u64,
    /// Whether the thread is writing lines that it took.
    is_writing: bool,
    /// Number of lines that the thread is writing, and of lines dropped after them.
    taken: (usize, u64),
    /// Whether no more lines are accepted.
    ends: bool,
    /// Whether the thread has ended.
    is_done: bool,
}

/// The result of adding a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The line waits to be written.
    Waits,
    /// The line was dropped.
    Dropped {
        /// Whether it is the first since the thread last took lines.
        is_first: bool,
    },
    /// No more lines are accepted.
    Ended,
}

impl LineQueue {
    /// Makes a queue of this size.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default(), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line with its newline, or drops it. Never waits for the thread.
    pub(crate) fn push(&self, line: &[u8]) -> Pushed {
        let mut state = self.state();
        if state.ends {
            return Pushed::Ended;
        }
        if state.waiting.len() + line.len() > self.bytes_max {
            state.dropped += 1;
            return Pushed::Dropped { is_first: state.dropped == 1 };
        }
        let is_first = state.waiting.is_empty();
        state.waiting.extend_from_slice(line);
        state.lines += 1;
        drop(state);
        if is_first {
            self.changed.notify_all();
        }
        Pushed::Waits
    }

    /// Calls `write`, on the thread, with all waiting lines and the number of lines dropped after them, until the
    /// queue ends.
    pub(crate) fn run(&self, mut write: impl FnMut(&[u8], u64)) {
        let mut lines = Vec::new();
        while let Some(dropped) = self.take(&mut lines) {
            write(&lines, dropped);
            lines.clear();
            lines.shrink_to(KEPT);
        }
        self.state().is_done = true;
        self.changed.notify_all();
    }

    fn take(&self, lines: &mut Vec<u8>) -> Option<u64> {
        let mut state = self.state();
        state.is_writing = false;
        state.taken = (0, 0);
        self.changed.notify_all();
        while state.waiting.is_empty() && !state.ends {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.ends {
            drop(state);
            std::thread::sleep(GATHER);
            state = self.state();
        }
        if state.waiting.is_empty() && state.dropped == 0 {
            return None;
        }
        state.is_writing = true;
        std::mem::swap(&mut state.waiting, lines);
        state.taken = (std::mem::take(&mut state.lines), std::mem::take(&mut state.dropped));
        Some(state.taken.1)
    }

    /// Waits for at most this time until all lines are written. Returns whether they are.
    pub(crate) fn drain(&self, most: Duration) -> bool {
        self.wait_while(most, |state| state.is_writing || !state.waiting.is_empty())
    }

    /// Accepts no more lines, and waits for at most this time until the waiting ones are written. Returns whether
    /// they are.
    pub(crate) fn end(&self, most: Duration) -> bool {
        self.state().ends = true;
        self.changed.notify_all();
        self.wait_while(most, |state| !state.is_done)
    }

    fn wait_while(&self, most: Duration, goes_on: impl Fn(&QueueState) -> bool) -> bool {
        let until = Instant::now() + most;
        let mut state = self.state();
        while goes_on(&state) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Returns whether no more lines are accepted.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().ends
    }

    /// Returns the number of lines not yet written, and of those dropped without a note about them.
    pub(crate) fn unwritten(&self) -> (usize, u64) {
        let state = self.state();
        (state.lines + state.taken.0, state.dropped + state.taken.1)
    }

    /// Returns whether the thread is writing, and the number of lines dropped since then.
    #[cfg(test)]
    pub(crate) fn progress(&self) -> (bool, u64) {
        let state = self.state();
        (state.is_writing, state.dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::{LineQueue, Pushed};

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Producers continue while the thread is blocked; the reader gets the number of missing lines.
    #[test]
    fn lines_are_dropped_and_counted_while_the_thread_stands_still() {
        let queue = LineQueue::new(8);
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (sender, written) = mpsc::channel();
        let thread = Arc::clone(&queue);
        let thread = std::thread::spawn(move || {
            thread.run(|lines, dropped| {
                sender.send((String::from_utf8(lines.to_vec()).unwrap(), dropped)).unwrap();
                may_go_on.recv().unwrap();
            });
        });
        assert_eq!(queue.push(b"one\n"), Pushed::Waits);
        assert_eq!(written.recv().unwrap(), ("one\n".to_owned(), 0));
        let pushed = ["two\n", "tri\n", "for\n", "fiv\n"].map(|line| queue.push(line.as_bytes()));
        let dropped = |is_first| Pushed::Dropped { is_first };
        assert_eq!(pushed, [Pushed::Waits, Pushed::Waits, dropped(true), dropped(false)]);
        assert!(!queue.drain(Duration::from_millis(20)));
        assert_eq!(queue.unwritten(), (3, 2));
        go_on.send(()).unwrap();
        assert_eq!(written.recv().unwrap(), ("two\ntri\n".to_owned(), 2));
        go_on.send(()).unwrap();
        assert!(queue.drain(PATIENCE));
        assert_eq!(queue.unwritten(), (0, 0));
        assert!(queue.end(PATIENCE) && queue.has_ended());
        assert_eq!(queue.push(b"six\n"), Pushed::Ended);
        thread.join().unwrap();
    }

    /// Lines waiting at the end are written, and no later ones.
    #[test]
    fn all_lines_are_written_at_the_end() {
        let queue = LineQueue::new(100);
        queue.push(b"one\n");
        assert!(!queue.end(Duration::from_millis(20)), "there is no thread yet");
        queue.push(b"two\n");
        let mut written = Vec::new();
        queue.run(|lines, _| written.extend_from_slice(lines));
        assert_eq!(written, b"one\n");
        assert!(queue.end(PATIENCE));
    }
}
