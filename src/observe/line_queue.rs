//! A bounded queue of lines between those who write them and a thread that puts them into a file.
//!
//! Whoever has a line appends it and goes on. If the thread does not get on, because nobody reads the file
//! or its disk is full, the queue fills, and further lines are dropped and counted.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Room that the thread keeps between two rounds, in bytes: a flood of lines does not keep its memory.
const KEPT: usize = 64 * 1024;

/// The lines that wait.
#[derive(Debug)]
pub(crate) struct LineQueue {
    /// Bytes that may wait.
    bytes_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whole lines.
    waiting: Vec<u8>,
    /// How many they are.
    lines: usize,
    /// Lines that were dropped since the thread last took some.
    dropped: u64,
    /// Whether the thread is writing what it took.
    is_writing: bool,
    /// How many lines the thread took and is writing, and how many were dropped after them.
    taken: (usize, u64),
    /// No line is taken any more.
    ends: bool,
    /// The thread has ended.
    is_done: bool,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It waits to be written.
    Waits,
    /// It was dropped, as the first since the thread last took lines, or not.
    Dropped {
        /// Whether it was the first.
        is_first: bool,
    },
    /// No line is taken any more.
    Ended,
}

impl LineQueue {
    /// A queue for so many bytes.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, state: Mutex::default(), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line with its end, or drops it. Never waits for the thread.
    pub(crate) fn push(&self, line: &[u8]) -> Pushed {
        let mut state = self.state();
        if state.ends {
            return Pushed::Ended;
        }
        if state.waiting.len() + line.len() > self.bytes_max {
            state.dropped += 1;
            return Pushed::Dropped { is_first: state.dropped == 1 };
        }
        state.waiting.extend_from_slice(line);
        state.lines += 1;
        drop(state);
        self.changed.notify_all();
        Pushed::Waits
    }

    /// The thread's work: gives `write` all lines that wait, with the number of those that were dropped
    /// after them, again and again until the end.
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
        if state.waiting.is_empty() && state.dropped == 0 {
            return None;
        }
        state.is_writing = true;
        std::mem::swap(&mut state.waiting, lines);
        state.taken = (std::mem::take(&mut state.lines), std::mem::take(&mut state.dropped));
        Some(state.taken.1)
    }

    /// Waits until all lines are written, for so long at the most. Returns whether they are.
    pub(crate) fn drain(&self, most: Duration) -> bool {
        self.wait_while(most, |state| state.is_writing || !state.waiting.is_empty())
    }

    /// Takes no more lines, and waits until those that wait are written, for so long at the most. Returns
    /// whether they are.
    pub(crate) fn end(&self, most: Duration) -> bool {
        self.state().ends = true;
        self.changed.notify_all();
        self.wait_while(most, |state| !state.is_done)
    }

    fn wait_while(&self, most: Duration, goes_on: impl Fn(&State) -> bool) -> bool {
        let until = Instant::now() + most;
        let mut state = self.state();
        while goes_on(&state) {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Whether no line is taken any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().ends
    }

    /// How many lines are not known to be written, and how many were dropped without a note that is written.
    pub(crate) fn unwritten(&self) -> (usize, u64) {
        let state = self.state();
        (state.lines + state.taken.0, state.dropped + state.taken.1)
    }

    /// Whether the thread is writing what it took, and how many lines were dropped since then.
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

    /// Whoever has lines goes on while the thread stands still; it learns how many are missing.
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

    /// What waits at the end is written, and nothing after it.
    #[test]
    fn nothing_waits_at_the_end() {
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
