//! The file of a report. An existing file is kept until the new report is complete.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::server::failure::Failure;

/// A file to which a report will be written.
#[derive(Debug)]
pub(super) struct ReportFile {
    /// The report's path.
    path: PathBuf,
    /// The temporary file; `None` if the path is a pipe or a device.
    draft: Option<PathBuf>,
    file: File,
}

impl ReportFile {
    /// Opens the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        Self::try_open(path).map_err(|error| failed(path, &error))
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        // Links are resolved, so that the file is replaced and not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_special = fs::metadata(&path).is_ok_and(|it| !it.is_file());
        if is_special {
            let file = File::options().write(true).open(&path)?;
            return Ok(Self { path, draft: None, file });
        }
        let mut draft = path.clone().into_os_string();
        draft.push(format!(".{}.new", std::process::id()));
        let draft = PathBuf::from(draft);
        let file = File::create(&draft)?;
        Ok(Self { path, draft: Some(draft), file })
    }

    /// Writes the report, and replaces the previous file.
    ///
    /// # Errors
    /// It cannot be written. The previous file is kept.
    pub(super) fn write(mut self, contents: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.try_write(contents.as_ref()).map_err(|error| failed(&self.path, &error))
    }

    fn try_write(&mut self, contents: &[u8]) -> io::Result<()> {
        self.file.write_all(contents)?;
        let Some(draft) = &self.draft else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(draft, &self.path)?;
        self.draft = None;
        Ok(())
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            drop(fs::remove_file(draft));
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::ReportFile;

    #[test]
    fn a_report_stays_until_there_is_a_new_one() {
        let folder = std::env::temp_dir().join(format!("berth-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("report.json");
        fs::write(&path, "before").unwrap();
        let file = ReportFile::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        ReportFile::open(&path).unwrap().write("after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_unwritable_file_fails() {
        assert!(ReportFile::open(Path::new("/no/such/folder/report")).is_err());
        assert!(ReportFile::open(Path::new("/dev/full")).unwrap().write("words").is_err());
    }
}
