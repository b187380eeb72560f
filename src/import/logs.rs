//! What is logged, and in which form.

use super::conversion::Conversion;
use super::remark::Level;
use super::table::{self, DEFAULT, KnownOption};
use super::values::Value;

/// Modules of the reference, and what does their work in Berth.
const MODULES: [(&str, &str); 6] = [
    ("placement", "berth"),
    ("keystonemiddleware", "berth::keystone"),
    ("keystoneauth", "berth::keystone"),
    ("oslo_policy", "berth::policy"),
    ("oslo.policy", "berth::policy"),
    ("sqlalchemy", "sqlx"),
];

/// `debug` and `default_log_levels`.
pub(super) fn filter(conversion: &mut Conversion<'_>, known: &KnownOption) {
    let debug = conversion.given(known);
    let levels = table::find(DEFAULT, "default_log_levels")
        .and_then(|known| conversion.given(known).map(|(value, place)| (known, value, place)));
    let mut directives: Vec<String> = Vec::new();
    if let Some((known, Value::List(pairs), place)) = &levels {
        directives = pairs.iter().filter_map(|pair| directive(pair)).collect();
        if directives.len() < pairs.len() {
            let words = "only the levels of what Berth has too are carried over: placement, \
                         keystonemiddleware, oslo_policy, sqlalchemy";
            conversion.say(Level::Note, known, place.clone(), words.to_owned());
        }
    }
    let level = match &debug {
        Some((Value::Boolean(true), _)) => "debug",
        _ => "info",
    };
    let text = [vec![level.to_owned()], directives].concat().join(",");
    match (debug, levels) {
        (Some((_, place)), _) => conversion.carry("log", Value::Text(text), known, &place),
        (None, Some((known, _, place))) if text.contains(',') => {
            conversion.carry("log", Value::Text(text), known, &place);
        }
        _ => {}
    }
}

/// `use_json`.
pub(super) fn format(conversion: &mut Conversion<'_>, known: &KnownOption) {
    if let Some((Value::Boolean(json), place)) = conversion.given(known) {
        let format = if json { "json" } else { "human" };
        conversion.carry("log-format", Value::Text(format.to_owned()), known, &place);
    }
}

/// `module=LEVEL` as a directive, if Berth has the like.
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
    fn levels_of_what_berth_has_are_kept() {
        assert_eq!(directive("placement=DEBUG").as_deref(), Some("berth=debug"));
        assert_eq!(directive("sqlalchemy=30").as_deref(), Some("sqlx=warn"));
        assert_eq!(directive("amqp=WARN"), None);
        assert_eq!(directive("placement=LOUD"), None);
        assert_eq!(directive("placement"), None);
    }
}
