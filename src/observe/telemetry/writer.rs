//! Writes lines of the log, by a thread behind a bounded [queue](LineQueue). After the lines before a gap, it
//! writes a line with the number of missing ones.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use tracing_subscriber::fmt::MakeWriter;

use crate::observe::line_queue::{LineQueue, Pushed};

/// Maximum size of all lines waiting to be written, in bytes.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Timeout for the last lines when the process ends.
const END_MAX: Duration = Duration::from_secs(1);
/// Pause of the thread when writing to the file would block.
const FULL_PAUSE: Duration = Duration::from_millis(50);
/// The metric that counts dropped lines.
const DROPPED: &str = "berth_log_lines_dropped_total";

thread_local! {
    /// The line about dropped lines, on the writing thread: it bypasses the queue.
    static NOTICE: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Starts the thread, which writes to a copy of a descriptor.
///
/// # Errors
/// The descriptor cannot be copied, or the thread cannot be started.
pub(super) fn start(to: impl AsFd) -> io::Result<(LineWriter, LogThread)> {
    let file = File::from(to.as_fd().try_clone_to_owned()?);
    let queue = LineQueue::new(WAITING_BYTES_MAX);
    let written = Arc::clone(&queue);
    let write = move |lines: &[u8], dropped| {
        write_lines(&file, lines);
        if dropped > 0 {
            write_lines(&file, &notice(dropped));
        }
    };
    std::thread::Builder::new().name("log".to_owned()).spawn(move || written.run(write))?;
    Ok((LineWriter(Arc::clone(&queue)), LogThread(queue)))
}

/// Returns the line with the number of missing lines, in the format of all others; empty if the filter has no
/// warnings.
fn notice(dropped: u64) -> Vec<u8> {
    NOTICE.replace(Some(Vec::new()));
    tracing::warn!(dropped, "{dropped} log lines were dropped here, because the log was not read");
    NOTICE.take().into_iter().flatten().collect()
}

/// Writes lines. Those that cannot be written, because the disk is full or the reader gone, are counted.
fn write_lines(mut file: impl Write, mut lines: &[u8]) {
    while !lines.is_empty() {
        match file.write(lines) {
            Ok(0) => return count_unwritten(lines),
            Ok(written) => lines = lines.split_at_checked(written).map_or(&[], |it| it.1),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process has set O_NONBLOCK on the pipe.
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(FULL_PAUSE),
            Err(_) => return count_unwritten(lines),
        }
    }
}

fn count_unwritten(lines: &[u8]) {
    let count = lines.split_inclusive(|byte| *byte == b'\n').count();
    counter!(DROPPED).increment(count as u64);
}

/// Appends lines to the queue. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct LineWriter(Arc<LineQueue>);

impl LineWriter {
    /// Returns whether the queue accepts no more lines.
    pub(super) fn has_ended(&self) -> bool {
        self.0.has_ended()
    }
}

impl Write for LineWriter {
    /// Takes a complete line, or drops it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_notice = NOTICE.with_borrow_mut(|notice| {
            notice.as_mut().map(|notice| notice.extend_from_slice(line)).is_some()
        });
        if !is_notice && let Pushed::Dropped { .. } = self.0.push(line) {
            counter!(DROPPED).increment(1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LineWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The writing thread.
#[derive(Debug)]
pub(super) struct LogThread(Arc<LineQueue>);

impl LogThread {
    /// Accepts no more lines, and waits at most a second until the waiting ones have been written. Returns whether
    /// they were.
    pub(super) fn end(&self) -> bool {
        self.0.end(END_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::{WAITING_BYTES_MAX, start};

    /// Logging continues while the pipe is not read; the returning reader gets the number of missing lines.
    #[test]
    fn lines_are_dropped_and_counted_without_a_reader() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let (mut lines, thread) = start(&writer).unwrap();
        drop(writer);
        // More than the pipe takes: the thread blocks here, and takes no further lines.
        lines.write_all(format!("{}\n", "x".repeat(1024 * 1024)).as_bytes()).unwrap();
        while !lines.0.progress().0 {
            std::thread::yield_now();
        }
        let line = format!("{}\n", "x".repeat(1023));
        let count = 3 * WAITING_BYTES_MAX / line.len();
        for _ in 0..count {
            lines.write_all(line.as_bytes()).unwrap();
        }
        let dropped = lines.0.progress().1;
        assert!(dropped > 0);
        assert!(!thread.end(), "nobody reads");
        drop(lines);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let written = text.lines().filter(|read| read.len() + 1 == line.len()).count();
        assert_eq!(written as u64 + dropped, count as u64);
        assert!(thread.end());
    }

    #[test]
    fn all_lines_are_written_at_the_end() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let (mut lines, thread) = start(&writer).unwrap();
        drop(writer);
        lines.write_all(b"one\n").unwrap();
        assert!(thread.end());
        lines.write_all(b"two\n").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\n");
    }
}
