//! The system user that runs the private PostgreSQL.

/// An unprivileged user, used if Berth runs as root, because PostgreSQL refuses root.
#[derive(Clone, Debug)]
pub(super) struct SystemUser {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}
