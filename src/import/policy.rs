//! Where the rules stand, found as oslo.config finds files.

use std::path::{Path, PathBuf};

use super::conversion::Conversion;
use super::location::Location;
use super::remark::Level;
use super::table::KnownOption;
use super::values::Value;

/// `policy_file`: given, or by its default name beside the files.
pub(super) fn file(conversion: &mut Conversion<'_>, known: &KnownOption) {
    let (name, place) = match conversion.settings.value(known) {
        Ok((Some(Value::Text(name)), place)) if !name.is_empty() => (name, place),
        Ok(_) => return,
        Err(remark) => return conversion.outcome.remarks.push(remark),
    };
    if let Some(path) = path(conversion, known, &name, &place) {
        conversion.carry("policy-file", Value::Text(path), known, &place);
    }
}

/// `policy_dirs`: given, or by their default name beside the files.
pub(super) fn directories(conversion: &mut Conversion<'_>, known: &KnownOption) {
    let (names, place) = match conversion.settings.value(known) {
        Ok((Some(Value::List(names)), place)) => (names, place),
        Ok(_) => return,
        Err(remark) => return conversion.outcome.remarks.push(remark),
    };
    if matches!(place, Location::Variable(_)) {
        let words = "not carried over: the reference takes each letter of it for a directory; \
                     write policy_dirs into a file";
        return conversion.say(Level::Warning, known, place, words.to_owned());
    }
    let mut paths = Vec::new();
    for name in names {
        let Some(path) = path(conversion, known, &name, &place) else { continue };
        if path.contains(',') {
            let words = "Berth cannot read a directory with a comma in its name; rename it";
            return conversion.say(Level::Error, known, place, words.to_owned());
        }
        paths.push(path);
    }
    if !paths.is_empty() {
        conversion.carry("policy-dirs", Value::List(paths), known, &place);
    }
}

/// Where the reference finds it. If it was asked for and is not there, where it would be looked for
/// first: Berth then says that it is missing, where the reference goes on with its default rules.
fn path(
    conversion: &mut Conversion<'_>,
    known: &KnownOption,
    name: &str,
    place: &Location,
) -> Option<String> {
    let folders = conversion.sources.folders.clone();
    let mut candidates = folders.iter().map(|folder| folder.join(name));
    let found: Option<PathBuf> = candidates.clone().find(|path| (conversion.sources.exists)(path));
    if found.is_none() && *place == Location::Nowhere {
        return None;
    }
    if found.is_none() {
        let words = "is not where the reference looks for it from here; it then goes on with its \
                     default rules, and Berth does not: bring it, or remove the line";
        conversion.say(Level::Warning, known, place.clone(), words.to_owned());
    }
    let path = found.or_else(|| candidates.next()).unwrap_or_else(|| Path::new(name).to_owned());
    Some(path.to_string_lossy().into_owned())
}
