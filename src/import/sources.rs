//! Reads the files, and finds them where the reference does. Nothing else here looks at files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable that names the folder of `placement.conf`.
const FOLDER: &str = "OS_PLACEMENT_CONFIG_DIR";

/// What there is to import.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Name and text of each file; what stands in a later one wins.
    pub files: Vec<(String, String)>,
    /// Variables of the environment; `OS_GROUP__OPTION` wins over the files.
    pub environment: BTreeMap<String, String>,
    /// Folders in which files that options name are looked for, in this order.
    pub folders: Vec<PathBuf>,
    /// Whether a file or folder is there.
    pub exists: fn(&Path) -> bool,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub struct Unreadable {
    path: PathBuf,
    why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl Unreadable {
    fn new(path: &Path, why: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), why: why.to_string() }
    }
}

impl Sources {
    /// Reads the files, then all `*.conf` of the folders by name. If neither are named, what the
    /// reference reads without arguments.
    ///
    /// # Errors
    /// A file or folder is not there or cannot be read, or there is none.
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
        // As in the reference: folders first, the last file's folder before that of the first.
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
            return Err(Unreadable::new(folder, "there is no file *.conf in it"));
        }
        let files = paths
            .into_iter()
            .map(|path| match std::fs::read_to_string(&path) {
                Ok(text) => Ok((path.display().to_string(), text)),
                Err(why) => Err(Unreadable::new(&path, why)),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { files, environment, folders: looked_in, exists: Path::exists })
    }
}

/// Where services of OpenStack look for files that are not named.
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
        let why = "not there, nor where else the reference looks for it; name the file";
        Unreadable::new(Path::new("/etc/placement/placement.conf"), why)
    })
}

/// The files of a folder that are read, by name. Those that begin with a dot are not.
fn configurations(folder: &Path) -> Result<Vec<PathBuf>, Unreadable> {
    let told = |why: std::io::Error| Unreadable::new(folder, why);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(told)? {
        let entry = entry.map_err(told)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(".conf") && !name.starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}
