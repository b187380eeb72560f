//! File descriptors: each connection takes one, and the system gives only so many.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for all but connections of clients and of the database: listeners, files, pipes,
/// questions to Keystone.
const OTHERS: u64 = 160;
/// What is asked for where the system names no bound.
const UNBOUNDED: u64 = 1_048_576;

/// How many descriptors the process may have at the most, once it has raised its own bound.
pub fn most() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(UNBOUNDED)
}

/// Raises the bound of the process (soft) to what the system allows it (hard). Says what it is now.
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

/// How many connections of clients so many descriptors are enough for, beside the database's.
pub fn room(descriptors: u64, database_connections: u32) -> usize {
    let left = descriptors.saturating_sub(OTHERS + u64::from(database_connections));
    usize::try_from(left).unwrap_or(usize::MAX).max(1)
}

/// What to tell the operator if descriptors are too few for so many connections.
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
        let told = shortage(10_000, 1024, 10).unwrap();
        assert!(told.contains("1024") && told.contains("854 connections"), "{told}");
    }
}
