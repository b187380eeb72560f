//! `[oslo_policy]`: the files with policy rules, found as oslo.config finds files.

use std::path::{Path, PathBuf};

use super::conversion::Conversion;
use super::diagnostic::{Location, Severity};
use super::table::KnownOption;
use super::values::Value;

/// `policy_file`; its default is a file beside the configuration files.
pub(super) fn file(conversion: &mut Conversion<'_>, option: &KnownOption) {
    if let Some((Value::Text(name), location)) = conversion.value(option)
        && !name.is_empty()
        && let Some(path) = path(conversion, option, &name, &location)
    {
        conversion.convert("policy-file", Value::Text(path), option, &location);
    }
}

/// `policy_dirs`; its default is a directory beside the configuration files.
pub(super) fn directories(conversion: &mut Conversion<'_>, option: &KnownOption) {
    let Some((Value::List(names), location)) = conversion.value(option) else { return };
    if matches!(location, Location::Variable(_)) {
        let message = "not converted: the reference takes each letter of it for a directory; set \
                       policy_dirs in a file";
        return conversion.report(Severity::Warning, option, &location, message);
    }
    let mut paths = Vec::new();
    for name in names {
        let Some(path) = path(conversion, option, &name, &location) else { continue };
        if path.contains(',') {
            let message = "Berth cannot read a directory with a comma in its name; rename it";
            return conversion.report(Severity::Error, option, &location, message);
        }
        paths.push(path);
    }
    if !paths.is_empty() {
        conversion.convert("policy-dirs", Value::List(paths), option, &location);
    }
}

/// The path at which the reference finds a file or directory; `None` for a default that does not exist.
///
/// If a configured one does not exist, this is the first path at which the reference looks: Berth then fails to
/// start, while the reference uses its default rules.
fn path(
    conversion: &mut Conversion<'_>,
    option: &KnownOption,
    name: &str,
    location: &Location,
) -> Option<String> {
    let folders = conversion.sources.folders.clone();
    let mut candidates = folders.iter().map(|folder| folder.join(name));
    let found: Option<PathBuf> = candidates.clone().find(|path| (conversion.sources.exists)(path));
    if found.is_none() {
        if *location == Location::Unset {
            return None;
        }
        let message = "does not exist where the reference looks for it; the reference then uses \
                       its default rules, but Berth does not start: create it, or remove the line";
        conversion.report(Severity::Warning, option, location, message);
    }
    let path = found.or_else(|| candidates.next()).unwrap_or_else(|| Path::new(name).to_owned());
    Some(path.to_string_lossy().into_owned())
}
