//! The journal of systemd. It records the time of each line itself, and reads its priority from `<N>` at the
//! beginning, as in sd-daemon(3).

use std::os::linux::fs::MetadataExt;
use std::{fmt, io};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::observe::log_settings::{self, LogFormat};

/// The environment variable with the device and inode of the journal's socket.
const STREAM: &str = "JOURNAL_STREAM";

/// Returns whether standard error is a connection to the journal.
pub(super) fn is_stderr() -> bool {
    let Ok(stream) = std::env::var(STREAM) else { return false };
    let Ok(found) = descriptor(&io::stderr()) else { return false };
    stream == found
}

/// Returns the device and inode of a descriptor, as systemd writes them.
fn descriptor(of: &impl std::os::fd::AsFd) -> io::Result<String> {
    let file = std::fs::File::from(of.as_fd().try_clone_to_owned()?).metadata()?;
    Ok(format!("{}:{}", file.st_dev(), file.st_ino()))
}

/// Returns the syslog priority of a level.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Formats events while its format is active, and nothing otherwise.
pub(super) struct EventFormat {
    layout: Layout,
    has_priority: bool,
}

enum Layout {
    Human(Format<Full>),
    HumanWithoutTime(Format<Full, ()>),
    Json(Format<Json>),
}

impl EventFormat {
    fn is_in_force(&self) -> bool {
        let format = match self.layout {
            Layout::Human(_) | Layout::HumanWithoutTime(_) => LogFormat::Human,
            Layout::Json(_) => LogFormat::Json,
        };
        format == log_settings::format()
    }

    /// Returns the format for people.
    pub(super) fn human(for_journal: bool) -> Self {
        let format = Format::default();
        let layout = if for_journal {
            Layout::HumanWithoutTime(format.without_time())
        } else {
            Layout::Human(format)
        };
        Self { layout, has_priority: for_journal }
    }

    /// Returns the JSON format. It has the time in the journal, too, because other programs read it.
    pub(super) fn json(for_journal: bool) -> Self {
        let format = Format::default().json().flatten_event(true).with_current_span(true);
        Self { layout: Layout::Json(format), has_priority: for_journal }
    }
}

impl<S, N> FormatEvent<S, N> for EventFormat
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
        if !self.is_in_force() {
            return Ok(());
        }
        if self.has_priority {
            writer.write_str(priority(*event.metadata().level()))?;
        }
        match &self.layout {
            Layout::Human(format) => format.format_event(context, writer, event),
            Layout::HumanWithoutTime(format) => format.format_event(context, writer, event),
            Layout::Json(format) => format.format_event(context, writer, event),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use tracing::Level;

    use super::{descriptor, priority};

    #[test]
    fn a_level_has_the_priority_of_syslog() {
        let all = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(all.map(priority), ["<3>", "<4>", "<6>", "<7>", "<7>"]);
    }

    #[test]
    fn a_descriptor_is_known_by_device_and_inode() {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let name = |it: &std::os::unix::net::UnixStream| descriptor(&it.as_fd()).unwrap();
        assert_eq!(name(&one), name(&one.try_clone().unwrap()));
        assert_ne!(name(&one), name(&other));
    }
}
