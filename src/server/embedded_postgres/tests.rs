//! Tests of the files beside the private PostgreSQL, and that links are not followed.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::files::{Directory, cluster_version, socket_directory};
use super::{EmbeddedPostgres, LOCK, LOG};

/// A user that owns none of the tests' files.
const SOMEBODY_ELSE: u32 = 54_321;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// A link to a file of root's used to be followed, and the file emptied.
#[tokio::test]
async fn a_link_in_the_place_of_the_lock_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (data, precious) = (folder.path().join("data"), folder.path().join("precious"));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(&precious, "precious").unwrap();
    symlink(&precious, data.join(LOCK)).unwrap();
    if is_root() {
        let user = super::unprivileged().unwrap().unwrap();
        chown(&data, Some(user.uid), Some(user.gid)).unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    }
    let why = EmbeddedPostgres::start(&data).await.unwrap_err().to_string();
    assert!(why.contains("berth.lock is a link"), "{why}");
    assert_eq!(text_of(&precious), "precious");
}

#[test]
fn only_files_of_ours_are_opened_in_the_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (data, precious) = (folder.path().join("data"), folder.path().join("precious"));
    let directory = Directory::open(&data, None).unwrap();
    std::fs::write(&precious, "precious").unwrap();
    let path = data.join(LOG);
    let refused = |why: &str| {
        let error = directory.file(LOG).unwrap_err().to_string();
        assert!(error.contains(&format!("postgres.log {why}")), "{error}");
        assert_eq!(text_of(&precious), "precious");
    };

    symlink(&precious, &path).unwrap();
    refused("is a link");
    std::fs::remove_file(&path).unwrap();
    symlink(folder.path().join("nothing yet"), &path).unwrap();
    refused("is a link");
    std::fs::remove_file(&path).unwrap();
    std::fs::hard_link(&precious, &path).unwrap();
    refused("has another name");
    std::fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    refused("is not a file");
    std::fs::remove_file(&path).unwrap();

    drop(directory.file(LOG).unwrap());
    assert_eq!(mode(&path), 0o600);
    std::fs::write(&path, "a line\n").unwrap();
    std::io::Write::write_all(&mut directory.file(LOG).unwrap(), b"another\n").unwrap();
    assert_eq!(text_of(&path), "a line\nanother\n");
    if is_root() {
        chown(&path, Some(SOMEBODY_ELSE), None).unwrap();
        refused("belongs to another user");
    }
}

#[test]
fn the_data_directory_is_that_which_was_checked() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("above").join("data");
    let directory = Directory::open(&data, None).unwrap();
    assert_eq!(mode(&data), 0o700);
    // Another directory takes its place.
    let moved = folder.path().join("moved");
    std::fs::rename(&data, &moved).unwrap();
    let theirs = folder.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    symlink(&theirs, &data).unwrap();
    drop(directory.file(LOG).unwrap());
    assert!(moved.join(LOG).exists() && !theirs.join(LOG).exists());
    // A link that the operator has put there is followed.
    drop(Directory::open(&data, None).unwrap().file(LOG).unwrap());
    assert!(theirs.join(LOG).exists());
    if is_root() {
        chown(&theirs, Some(SOMEBODY_ELSE), None).unwrap();
        let why = Directory::open(&data, None).unwrap_err().to_string();
        assert!(why.contains("belongs to the user with id 54321"), "{why}");
    }
}

#[test]
fn the_version_of_a_cluster_is_a_number_in_a_file_of_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("PG_VERSION");
    let version = || cluster_version(folder.path(), None).map_err(|why| why.to_string());
    assert_eq!(version(), Ok(None));
    std::fs::write(&path, "15\n").unwrap();
    assert_eq!(version(), Ok(Some(15)));
    std::fs::write(&path, "root:secret").unwrap();
    let why = version().unwrap_err();
    assert!(why.contains("does not have a version") && !why.contains("secret"), "{why}");
    std::fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    version().unwrap_err();
    std::fs::remove_file(&path).unwrap();
    // Without a writer, reading it would never end.
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(version().unwrap_err().contains("is not a file"));
}

#[test]
fn the_directory_of_the_socket_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path();
    let short = Path::new("/var/lib/berth");
    assert_eq!(socket_directory(short, temporary, None).unwrap(), short);

    let long = Path::new("/").join("long".repeat(30));
    let chosen = || socket_directory(&long, temporary, None).unwrap();
    let usual = chosen();
    assert!(usual.starts_with(temporary));
    assert_eq!(mode(&usual), 0o700);
    assert_eq!(chosen(), usual);
    // Others can enter it.
    std::fs::set_permissions(&usual, Permissions::from_mode(0o755)).unwrap();
    let other = chosen();
    assert!(other != usual && mode(&other) == 0o700);
    assert_ne!(chosen(), other);
    std::fs::remove_dir(&usual).unwrap();
    // A link, even to a directory of the same user.
    symlink(&other, &usual).unwrap();
    assert_ne!(chosen(), usual);
    std::fs::remove_file(&usual).unwrap();
    assert_eq!(chosen(), usual);
    if is_root() {
        chown(&usual, Some(SOMEBODY_ELSE), None).unwrap();
        assert_ne!(chosen(), usual);
    }
}

#[test]
fn a_too_long_temporary_path_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("long".repeat(20));
    std::fs::create_dir(&temporary).unwrap();
    let long = Path::new("/").join("long".repeat(30));
    let why = socket_directory(&long, &temporary, None).unwrap_err().to_string();
    assert!(why.contains("too long a path for a socket"), "{why}");
}
