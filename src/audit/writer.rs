//! Writes entries to their destination, by a thread behind a bounded [queue](LineQueue). A full disk or a
//! stalled pipe holds up nothing but the entries.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::observe::line_queue::{LineQueue, Pushed};

/// Name of the counter of dropped entries.
pub(super) const DROPPED: &str = "berth_audit_entries_dropped_total";
/// Name of the counter of failed writes.
pub(super) const FAILURES: &str = "berth_audit_write_failures_total";
/// Maximum size of all entries waiting to be written, in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Pause after a failed write.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Mode of a new file: its group may read it.
const MODE: u32 = 0o640;

/// The destination of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file to append to, or a named pipe.
    File(PathBuf),
    /// Standard output.
    Stdout,
}

/// The queue of entries for a destination.
#[derive(Clone, Debug)]
pub(super) struct Entries(Arc<LineQueue>);

impl Entries {
    /// Starts the thread that writes to a target. `dropped_line` formats the line for a number of dropped entries.
    ///
    /// # Errors
    /// The target cannot be opened.
    pub(super) fn start(target: Target, dropped_line: fn(u64) -> Vec<u8>) -> io::Result<Self> {
        Self::bounded(BYTES_MAX, target, dropped_line)
    }

    fn bounded(
        bytes_max: usize,
        target: Target,
        dropped_line: fn(u64) -> Vec<u8>,
    ) -> io::Result<Self> {
        let file = if target.opens_at_once() { Some(target.open()?) } else { None };
        let queue = LineQueue::new(bytes_max);
        let mut writer = Writer { target, file };
        let taken = Arc::clone(&queue);
        let write = move |entries: &[u8], dropped| {
            if dropped == 0 {
                return writer.write(entries);
            }
            writer.write(&[entries, &dropped_line(dropped)].concat());
            tracing::warn!(dropped, "the audit log is being written again");
        };
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || taken.run(write))?;
        Ok(Self(queue))
    }

    /// Adds an entry, with its newline, or drops it. Never waits for the target.
    pub(super) fn push(&self, line: &[u8]) {
        if let Pushed::Dropped { is_first } = self.0.push(line) {
            metrics::counter!(DROPPED).increment(1);
            if is_first {
                tracing::error!("the audit log is not being written; its entries are dropped");
            }
        }
    }

    /// Waits for at most this time until all entries are written. Returns whether they are.
    pub(super) fn drain(&self, most: Duration) -> bool {
        self.0.drain(most)
    }

    /// Returns the number of entries not yet written, and of those dropped without a line that counts them.
    pub(super) fn unwritten(&self) -> (usize, u64) {
        self.0.unwritten()
    }

    /// Returns whether both are the same queue.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The thread's side.
struct Writer {
    target: Target,
    file: Option<File>,
}

impl Writer {
    /// Writes all bytes, however long that takes.
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
                    metrics::counter!(FAILURES).increment(1);
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

    /// Reopens the file if its name leads to another file now, or to none.
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
    /// Returns whether opening it does not block: a pipe blocks until it has a reader.
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

    use super::{Entries, Target};

    const PATIENCE: Duration = Duration::from_secs(30);

    fn dropped_line(dropped: u64) -> Vec<u8> {
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
        let queue = Entries::start(Target::File(path.clone()), dropped_line).unwrap();
        (0..3).for_each(|number| queue.push(&line(number)));
        assert!(queue.drain(PATIENCE));
        std::fs::rename(&path, &old).unwrap();
        queue.push(&line(3));
        assert!(queue.drain(PATIENCE));
        assert_eq!(read(&old), "before\nentry 0\nentry 1\nentry 2\n");
        assert_eq!(read(&path), "entry 3\n");
    }

    #[test]
    fn a_directory_that_is_missing_is_found_at_the_start() {
        assert!(Entries::start(Target::File("/no/such/audit.log".into()), dropped_line).is_err());
    }

    #[test]
    fn a_full_pipe_blocks_no_request_and_dropped_entries_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let queue = Entries::bounded(100, Target::File(path.clone()), dropped_line).unwrap();
        // The thread takes one entry and waits to open the pipe; the queue fills with the others.
        queue.push(&line(0));
        while !queue.0.progress().0 {
            std::thread::yield_now();
        }
        (1..1000).for_each(|number| queue.push(&line(number)));
        assert!(!queue.drain(Duration::from_millis(20)));
        let dropped = queue.0.progress().1;
        assert!(dropped > 900, "{dropped}");
        let mut pipe = std::fs::File::open(&path).unwrap();
        let expected: Vec<u8> =
            (0..1000 - usize::try_from(dropped).unwrap()).flat_map(line).collect();
        let expected = [expected, dropped_line(dropped)].concat();
        let mut found = vec![0; expected.len()];
        pipe.read_exact(&mut found).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), String::from_utf8(expected).unwrap());
        queue.push(&line(1000));
        assert!(queue.drain(PATIENCE));
    }
}
