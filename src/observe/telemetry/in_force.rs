//! Fields of spans for the active format. There is a layer for each format, and both see all spans, so a span
//! has its fields in the format that was active when it started.

use std::fmt;

use tracing::span::Record;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FormatFields, FormattedFields};

use crate::observe::log_settings::{self, LogFormat};

/// Formats fields if their format is active.
pub(super) struct FieldsInForce<F> {
    format: LogFormat,
    fields: F,
}

impl<F> FieldsInForce<F> {
    /// Makes the fields of a format.
    pub(super) fn new(format: LogFormat, fields: F) -> Self {
        Self { format, fields }
    }
}

impl<'w, F> FormatFields<'w> for FieldsInForce<F>
where
    F: for<'a> FormatFields<'a> + 'static,
{
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        match self.format {
            in_force if in_force == log_settings::format() => {
                self.fields.format_fields(writer, fields)
            }
            // A span without fields must still be JSON for lines that come after a change of the format.
            LogFormat::Json => writer.write_str("{}"),
            LogFormat::Human => Ok(()),
        }
    }

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        if self.format != log_settings::format() {
            return Ok(());
        }
        let mut own = FormattedFields::<F>::new(std::mem::take(&mut current.fields));
        let added = self.fields.add_fields(&mut own, fields);
        current.fields = own.fields;
        added
    }
}
