//! The form of log lines: text for people or JSON, as a reload may change it, with the request that the line is about.
//! Text from clients is escaped: no character in a line moves the cursor, ends the line or changes the direction of
//! writing.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, Format, Json, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::journal;
use crate::observe::log_settings::LogFormat;
use crate::observe::printable::{escaped_json, write_escaped};
use crate::observe::request_context::{self, RequestContext};

/// Initial capacity for a line, in bytes.
const LINE: usize = 512;

/// Formats events as lines.
pub(super) struct LineFormat {
    /// Returns the active format.
    format: fn() -> LogFormat,
    json: Format<Json>,
    is_journal: bool,
}

impl LineFormat {
    /// Writes lines in the format that is active. For systemd's journal, lines begin with their priority.
    pub(super) fn new(format: fn() -> LogFormat, is_journal: bool) -> Self {
        let json = Format::default().json().flatten_event(true).with_current_span(false);
        Self { format, json: json.with_span_list(false), is_journal }
    }

    /// Writes the time and the level. Under the journal there is no time, because the journal records it.
    fn write_head(&self, writer: &mut Writer<'_>, level: Level) -> fmt::Result {
        if !self.is_journal {
            SystemTime.format_time(writer)?;
            writer.write_char(' ')?;
        }
        if writer.has_ansi_escapes() {
            write!(writer, "\x1b[{}m{level:>5}\x1b[0m ", color(level))
        } else {
            write!(writer, "{level:>5} ")
        }
    }
}

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let (metadata, request) = (event.metadata(), request_context::current());
        if self.is_journal {
            writer.write_str(journal::priority(*metadata.level()))?;
        }
        if (self.format)() == LogFormat::Json {
            // With the time under the journal, too, because other programs read it.
            let mut line = String::with_capacity(LINE);
            self.json.format_event(context, Writer::new(&mut line), event)?;
            if let Some(request) = request {
                add_request(&mut line, &request)?;
            }
            writer.write_str(&escaped_json(line.trim_end()))?;
        } else {
            self.write_head(&mut writer, *metadata.level())?;
            if let Some(request) = request {
                request.write_text(&mut writer)?;
                writer.write_str(": ")?;
            }
            write!(writer, "{}: ", metadata.target())?;
            context.format_fields(writer.by_ref(), event)?;
        }
        writer.write_char('\n')
    }
}

/// Adds the request to the JSON object of a line.
fn add_request(line: &mut String, request: &RequestContext) -> fmt::Result {
    let Some(end) = line.rfind('}') else { return Ok(()) };
    line.truncate(end);
    line.push_str(",\"span\":");
    request.write_json(line)?;
    line.push('}');
    Ok(())
}

/// Returns the number of the terminal's colour of a level.
fn color(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        _ => 35,
    }
}

/// The fields of events as text.
pub(super) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        // Fields are written in many small pieces, so they are checked when all are there.
        let mut text = String::with_capacity(LINE);
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        write_escaped(&mut writer, &text)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;

    use super::{LineFormat, TextFields};
    use crate::observe::log_settings::LogFormat;
    use crate::observe::printable::acts;
    use crate::observe::request_context::{RequestContext, RequestScope};

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

    impl MakeWriter<'_> for Kept {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// Returns the line of an event within a request.
    fn line(format: fn() -> LogFormat) -> String {
        let kept = Kept::default();
        let logs = tracing_subscriber::fmt().with_ansi(false).with_writer(kept.clone());
        let logs = logs.event_format(LineFormat::new(format, false)).fmt_fields(TextFields);
        let id = "req-1".to_owned();
        let request = RequestContext { id, ..RequestContext::default() };
        tracing::subscriber::with_default(logs.finish(), || {
            RequestScope::of(request, tracing::Span::none()).run(|| {
                tracing::info!(name = EVIL, shown = %EVIL, "said {EVIL}");
            });
        });
        let line = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let line = line.strip_suffix('\n').unwrap();
        assert!(!line.chars().any(acts), "{line:?}");
        line.to_owned()
    }

    #[test]
    fn a_line_for_people_is_one_line() {
        let line = line(|| LogFormat::Human);
        let (head, fields) = line.split_once(" request{request_id=\"req-1\"}: ").unwrap();
        assert!(head.ends_with("Z  INFO"), "{line}");
        let target = "berth::observe::telemetry::line_format::tests: ";
        let fields = fields.strip_prefix(target).unwrap();
        assert!(fields.starts_with(r"said a\nINFO b\r\x1b[2J") && line.contains('é'), "{line:?}");
    }

    #[test]
    fn a_json_line_round_trips() {
        let value: serde_json::Value = serde_json::from_str(&line(|| LogFormat::Json)).unwrap();
        assert_eq!(value["name"], EVIL);
        assert_eq!(value["shown"], EVIL);
        assert_eq!(value["message"], format!("said {EVIL}"));
        assert_eq!(value["span"]["request_id"], "req-1");
    }
}
