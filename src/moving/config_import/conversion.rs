//! A conversion in progress: its input, its output so far, and what every option needs.

use super::diagnostic::{Diagnostic, Location, Severity};
use super::settings::Settings;
use super::sources::Sources;
use super::table::{self, KnownOption};
use super::values::Value;

/// Values that the operator adds to the files.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// URL of Berth's PostgreSQL, instead of `connection`.
    pub database_url: Option<String>,
}

/// An option of Berth with its value.
#[derive(Debug)]
pub(super) struct Converted {
    pub key: &'static str,
    pub value: Value,
    /// The option of the reference and where it is set, for a comment.
    pub origin: String,
}

/// A conversion in progress.
pub(super) struct Conversion<'a> {
    pub settings: &'a Settings,
    pub sources: &'a Sources,
    pub overrides: &'a Overrides,
    pub converted: Vec<Converted>,
    pub diagnostics: Vec<Diagnostic>,
}

impl Conversion<'_> {
    /// The effective value, which may be the default. Reports an invalid one.
    pub(super) fn value(&mut self, option: &KnownOption) -> Option<(Value, Location)> {
        match self.settings.value(option) {
            Ok((value, location)) => value.map(|value| (value, location)),
            Err(diagnostic) => {
                self.diagnostics.push(diagnostic);
                None
            }
        }
    }

    /// The value, if the option is set. Reports an invalid one.
    pub(super) fn set_value(&mut self, option: &KnownOption) -> Option<(Value, Location)> {
        self.value(option).filter(|(_, location)| *location != Location::Unset)
    }

    /// The value of a text option, if the option is set and not empty.
    pub(super) fn text(&mut self, section: &str, name: &str) -> Option<(String, Location)> {
        match self.set_value(table::find(section, name)?)? {
            (Value::Text(text), location) if !text.is_empty() => Some((text, location)),
            _ => None,
        }
    }

    /// Sets an option of Berth.
    pub(super) fn convert(
        &mut self,
        key: &'static str,
        value: Value,
        option: &KnownOption,
        location: &Location,
    ) {
        let name = self.settings.name(option);
        let origin = match location {
            Location::Unset => format!("{name}, its default"),
            Location::Line(..) | Location::Variable(_) => format!("{name}, {location}"),
        };
        self.converted.push(Converted { key, value, origin });
    }

    pub(super) fn report(
        &mut self,
        severity: Severity,
        option: &KnownOption,
        location: &Location,
        message: impl Into<String>,
    ) {
        let (option, location) = (self.settings.name(option), location.clone());
        self.diagnostics.push(Diagnostic { severity, option, location, message: message.into() });
    }
}
