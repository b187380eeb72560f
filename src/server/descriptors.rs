//! File descriptors: each connection needs one, and the system limits their number.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but connections of clients and of the database: listeners, files, pipes, requests to
/// Keystone.
const OTHERS: u64 = 160;
/// Limit to set where the system has none.
const UNBOUNDED: u64 = 1_048_576;

/// The highest limit on descriptors that the process can set.
pub fn most() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(UNBOUNDED)
}

/// Raises the soft limit of the process to the hard limit. Returns the new limit.
pub fn raise() -> u64 {
    let limits = getrlimit(Resource::Nofile);
    let before = limits.current.unwrap_or(UNBOUNDED);
    let most = most().max(before);
    let raised = Rlimit { current: Some(most), maximum: limits.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => most,
        Err(error) => {
            tracing::warn!(%error, before, most, "the bound on descriptors cannot be raised");
            before
        }
    }
}

/// Number of client connections for which the descriptors suffice, beside the database's.
pub fn room(descriptors: u64, database_connections: u32) -> usize {
    let left = descriptors.saturating_sub(OTHERS + u64::from(database_connections));
    usize::try_from(left).unwrap_or(usize::MAX).max(1)
}

/// A message for the operator if there are too few descriptors for `connections`.
pub fn shortage(connections: usize, descriptors: u64, database_connections: u32) -> Option<String> {
    let room = room(descriptors, database_connections);
    (room < connections).then(|| {
        format!(
            "--max-connections is {connections}, but {descriptors} file descriptors (ulimit -Hn, \
             LimitNOFILE) are enough for {room} connections only"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{room, shortage};

    #[test]
    fn connections_leave_room_for_what_else_is_open() {
        assert_eq!(room(1024, 10), 854);
        assert_eq!(room(100, 10), 1);
        assert_eq!(shortage(854, 1024, 10), None);
        let message = shortage(10_000, 1024, 10).unwrap();
        assert!(message.contains("1024") && message.contains("854 connections"), "{message}");
    }
}
