//! Options of the audit log.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rustix::fs::{Access, access};

use crate::audit::{self, AuditLog, Target};

/// The word for standard output.
const STDOUT: &str = "-";

/// Options of the audit log.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Audit log")]
pub struct AuditOptions {
    /// File for the audit log: who has changed what, one JSON object per line; `-`: standard output.
    ///
    /// Requests that only read are not in it. Default: no audit log.
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,

    /// Format of the audit log.
    #[arg(long, default_value = "json", value_name = "FORMAT")]
    pub audit_format: AuditFormat,
}

/// Format of entries of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// Berth's own format.
    Json,
    /// Events of CADF (DMTF DSP0262), as other OpenStack services emit.
    Cadf,
}

impl AuditOptions {
    /// Checks that the audit log can be written, as far as possible without creating the file.
    ///
    /// # Errors
    /// It cannot.
    pub fn check(&self) -> Result<(), String> {
        match self.audit_log.as_deref() {
            None => Ok(()),
            Some(path) if path == Path::new(STDOUT) => Ok(()),
            Some(path) => {
                writable(path).map_err(|error| format!("--audit-log {}: {error}", path.display()))
            }
        }
    }

    /// Starts the audit log, if configured.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start(&self) -> Result<Option<AuditLog>, String> {
        let Some(path) = &self.audit_log else { return Ok(None) };
        let target = match path.to_str() {
            Some(STDOUT) => Target::Stdout,
            _ => Target::File(path.clone()),
        };
        let format = match self.audit_format {
            AuditFormat::Json => audit::Format::Json,
            AuditFormat::Cadf => audit::Format::Cadf,
        };
        let started = AuditLog::start(target, format);
        started.map(Some).map_err(|error| format!("--audit-log {}: {error}", path.display()))
    }
}

/// Checks that a file can be appended to, or created in its directory.
fn writable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            let failed = |error: io::Error| {
                let why = format!("the file cannot be created in {}: {error}", directory.display());
                io::Error::new(error.kind(), why)
            };
            if !std::fs::metadata(directory).map_err(failed)?.is_dir() {
                return Err(failed(io::ErrorKind::NotADirectory.into()));
            }
            let needed = Access::WRITE_OK | Access::EXEC_OK;
            access(directory, needed).map_err(|error| failed(error.into()))
        }
        Err(error) => Err(error),
    }
}
