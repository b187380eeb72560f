//! Files and directories of the private PostgreSQL.
//!
//! If started as root, Berth opens files in a directory that belongs to PostgreSQL's user, who could have put links
//! there. Therefore no link is followed, and the owner and the kind of each file are checked after opening it, not by
//! path.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use uuid::Uuid;

use crate::server::failure::Failure;

/// Maximum length of a socket's directory, in bytes.
const SOCKET_DIR_LENGTH_MAX: usize = 80;
/// Maximum size of the file with a cluster's version, in bytes.
const VERSION_BYTES_MAX: u64 = 64;
const ROOT: u32 = 0;

/// An unprivileged user, used if Berth runs as root, because PostgreSQL refuses root.
#[derive(Clone, Debug)]
pub(super) struct SystemUser {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// A directory that was checked when it was opened. Files in it are opened relative to its descriptor, so that
/// changes of its path have no effect.
#[derive(Debug)]
pub(super) struct Directory {
    handle: File,
    path: PathBuf,
    owners: [u32; 2],
}

impl Directory {
    /// Opens or creates the data directory. It belongs to root, to this process's user or to PostgreSQL's. The path
    /// itself may be a link, since the operator chose it.
    ///
    /// # Errors
    /// It cannot be created or opened, or it belongs to another user.
    pub(super) fn open(path: &Path, user: Option<&SystemUser>) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure(format!("{}: {error}", path.display()));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        if make(path).map_err(failed)? {
            give(&open_directory(path, OFlags::NOFOLLOW).map_err(failed)?, user).map_err(failed)?;
        }
        let handle = open_directory(path, OFlags::empty()).map_err(failed)?;
        let (owner, owners) = (handle.metadata().map_err(failed)?.uid(), owners(user));
        if owner != ROOT && !owners.contains(&owner) {
            return Err(Failure(format!(
                "{} belongs to the user with id {owner}, who could change what is in it: choose \
                 another --data-dir",
                path.display()
            )));
        }
        Ok(Self { handle, path: path.to_owned(), owners })
    }

    /// Opens or creates a file in it for appending.
    ///
    /// # Errors
    /// The name exists, but is not a file that belongs to Berth.
    pub(super) fn file(&self, name: &str) -> Result<File, Failure> {
        let path = self.path.join(name);
        // Non-blocking, because opening a pipe would wait for its other end.
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR);
        let file = opened.map(File::from).map_err(|error| match error {
            Errno::LOOP => refused(&path, "is a link, and links are not followed there"),
            Errno::NXIO => refused(&path, "is not a file"),
            other => Failure(format!("{}: {}", path.display(), io::Error::from(other))),
        })?;
        let found =
            file.metadata().map_err(|error| Failure(format!("{}: {error}", path.display())))?;
        if !found.is_file() {
            return Err(refused(&path, "is not a file"));
        }
        if found.nlink() > 1 {
            return Err(refused(&path, "has another name (a hard link)"));
        }
        if !self.owners.contains(&found.uid()) {
            return Err(refused(&path, "belongs to another user"));
        }
        Ok(file)
    }
}

/// The user who runs the cluster in a data directory: the owner of both. `None` if that is root, or if they belong to
/// two users.
pub(super) fn owner(data: &Path) -> Option<SystemUser> {
    let directory = std::fs::metadata(data).ok()?;
    let cluster = std::fs::symlink_metadata(data.join("postgres")).ok()?;
    let (uid, gid) = (directory.uid(), directory.gid());
    let is_one = uid != ROOT && cluster.is_dir() && cluster.uid() == uid;
    is_one.then(|| SystemUser { name: format!("with id {uid}"), uid, gid })
}

/// The PostgreSQL version of a cluster; `None` if there is no cluster.
///
/// # Errors
/// The version file is invalid, or belongs to another user.
pub(super) fn cluster_version(
    cluster: &Path,
    user: Option<&SystemUser>,
) -> Result<Option<u32>, Failure> {
    let path = cluster.join("PG_VERSION");
    let failed = |error: io::Error| Failure(format!("{}: {error}", path.display()));
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match File::options().read(true).custom_flags(bits(flags)).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() || !owners(user).contains(&found.uid()) {
        return Err(refused(&path, "is not a file of PostgreSQL's user"));
    }
    let mut text = String::new();
    file.take(VERSION_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let version = text.trim().parse().map_err(|_| refused(&path, "does not have a version"))?;
    Ok(Some(version))
}

/// The directory of the socket: the data directory, unless its path is too long for a socket. Then it is one below
/// `temporary`, with a name that stays the same between starts unless another user has taken it.
///
/// # Errors
/// No path is short enough, or no directory can be created.
pub(super) fn socket_directory(
    data: &Path,
    temporary: &Path,
    user: Option<&SystemUser>,
) -> Result<PathBuf, Failure> {
    if data.as_os_str().len() <= SOCKET_DIR_LENGTH_MAX {
        return Ok(data.to_owned());
    }
    let hash = data.as_os_str().as_encoded_bytes().iter().fold(0_u64, |hash, byte| {
        hash.wrapping_mul(1_099_511_628_211).wrapping_add(u64::from(*byte))
    });
    let usual = temporary.join(format!("berth-{hash:016x}"));
    let Err(why) = private(&usual, user) else { return short_enough(usual) };
    let other = temporary.join(format!("berth-{}", Uuid::new_v4().simple()));
    private(&other, user)?;
    tracing::warn!(%why, instead = %other.display(), "the directory of the socket is not ours");
    short_enough(other)
}

fn short_enough(directory: PathBuf) -> Result<PathBuf, Failure> {
    if directory.as_os_str().len() <= SOCKET_DIR_LENGTH_MAX {
        return Ok(directory);
    }
    Err(Failure(format!(
        "{} is too long a path for a socket: choose a --data-dir of at most \
         {SOCKET_DIR_LENGTH_MAX} bytes, or a shorter TMPDIR",
        directory.display()
    )))
}

/// Creates a directory that only PostgreSQL's user can enter, or checks an existing one.
fn private(path: &Path, user: Option<&SystemUser>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure(format!("{}: {error}", path.display()));
    make(path).map_err(failed)?;
    let handle = open_directory(path, OFlags::NOFOLLOW).map_err(failed)?;
    let found = handle.metadata().map_err(failed)?;
    if !owners(user).contains(&found.uid()) || found.mode() & 0o077 != 0 {
        return Err(refused(path, "is accessible to other users"));
    }
    give(&handle, user).map_err(failed)
}

/// Creates a directory for its owner only. Returns `false` if the name exists.
fn make(path: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn open_directory(path: &Path, flags: OFlags) -> io::Result<File> {
    File::options().read(true).custom_flags(bits(OFlags::DIRECTORY | flags)).open(path)
}

/// Transfers a directory from this process's user to PostgreSQL's.
fn give(directory: &File, user: Option<&SystemUser>) -> io::Result<()> {
    let Some(user) = user else { return Ok(()) };
    if !owners(Some(user)).contains(&directory.metadata()?.uid()) {
        return Err(io::Error::other("it belongs to another user already"));
    }
    fchown(directory, Some(user.uid), Some(user.gid))
}

/// Permitted owners of opened files: this process's user and PostgreSQL's.
fn owners(user: Option<&SystemUser>) -> [u32; 2] {
    let own = rustix::process::geteuid().as_raw();
    [own, user.map_or(own, |user| user.uid)]
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure(format!("{} {why}: find out who put it there, and remove it", path.display()))
}

fn bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
