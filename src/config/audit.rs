//! Where the audit log is written, and how.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::audit::{self, AuditLog, Target};

/// Options of the audit log.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Audit log")]
pub struct AuditOptions {
    /// File for the audit log: who has changed what, one JSON object per line; `-`: standard output.
    ///
    /// Requests that only read are not in it. Default: no audit log.
    #[arg(long, env = "BERTH_AUDIT_LOG", value_name = "FILE")]
    pub audit_log: Option<PathBuf>,

    /// Format of the audit log.
    #[arg(long, env = "BERTH_AUDIT_FORMAT", default_value = "json", value_name = "FORMAT")]
    pub audit_format: AuditFormat,
}

/// How entries of the audit log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// Berth's own form.
    Json,
    /// Events of CADF (DMTF DSP0262), as other OpenStack services emit.
    Cadf,
}

impl AuditOptions {
    /// Starts the audit log, if there is to be one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn start(&self) -> Result<Option<AuditLog>, String> {
        let Some(path) = &self.audit_log else { return Ok(None) };
        let target = match path.to_str() {
            Some("-") => Target::Stdout,
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
