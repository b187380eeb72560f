//! Entries on their way to a file. A thread of their own writes them, so a disk that is full or a pipe
//! that nobody reads stops nothing but the entries: when too many wait, further ones are dropped and
//! counted.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The name of the counter of entries that were dropped.
pub(super) const DROPPED: &str = "berth_audit_entries_dropped_total";
/// Entries that may wait to be written, in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// The pause after a failure to write.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Who may read the file, beside its owner: the group.
const MODE: u32 = 0o640;

/// Where entries go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, to which they are appended; or a named pipe.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// Entries that wait to be written.
#[derive(Debug)]
pub(super) struct Queue {
    bytes_max: usize,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Entries dropped since the last line that said so.
    dropped: u64,
    /// Whether the thread is writing what it took.
    is_writing: bool,
}

impl Queue {
    /// Starts the thread that writes to a target. `said` makes a line of a number of dropped entries.
    ///
    /// # Errors
    /// The target cannot be opened.
    pub(super) fn start(target: Target, said: fn(u64) -> Vec<u8>) -> io::Result<Arc<Self>> {
        Self::bounded(BYTES_MAX, target, said)
    }

    fn bounded(
        bytes_max: usize,
        target: Target,
        said: fn(u64) -> Vec<u8>,
    ) -> io::Result<Arc<Self>> {
        let file = if target.opens_at_once() { Some(target.open()?) } else { None };
        let queue = Self { bytes_max, waiting: Mutex::default(), changed: Condvar::new() };
        let queue = Arc::new(queue);
        let writer = Writer { target, file, said };
        let taken = Arc::clone(&queue);
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&taken))?;
        Ok(queue)
    }

    /// Adds an entry with the end of its line, or drops it. Never waits for the target.
    pub(super) fn push(&self, line: Vec<u8>) {
        let mut waiting = self.waiting();
        if waiting.bytes + line.len() > self.bytes_max {
            waiting.dropped += 1;
            let is_first = waiting.dropped == 1;
            drop(waiting);
            metrics::counter!(DROPPED).increment(1);
            if is_first {
                tracing::error!("the audit log is not being written; its entries are dropped");
            }
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Waits until all entries are written, for so long at the most. Whether they are.
    pub(super) fn drain(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut waiting = self.waiting();
        while waiting.is_writing || !waiting.lines.is_empty() {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            let woken = self.changed.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Takes all that waits, with the number of dropped entries. Waits until there is something.
    fn take(&self) -> (Vec<u8>, u64) {
        let mut waiting = self.waiting();
        waiting.is_writing = false;
        self.changed.notify_all();
        while waiting.lines.is_empty() {
            let woken = self.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_writing = true;
        waiting.bytes = 0;
        let lines = std::mem::take(&mut waiting.lines);
        let dropped = std::mem::take(&mut waiting.dropped);
        drop(waiting);
        (lines.into_iter().flatten().collect(), dropped)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side.
struct Writer {
    target: Target,
    file: Option<File>,
    said: fn(u64) -> Vec<u8>,
}

impl Writer {
    fn run(mut self, queue: &Queue) {
        loop {
            let (mut bytes, dropped) = queue.take();
            if dropped > 0 {
                bytes.extend((self.said)(dropped));
            }
            self.write(&bytes);
            if dropped > 0 {
                tracing::warn!(dropped, "the audit log is being written again");
            }
        }
    }

    /// Writes all, however long that takes.
    fn write(&mut self, mut bytes: &[u8]) {
        let mut has_failed = false;
        self.follow_rotation();
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(count) => {
                    let Some(rest) = bytes.get(count..) else { return };
                    bytes = rest;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if !has_failed {
                        tracing::error!(%error, "the audit log cannot be written");
                    }
                    has_failed = true;
                    self.file = None;
                    std::thread::sleep(RETRY_AFTER);
                }
            }
        }
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.target.open()?),
        };
        match file.write(bytes)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            count => Ok(count),
        }
    }

    /// Opens the file anew if its name leads to another file now, or to none.
    fn follow_rotation(&mut self) {
        let (Target::File(path), Some(file)) = (&self.target, &self.file) else { return };
        let is_same = match (std::fs::metadata(path), file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) == (open.dev(), open.ino()),
            _ => false,
        };
        if !is_same {
            self.file = None;
        }
    }
}

impl Target {
    /// Whether opening it waits for nobody: a pipe waits for its reader.
    fn opens_at_once(&self) -> bool {
        match self {
            Self::File(path) => !is_pipe(path),
            Self::Stdout => true,
        }
    }

    fn open(&self) -> io::Result<File> {
        match self {
            Self::File(path) => OpenOptions::new().append(true).create(true).mode(MODE).open(path),
            Self::Stdout => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        }
    }
}

fn is_pipe(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;
    use std::time::Duration;

    use super::{Queue, Target};

    const PATIENCE: Duration = Duration::from_secs(30);

    fn said(dropped: u64) -> Vec<u8> {
        format!("{dropped} dropped\n").into_bytes()
    }

    fn line(number: usize) -> Vec<u8> {
        format!("entry {number}\n").into_bytes()
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn entries_are_appended_in_their_order_also_after_the_file_was_rotated() {
        let directory = tempfile::tempdir().unwrap();
        let (path, old) = (directory.path().join("audit"), directory.path().join("audit.1"));
        std::fs::write(&path, "before\n").unwrap();
        let queue = Queue::start(Target::File(path.clone()), said).unwrap();
        (0..3).for_each(|number| queue.push(line(number)));
        assert!(queue.drain(PATIENCE));
        std::fs::rename(&path, &old).unwrap();
        queue.push(line(3));
        assert!(queue.drain(PATIENCE));
        assert_eq!(read(&old), "before\nentry 0\nentry 1\nentry 2\n");
        assert_eq!(read(&path), "entry 3\n");
    }

    #[test]
    fn a_directory_that_is_missing_is_found_at_the_start() {
        assert!(Queue::start(Target::File("/no/such/audit.log".into()), said).is_err());
    }

    #[test]
    fn a_pipe_that_nobody_reads_stops_nobody_and_what_is_dropped_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let queue = Queue::bounded(100, Target::File(path.clone()), said).unwrap();
        // One is taken by the thread, which waits to open the pipe; as many wait as there is room for.
        queue.push(line(0));
        while !queue.waiting().is_writing {
            std::thread::yield_now();
        }
        (1..1000).for_each(|number| queue.push(line(number)));
        assert!(!queue.drain(Duration::from_millis(20)));
        let dropped = queue.waiting().dropped;
        assert!(dropped > 900, "{dropped}");
        let mut pipe = std::fs::File::open(&path).unwrap();
        let expected: Vec<u8> =
            (0..1000 - usize::try_from(dropped).unwrap()).flat_map(line).collect();
        let expected = [expected, said(dropped)].concat();
        let mut found = vec![0; expected.len()];
        pipe.read_exact(&mut found).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), String::from_utf8(expected).unwrap());
        queue.push(line(1000));
        assert!(queue.drain(PATIENCE));
    }
}
