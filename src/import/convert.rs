//! Option after option of the table, into Berth's options and remarks.

use super::conversion::{Conversion, Outcome, Overrides};
use super::ini::{Assignment, normalized};
use super::remark::{Level, Remark};
use super::settings::Settings;
use super::sources::Sources;
use super::table::{self, Fate, KEYSTONE, Kind, KnownOption, Preset};
use super::values::{self, Value};
use super::{database, keystone, logs, policy};

/// Goes through the table.
pub(super) fn convert<'a>(
    settings: &'a Settings,
    sources: &'a Sources,
    overrides: &'a Overrides,
) -> Outcome {
    let mut conversion = Conversion { settings, sources, overrides, outcome: Outcome::default() };
    let keystone = keystone::Credentials::read(&mut conversion);
    for known in table::all().filter(|known| known.is_read() && known.name != "*") {
        if known.group != KEYSTONE || keystone.wanted(&mut conversion, known) {
            conversion.option(known);
        }
    }
    conversion.unread_lines();
    conversion.outcome
}

impl Conversion<'_> {
    /// Carries an option over, or says why not.
    fn option(&mut self, known: &'static KnownOption) {
        match known.fate {
            Fate::Key(key) => self.plain(known, key, None),
            Fate::Bounded(key, min, max) => self.plain(known, key, Some((min, max))),
            Fate::Made(..) => self.made(known),
            Fate::Needless(why) => self.left_out(known, Level::Note, why),
            Fate::Lost(why) => self.left_out(known, Level::Warning, why),
            Fate::Refused(why) => self.refused(known, why),
            Fate::Former(_) => {}
        }
    }

    fn made(&mut self, known: &'static KnownOption) {
        match known.name {
            "debug" => logs::filter(self, known),
            "use_json" => logs::format(self, known),
            "auth_strategy" => keystone::strategy(self, known),
            "auth_type" => keystone::auth_type(self, known),
            "default_domain_name" | "default_domain_id" => keystone::default_domain(self, known),
            "token_cache_time" => keystone::cache_time(self, known),
            "connection" => database::url(self, known),
            "max_pool_size" => database::pool(self, known),
            "policy_file" => policy::file(self, known),
            "policy_dirs" => policy::directories(self, known),
            // Taken together with another: default_log_levels, connection_parameters, auth_section.
            _ => {}
        }
    }

    /// Carries a value over as it is.
    fn plain(&mut self, known: &KnownOption, key: &'static str, bounds: Option<(i64, i64)>) {
        let Some((value, place)) = self.given(known) else { return };
        if known.group == KEYSTONE && value == Value::Text(String::new()) {
            return;
        }
        if let (Value::Integer(number), Some((min, max))) = (&value, bounds)
            && !(min..=max).contains(number)
        {
            let range =
                if max == i64::MAX { format!("{min} or more") } else { format!("{min} to {max}") };
            return self.say(Level::Error, known, place, format!("Berth's {key} must be {range}"));
        }
        if let Value::List(items) = &value
            && items.iter().any(String::is_empty)
        {
            let items = items.iter().filter(|item| !item.is_empty()).cloned().collect();
            return self.carry(key, Value::List(items), known, &place);
        }
        self.carry(key, value, known, &place);
    }

    fn left_out(&mut self, known: &KnownOption, level: Level, why: &str) {
        let Some(place) = self.settings.place(known) else { return };
        let default = match known.preset {
            Preset::Text(text) => values::read(known.kind, text).ok().flatten(),
            Preset::None | Preset::Installed => None,
        };
        // What is unreadable is not worth an error: nobody reads it here.
        let value = self.settings.value(known).ok().and_then(|(value, _)| value);
        let is_empty = known.preset == Preset::None && value == Some(Value::Text(String::new()));
        if !is_empty && (value.is_none() || value != default) {
            self.say(level, known, place, format!("not carried over: {why}"));
        }
    }

    fn refused(&mut self, known: &KnownOption, why: &str) {
        let Some(place) = self.settings.place(known) else { return };
        let value = self.settings.value(known).ok().and_then(|(value, _)| value);
        let default = match known.preset {
            Preset::Text(text) => values::read(known.kind, text).ok().flatten(),
            Preset::None | Preset::Installed => Some(Value::Text(String::new())),
        };
        let allowed = match known.kind {
            Kind::Choice(_) => value.is_some(),
            Kind::Text | Kind::Boolean | Kind::Integer | Kind::List | Kind::Many => {
                value.is_some() && value == default
            }
        };
        if !allowed {
            self.say(Level::Error, known, place, why.to_owned());
        }
    }

    /// Lines that the reference does not read either.
    fn unread_lines(&mut self) {
        let mut remarks = Vec::new();
        for (place, line) in self.settings.lines() {
            let (level, words) = match self.fate_of_line(&line.group, &line.name) {
                Some(Fate::Former(why)) => {
                    (Level::Note, format!("the reference does not read it any more: {why}"))
                }
                Some(Fate::Needless(why)) => (Level::Note, format!("not carried over: {why}")),
                Some(_) => continue,
                None => (Level::Warning, unknown(line)),
            };
            let option = format!("[{}] {}", line.group, line.name);
            remarks.push(Remark { level, option, place, words });
        }
        self.outcome.remarks.extend(remarks);
    }

    /// What becomes of a line's option, by the table; options the table lists by their section
    /// are [`Fate::Former`] or [`Fate::Needless`].
    fn fate_of_line(&self, group: &str, name: &str) -> Option<Fate> {
        let section = self.settings.other_section();
        let known = table::all().find(|known| {
            let own = section.filter(|_| known.movable).map(normalized);
            let own = own.as_deref().unwrap_or(known.group);
            let also = known.also.iter().any(|(former, other)| {
                *other == name && (if *former == known.group { own } else { *former }) == group
            });
            also || (own == group && known.name == name)
        });
        if let Some(known) = known {
            // Those that the reference reads have been dealt with.
            let former = Some(known.fate).filter(|_| !known.is_read());
            return former.or(Some(Fate::Key("")));
        }
        if section.is_some() && table::find(group, name).is_some_and(|known| known.movable) {
            return Some(Fate::Former("the credentials are read where auth_section says"));
        }
        table::find(group, "*").map(|known| known.fate)
    }
}

/// What to say of an option that is in no table.
fn unknown(line: &Assignment) -> String {
    match table::find(&line.group, &line.name.to_lowercase().replace('-', "_")) {
        Some(meant) => format!("the reference does not read it; it reads {}", meant.name),
        None => "neither the reference nor Berth knows this option".to_owned(),
    }
}
