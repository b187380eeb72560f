//! Finds and reads the files, as the reference does.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The environment variable with the directory of `placement.conf`.
const FOLDER: &str = "OS_PLACEMENT_CONFIG_DIR";

/// The input of an import.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Name and text of each file; a later file overrides an earlier one.
    pub files: Vec<(String, String)>,
    /// Environment variables; `OS_GROUP__OPTION` overrides the files.
    pub environment: BTreeMap<String, String>,
    /// Directories in which the reference looks for files that options name, in order.
    pub folders: Vec<PathBuf>,
    /// Checks whether a file or directory exists.
    pub exists: fn(&Path) -> bool,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct Unreadable {
    path: PathBuf,
    why: String,
}

impl Unreadable {
    fn new(path: &Path, why: impl Display) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

impl Sources {
    /// Reads the files, then the `*.conf` files of the directories by name. Without any, reads what the reference
    /// reads without arguments.
    ///
    /// # Errors
    /// A file or directory does not exist or cannot be read, or the directories have no file.
    pub fn read(files: &[PathBuf], folders: &[PathBuf]) -> Result<Self, Unreadable> {
        let environment: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let usual = usual_folders(&environment);
        let (mut paths, mut more) = (files.to_vec(), folders.to_vec());
        if paths.is_empty() && more.is_empty() {
            paths = vec![usual_file(&environment, &usual)?];
            more.extend(
                usual.iter().map(|one| one.join("placement.conf.d")).find(|it| it.exists()),
            );
        }
        // As in the reference: the directories first, then those of the files, the last file first.
        let beside = paths.iter().rev().map(|path| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        });
        let looked_in = folders.iter().map(PathBuf::as_path).chain(beside);
        let mut looked_in = looked_in
            .map(|path| std::path::absolute(path).map_err(|why| Unreadable::new(path, why)))
            .collect::<Result<Vec<_>, _>>()?;
        looked_in.extend(usual);
        for folder in &more {
            paths.extend(configurations(folder)?);
        }
        if paths.is_empty() {
            let folder = folders.first().map_or(Path::new("."), PathBuf::as_path);
            return Err(Unreadable::new(folder, "contains no *.conf file"));
        }
        let mut files = Vec::new();
        for path in paths {
            let text = std::fs::read_to_string(&path).map_err(|why| Unreadable::new(&path, why))?;
            files.push((path.display().to_string(), text));
        }
        Ok(Self { files, environment, folders: looked_in, exists: Path::exists })
    }
}

/// The directories in which OpenStack's services look for files.
fn usual_folders(environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let variable = |name: &str| environment.get(name).map(PathBuf::from);
    let mut folders = Vec::new();
    if let Some(home) = variable("HOME") {
        folders.extend([home.join(".placement"), home]);
    }
    folders.extend([PathBuf::from("/etc/placement"), PathBuf::from("/etc")]);
    let snaps = ["SNAP_COMMON", "SNAP"].into_iter().filter_map(variable);
    folders.extend(snaps.map(|snap| snap.join("etc/placement")));
    folders
}

fn usual_file(
    environment: &BTreeMap<String, String>,
    usual: &[PathBuf],
) -> Result<PathBuf, Unreadable> {
    let named = environment.get(FOLDER).map(|folder| folder.trim());
    if let Some(folder) = named.filter(|folder| !folder.is_empty()) {
        return Ok(Path::new(folder).join("placement.conf"));
    }
    let found = usual.iter().map(|folder| folder.join("placement.conf")).find(|path| path.exists());
    found.ok_or_else(|| {
        let why = "does not exist, nor in the other default directories; name the file";
        Unreadable::new(Path::new("/etc/placement/placement.conf"), why)
    })
}

/// The configuration files of a directory, by name, without hidden ones.
fn configurations(folder: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let failed = |why: std::io::Error| Unreadable::new(folder, why);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".conf") && !name.starts_with('.') {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
