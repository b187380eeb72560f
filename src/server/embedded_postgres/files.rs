//! Files and directories of the private PostgreSQL.
//!
//! Started as root, Berth opens files in a directory that belongs to the user that PostgreSQL runs
//! as, and that user could have put links there. So nothing is opened through a link, and the owner
//! and the kind of everything are checked on what was opened, not on its path.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use uuid::Uuid;

use super::{Result, SystemUser, failure};

/// The longest path of a socket's directory that systems take for a socket in it, in bytes.
const SOCKET_DIR_LENGTH_MAX: usize = 80;
/// The largest file that tells the version of a cluster, in bytes.
const VERSION_BYTES_MAX: u64 = 64;
const ROOT: u32 = 0;

/// A directory that was checked when it was opened. Files in it are found by its descriptor, so
/// that its path may lead elsewhere later.
#[derive(Debug)]
pub(super) struct Directory {
    handle: File,
    path: PathBuf,
    owners: [u32; 2],
}

impl Directory {
    /// Opens the data directory, and makes it if there is none. It belongs to root, to this
    /// process's user or to PostgreSQL's. The path itself may be a link: the operator chose it.
    ///
    /// # Errors
    /// It cannot be made or opened, or it belongs to somebody else.
    pub(super) fn open(path: &Path, user: Option<&SystemUser>) -> Result<Self> {
        let told = |error: io::Error| failure(format!("{}: {error}", path.display()));
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(told)?;
        }
        if make(path).map_err(told)? {
            give(&open_directory(path, OFlags::NOFOLLOW).map_err(told)?, user).map_err(told)?;
        }
        let handle = open_directory(path, OFlags::empty()).map_err(told)?;
        let (owner, owners) = (handle.metadata().map_err(told)?.uid(), owners(user));
        if owner != ROOT && !owners.contains(&owner) {
            return Err(failure(format!(
                "{} belongs to the user with id {owner}, who could change what is in it: choose \
                 another --data-dir",
                path.display()
            )));
        }
        Ok(Self { handle, path: path.to_owned(), owners })
    }

    /// Opens a file in it for writing at its end, and makes it if there is none.
    ///
    /// # Errors
    /// There is something else than a file of ours by this name.
    pub(super) fn file(&self, name: &str) -> Result<File> {
        let path = self.path.join(name);
        // Without blocking, because a pipe would be waited for.
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR);
        let file = opened.map(File::from).map_err(|error| match error {
            Errno::LOOP => refused(&path, "is a link, and links are not followed there"),
            Errno::NXIO => refused(&path, "is not a file"),
            other => failure(format!("{}: {}", path.display(), io::Error::from(other))),
        })?;
        let found =
            file.metadata().map_err(|error| failure(format!("{}: {error}", path.display())))?;
        if !found.is_file() {
            return Err(refused(&path, "is not a file"));
        }
        if found.nlink() > 1 {
            return Err(refused(&path, "has another name (a hard link)"));
        }
        if !self.owners.contains(&found.uid()) {
            return Err(refused(&path, "belongs to somebody else"));
        }
        Ok(file)
    }
}

/// The user who runs the cluster in a data directory: the owner of both. `None` if that is root, or
/// if they belong to two users.
pub(super) fn owner(data: &Path) -> Option<SystemUser> {
    let directory = std::fs::metadata(data).ok()?;
    let cluster = std::fs::symlink_metadata(data.join("postgres")).ok()?;
    let (uid, gid) = (directory.uid(), directory.gid());
    let is_one = uid != ROOT && cluster.is_dir() && cluster.uid() == uid;
    is_one.then(|| SystemUser { name: format!("with id {uid}"), uid, gid })
}

/// The version of PostgreSQL that a cluster is of; none if there is no cluster.
///
/// # Errors
/// The file that tells it is no such file, or belongs to somebody else.
pub(super) fn cluster_version(cluster: &Path, user: Option<&SystemUser>) -> Result<Option<u32>> {
    let path = cluster.join("PG_VERSION");
    let told = |error: io::Error| failure(format!("{}: {error}", path.display()));
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match File::options().read(true).custom_flags(bits(flags)).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(error)),
    };
    let found = file.metadata().map_err(told)?;
    if !found.is_file() || !owners(user).contains(&found.uid()) {
        return Err(refused(&path, "is not a file of PostgreSQL's user"));
    }
    let mut text = String::new();
    file.take(VERSION_BYTES_MAX).read_to_string(&mut text).map_err(told)?;
    let version = text.trim().parse().map_err(|_| refused(&path, "does not have a version"))?;
    Ok(Some(version))
}

/// The directory of the socket: the data directory, unless its path is too long for a socket. Then
/// it is one below `temporary`, which keeps its name from start to start unless somebody else has
/// taken that name.
///
/// # Errors
/// There is no path that is short enough, or no directory can be made.
pub(super) fn socket_directory(
    data: &Path,
    temporary: &Path,
    user: Option<&SystemUser>,
) -> Result<PathBuf> {
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

fn short_enough(directory: PathBuf) -> Result<PathBuf> {
    if directory.as_os_str().len() <= SOCKET_DIR_LENGTH_MAX {
        return Ok(directory);
    }
    Err(failure(format!(
        "{} is too long a path for a socket: choose a --data-dir of at most \
         {SOCKET_DIR_LENGTH_MAX} bytes, or a shorter TMPDIR",
        directory.display()
    )))
}

/// Makes a directory that only PostgreSQL's user enters, or finds it as it was made.
fn private(path: &Path, user: Option<&SystemUser>) -> Result<()> {
    let told = |error: io::Error| failure(format!("{}: {error}", path.display()));
    make(path).map_err(told)?;
    let handle = open_directory(path, OFlags::NOFOLLOW).map_err(told)?;
    let found = handle.metadata().map_err(told)?;
    if !owners(user).contains(&found.uid()) || found.mode() & 0o077 != 0 {
        return Err(refused(path, "is open to somebody else"));
    }
    give(&handle, user).map_err(told)
}

/// Makes a directory for its owner only. False: there is something by this name.
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

/// Gives a directory of ours to PostgreSQL's user.
fn give(directory: &File, user: Option<&SystemUser>) -> io::Result<()> {
    let Some(user) = user else { return Ok(()) };
    if !owners(Some(user)).contains(&directory.metadata()?.uid()) {
        return Err(io::Error::other("it belongs to somebody else already"));
    }
    fchown(directory, Some(user.uid), Some(user.gid))
}

/// Who may own what is opened: this process's user and PostgreSQL's.
fn owners(user: Option<&SystemUser>) -> [u32; 2] {
    let own = rustix::process::geteuid().as_raw();
    [own, user.map_or(own, |user| user.uid)]
}

fn refused(path: &Path, why: &str) -> super::Failure {
    failure(format!("{} {why}: look who put it there, and remove it", path.display()))
}

fn bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
