//! Converts the reference's configuration (`placement.conf`, in oslo.config's format) to Berth's.
//!
//! Only [`sources`] reads files and the environment, and only [`output`] writes a file. [`ini`]
//! parses the files, and [`settings`] determines the effective value of each option ([`values`]),
//! with references to other options replaced ([`interpolate`]). [`table`] maps the options of the
//! reference to those of Berth. This file applies the table; [`database`], [`keystone`], [`logs`]
//! and [`policy`] convert the options that need more than a copy. [`render`] formats the result.

mod conversion;
mod database;
mod diagnostic;
mod ini;
mod interpolate;
mod keystone;
mod logs;
pub mod output;
mod policy;
mod render;
mod settings;
pub mod sources;
pub mod table;
mod values;

use conversion::Conversion;
use ini::{Assignment, normalized};
use settings::Settings;
use table::{KEYSTONE, Kind, KnownOption, Mapping};
use values::Value;

pub use conversion::Overrides;
pub use diagnostic::{Diagnostic, Location, Severity};
pub use sources::{Sources, Unreadable};

/// A converted configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Berth's configuration file, with the secrets of the input.
    pub toml: String,
    /// Notes and warnings, in the order of the options. No secrets.
    pub diagnostics: Vec<Diagnostic>,
}

/// Converts the reference's configuration to Berth's.
///
/// # Errors
/// All errors, notes and warnings: the input is malformed, or has an option that can neither be converted nor safely
/// left out. Each message says what to do.
pub fn import(sources: &Sources, overrides: &Overrides) -> Result<Imported, Vec<Diagnostic>> {
    let settings = &Settings::read(sources).map_err(|malformed| vec![malformed])?;
    let (converted, diagnostics) = (Vec::new(), Vec::new());
    let mut conversion = Conversion { settings, sources, overrides, converted, diagnostics };
    let credentials = keystone::Credentials::read(&mut conversion);
    for option in table::all().filter(|option| option.is_read() && option.name != "*") {
        if option.section != KEYSTONE || credentials.use_option(&mut conversion, option) {
            conversion.apply(option);
        }
    }
    conversion.report_unread_lines();
    let Conversion { converted, diagnostics, .. } = conversion;
    if diagnostics.iter().any(|it| it.severity == Severity::Error) {
        return Err(diagnostics);
    }
    Ok(Imported { toml: render::toml(sources, &converted, &diagnostics), diagnostics })
}

impl Conversion<'_> {
    /// Applies the table's mapping of an option.
    fn apply(&mut self, option: &'static KnownOption) {
        match option.mapping {
            Mapping::Copied(key) => self.copy(option, key, None),
            Mapping::Limited(key, min, max) => self.copy(option, key, Some((min, max))),
            Mapping::Derived(..) => self.derive(option),
            Mapping::Unneeded(why) => self.leave_out(option, Severity::Note, why),
            Mapping::Lost(why) => self.leave_out(option, Severity::Warning, why),
            Mapping::Refused(why) => self.leave_out(option, Severity::Error, why),
            Mapping::Obsolete(_) => {}
        }
    }

    fn derive(&mut self, option: &'static KnownOption) {
        match option.name {
            "debug" => logs::filter(self, option),
            "use_json" => logs::format(self, option),
            "randomize_allocation_candidates" => self.randomize(option),
            "auth_strategy" => keystone::strategy(self, option),
            "auth_type" => keystone::auth_type(self, option),
            "default_domain_name" | "default_domain_id" => keystone::default_domain(self, option),
            "token_cache_time" => keystone::cache_time(self, option),
            "connection" => database::url(self, option),
            "max_pool_size" => database::pool(self, option),
            "policy_file" => policy::file(self, option),
            "policy_dirs" => policy::directories(self, option),
            // Read with another option: default_log_levels, connection_parameters, auth_section.
            _ => {}
        }
    }

    /// `randomize_allocation_candidates`.
    fn randomize(&mut self, option: &KnownOption) {
        if let Some((Value::Boolean(true), location)) = self.set_value(option) {
            self.convert("candidate-order", Value::Text("random".to_owned()), option, &location);
        }
    }

    /// Copies a value that is set.
    fn copy(&mut self, option: &KnownOption, key: &'static str, limits: Option<(i64, i64)>) {
        let Some((mut value, location)) = self.set_value(option) else { return };
        match (&mut value, limits) {
            (Value::Text(text), _) if text.is_empty() && option.section == KEYSTONE => return,
            (Value::Integer(number), Some((min, max))) if !(min..=max).contains(number) => {
                let max = if max == i64::MAX { "or more".to_owned() } else { format!("to {max}") };
                let message = format!("Berth's {key} must be {min} {max}");
                return self.report(Severity::Error, option, &location, message);
            }
            (Value::List(items), _) => items.retain(|item| !item.is_empty()),
            _ => {}
        }
        self.convert(key, value, option, &location);
    }

    /// Reports an option that Berth does not have, unless its value makes no difference.
    fn leave_out(&mut self, option: &KnownOption, severity: Severity, why: &str) {
        let location = self.settings.location(option);
        // Berth does not use the value; an unreadable one just differs from the default.
        let value = self.settings.value(option).ok().and_then(|(value, _)| value);
        let default = match option.default {
            Some(text) => values::read(option.kind, text).ok().flatten(),
            None => Some(Value::Text(String::new())),
        };
        let is_refused = severity == Severity::Error;
        let is_allowed = is_refused && matches!(option.kind, Kind::Choice(_)) && value.is_some();
        if location == Location::Unset || is_allowed || (value.is_some() && value == default) {
            return;
        }
        let message = if is_refused { why.to_owned() } else { format!("not converted: {why}") };
        self.report(severity, option, &location, message);
    }

    /// Reports the lines that the reference ignores.
    fn report_unread_lines(&mut self) {
        for (location, line) in self.settings.assignments() {
            let (severity, message) = match self.mapping_of(line) {
                Some(Mapping::Obsolete(why)) => {
                    (Severity::Note, format!("the reference ignores it: {why}"))
                }
                Some(Mapping::Unneeded(why)) => (Severity::Note, format!("not converted: {why}")),
                Some(_) => continue,
                None => (Severity::Warning, unknown(line)),
            };
            let option = format!("[{}] {}", line.section, line.name);
            self.diagnostics.push(Diagnostic { severity, option, location, message });
        }
    }

    /// The table's mapping of a line that the reference ignores. [`Mapping::Copied`] represents every option that is
    /// already handled.
    fn mapping_of(&self, line: &Assignment) -> Option<Mapping> {
        let (section, name) = (line.section.as_str(), line.name.as_str());
        let other = self.settings.other_auth_section();
        let known = table::all().find(|option| {
            let own = normalized(self.settings.section(option));
            let is_deprecated = option.deprecated().any(|(deprecated, it)| {
                it == name
                    && section == if deprecated == option.section { &own } else { deprecated }
            });
            is_deprecated || (own == section && option.name == name)
        });
        if let Some(option) = known {
            return Some(if option.is_read() { Mapping::Copied("") } else { option.mapping });
        }
        if other.is_some() && table::find(section, name).is_some_and(|option| option.movable) {
            return Some(Mapping::Obsolete("auth_section says where the credentials are"));
        }
        table::find(section, "*").map(|option| option.mapping)
    }
}

/// The message about an option that is not in the table.
fn unknown(line: &Assignment) -> String {
    match table::find(&line.section, &line.name.to_lowercase().replace('-', "_")) {
        Some(meant) => format!("the reference ignores it; it reads {}", meant.name),
        None => "neither the reference nor Berth has this option".to_owned(),
    }
}
