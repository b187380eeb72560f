//! The journal of systemd. It records the time of each line itself, and reads its priority from `<N>` at the
//! beginning, as in sd-daemon(3).

use std::io;
use std::os::linux::fs::MetadataExt;

use tracing::Level;

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
pub(super) fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
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
