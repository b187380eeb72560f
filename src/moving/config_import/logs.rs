//! The level, the targets and the format of the log.

use super::conversion::Conversion;
use super::diagnostic::Severity;
use super::table::{self, DEFAULT, KnownOption};
use super::values::Value;

/// Modules of the reference, and the log targets in Berth that correspond to them.
const MODULES: [(&str, &str); 6] = [
    ("placement", "berth"),
    ("keystonemiddleware", "berth::auth::keystone"),
    ("keystoneauth", "berth::auth::keystone"),
    ("oslo_policy", "berth::auth::policy"),
    ("oslo.policy", "berth::auth::policy"),
    ("sqlalchemy", "sqlx"),
];

/// `debug` and `default_log_levels`.
pub(super) fn filter(conversion: &mut Conversion<'_>, debug: &KnownOption) {
    let mut origin = None;
    let mut filter = vec!["info".to_owned()];
    if let Some(levels) = table::find(DEFAULT, "default_log_levels")
        && let Some((Value::List(pairs), location)) = conversion.set_value(levels)
    {
        filter.extend(pairs.iter().filter_map(|pair| directive(pair)));
        if filter.len() <= pairs.len() {
            let message = "converted only the levels of modules that have an equivalent: placement, \
                           keystonemiddleware, oslo_policy, sqlalchemy";
            conversion.report(Severity::Note, levels, &location, message);
        }
        origin = Some((levels, location)).filter(|_| filter.len() > 1);
    }
    if let Some((Value::Boolean(is_debug), location)) = conversion.set_value(debug) {
        if is_debug && let Some(level) = filter.first_mut() {
            "debug".clone_into(level);
        }
        return conversion.convert("log", Value::Text(filter.join(",")), debug, &location);
    }
    if let Some((levels, location)) = origin {
        conversion.convert("log", Value::Text(filter.join(",")), levels, &location);
    }
}

/// `use_json`.
pub(super) fn format(conversion: &mut Conversion<'_>, option: &KnownOption) {
    if let Some((Value::Boolean(json), location)) = conversion.set_value(option) {
        let format = if json { "json" } else { "human" };
        conversion.convert("log-format", Value::Text(format.to_owned()), option, &location);
    }
}

/// The directive for `module=LEVEL`, if Berth has an equivalent of the module.
fn directive(pair: &str) -> Option<String> {
    let (module, level) = pair.split_once('=')?;
    let (_, target) = MODULES.iter().find(|(name, _)| *name == module)?;
    let level = match level {
        "TRACE" | "5" => "trace",
        "DEBUG" | "10" => "debug",
        "INFO" | "20" => "info",
        "WARN" | "WARNING" | "30" => "warn",
        "ERROR" | "CRITICAL" | "FATAL" | "40" | "50" => "error",
        _ => return None,
    };
    Some(format!("{target}={level}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_modules_with_an_equivalent_are_kept() {
        assert_eq!(directive("placement=DEBUG").as_deref(), Some("berth=debug"));
        assert_eq!(directive("sqlalchemy=30").as_deref(), Some("sqlx=warn"));
        assert_eq!(directive("amqp=WARN"), None);
        assert_eq!(directive("placement=LOUD"), None);
        assert_eq!(directive("placement"), None);
    }
}
