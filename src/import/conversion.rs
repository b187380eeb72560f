//! An import under way: what has been found so far, and what every option needs of it.

use super::location::Location;
use super::remark::{Level, Remark};
use super::settings::Settings;
use super::sources::Sources;
use super::table::{self, DEFAULT, KnownOption};
use super::values::Value;

/// What the operator adds to what the files say.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Where Berth's own PostgreSQL is, instead of what `connection` says.
    pub database_url: Option<String>,
}

/// An option of Berth that is set.
#[derive(Debug)]
pub(super) struct Carried {
    pub key: &'static str,
    pub value: Value,
    /// Which option it was, and where it stood.
    pub origin: String,
}

/// What has been found so far.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub carried: Vec<Carried>,
    pub remarks: Vec<Remark>,
}

/// An import under way.
pub(super) struct Conversion<'a> {
    pub settings: &'a Settings,
    pub sources: &'a Sources,
    pub overrides: &'a Overrides,
    pub outcome: Outcome,
}

impl Conversion<'_> {
    /// A value that was given, if it can be read; if not, that is remarked.
    pub(super) fn given(&mut self, known: &KnownOption) -> Option<(Value, Location)> {
        match self.settings.value(known) {
            Ok((Some(value), place)) if place != Location::Nowhere => Some((value, place)),
            Ok(_) => None,
            Err(remark) => {
                self.outcome.remarks.push(remark);
                None
            }
        }
    }

    /// A text that was given and is not empty.
    pub(super) fn text(&mut self, group: &str, name: &str) -> Option<(String, Location)> {
        let known = table::find(group, name)?;
        match self.given(known)? {
            (Value::Text(text), place) if !text.is_empty() => Some((text, place)),
            _ => None,
        }
    }

    /// Sets an option of Berth.
    pub(super) fn carry(
        &mut self,
        key: &'static str,
        value: Value,
        known: &KnownOption,
        place: &Location,
    ) {
        let option = self.named(known);
        let origin = match place {
            Location::Nowhere => format!("{option}, its default"),
            Location::Line(..) | Location::Variable(_) => format!("{option}, {place}"),
        };
        self.outcome.carried.push(Carried { key, value, origin });
    }

    /// Says something about an option.
    pub(super) fn say(
        &mut self,
        level: Level,
        known: &KnownOption,
        place: Location,
        words: String,
    ) {
        let option = self.named(known);
        self.outcome.remarks.push(Remark { level, option, place, words });
    }

    fn named(&self, known: &KnownOption) -> String {
        let group = self.settings.group(known);
        let group = if group.is_empty() { DEFAULT } else { group };
        format!("[{group}] {}", known.name)
    }
}
