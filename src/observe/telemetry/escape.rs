//! Escapes text from clients: no character in a log line moves the cursor, ends the line or changes the
//! direction of writing.

use std::{fmt, io};

use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};

use super::writer::LineWriter;
use crate::observe::printable::{escaped_json, is_plain, write_escaped};

/// Initial capacity for the fields of a line, in bytes.
const LINE: usize = 512;

/// Fields of events for people.
pub(super) struct OneLine;

impl<'w> FormatFields<'w> for OneLine {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        // Fields are written in many small pieces, so they are checked when all are there.
        let mut text = String::with_capacity(LINE);
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        write_escaped(&mut writer, &text)
    }
}

/// Writes lines of JSON, with escapes also for characters that act but are valid in JSON.
pub(super) struct PlainJson(pub(super) LineWriter);

impl<'a> MakeWriter<'a> for PlainJson {
    type Writer = JsonLine<LineWriter>;

    fn make_writer(&'a self) -> Self::Writer {
        JsonLine(self.0.clone())
    }
}

/// One line of JSON, which is written at once.
pub(super) struct JsonLine<W>(W);

impl<W: io::Write> io::Write for JsonLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(text) if !is_plain(text.trim_end_matches('\n')) => {
                self.0.write_all(escaped_json(text).as_bytes())?;
                Ok(line.len())
            }
            Ok(_) | Err(_) => self.0.write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::{JsonLine, OneLine};
    use crate::observe::printable::acts;

    const EVIL: &str = "a\nINFO b\r\u{1b}[2J\u{7f}\u{9b}31m\u{202e}\u{2028}\t\0é";

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            std::io::Write::write(&mut *self.0.lock().unwrap(), bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl<'a> MakeWriter<'a> for Kept {
        type Writer = JsonLine<Self>;

        fn make_writer(&'a self) -> Self::Writer {
            JsonLine(self.clone())
        }
    }

    fn tell() {
        let span = tracing::info_span!("span", called = EVIL);
        let _entered = span.enter();
        tracing::info!(name = EVIL, shown = %EVIL, "said {EVIL}");
    }

    #[test]
    fn a_line_for_people_is_one_line() {
        let kept = Kept::default();
        let writer = kept.clone();
        let logs = tracing_subscriber::fmt().fmt_fields(OneLine).with_ansi(false);
        let logs = logs.with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(logs, tell);
        let line = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let line = line.strip_suffix('\n').unwrap();
        assert!(!line.chars().any(acts), "{line:?}");
        assert!(line.contains(r"said a\nINFO b\r\x1b[2J") && line.contains('é'), "{line:?}");
    }

    #[test]
    fn a_json_line_round_trips() {
        let kept = Kept::default();
        let logs = tracing_subscriber::fmt().json().flatten_event(true).with_current_span(true);
        tracing::subscriber::with_default(logs.with_writer(kept.clone()).finish(), tell);
        let line = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let line = line.strip_suffix('\n').unwrap();
        assert!(!line.chars().any(acts), "{line:?}");
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["name"], EVIL);
        assert_eq!(value["shown"], EVIL);
        assert_eq!(value["span"]["called"], EVIL);
        assert_eq!(value["message"], format!("said {EVIL}"));
    }
}
