//! Writes the configuration file, which contains secrets.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// The group of the service, which must be able to read files that root writes.
const GROUP: &str = "berth";

/// Writes a file that only its owner can read, and the group `berth` if root writes it. With `force`, replaces an
/// existing file atomically.
///
/// # Errors
/// The file exists and `force` is not set, or it cannot be written.
pub fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    if !force {
        return create(path, text).map_err(|why| {
            if why.kind() == std::io::ErrorKind::AlreadyExists {
                "the file exists; pass --force to overwrite it".to_owned()
            } else {
                why.to_string()
            }
        });
    }
    let mut name = path.file_name().ok_or("this is not the name of a file")?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    create(&new, text).and_then(|()| std::fs::rename(&new, path)).map_err(|why| {
        drop(std::fs::remove_file(&new));
        why.to_string()
    })
}

fn create(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    // In a container without mapped groups, only root can read the file.
    if rustix::process::geteuid().is_root()
        && let Some(group) =
            std::fs::read_to_string("/etc/group").ok().and_then(|text| id_of(&text))
        && fchown(&file, None, Some(group)).is_ok()
    {
        file.set_permissions(Permissions::from_mode(0o640))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The id of the service's group in the text of /etc/group.
fn id_of(groups: &str) -> Option<u32> {
    let mut lines = groups.lines().map(|line| line.split(':'));
    lines
        .find_map(|mut fields| if fields.next()? == GROUP { fields.nth(1) } else { None })?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::id_of;

    #[test]
    fn the_group_is_found_by_its_name() {
        let groups = "root:x:0:\n\nberths:x:7:\nberth:x:998:haproxy\n";
        assert_eq!(id_of(groups), Some(998));
        assert_eq!(id_of("root:x:0:\n"), None);
    }
}
