//! Writes the configuration file, which contains secrets.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file that only its owner can read. With `force`, it replaces an existing file
/// atomically.
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
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
