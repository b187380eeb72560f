//! The effective value of each option: from the environment, or else from the last file that sets
//! it, as in oslo.config.

use std::collections::BTreeMap;

use super::diagnostic::{Diagnostic, Location, Severity};
use super::ini::{self, Assignment, normalized};
use super::interpolate::substitute;
use super::sources::Sources;
use super::table::{self, DEFAULT, KEYSTONE, Kind, KnownOption};
use super::values::{self, Value};

/// The maximum length of a chain of options that refer to each other.
const REFERENCES_MAX: usize = 50;

/// The option whose default depends on where the reference is installed.
const INSTALLATION: &str = "pybasedir";

/// The unparsed value of an option.
struct Raw {
    /// One text; for [`Kind::Many`], one for each time the option is set.
    texts: Vec<String>,
    location: Location,
}

/// The contents of all files and of the environment.
#[derive(Debug)]
pub(super) struct Settings {
    /// Name and lines of each file; a later file overrides an earlier one.
    files: Vec<(String, Vec<Assignment>)>,
    environment: BTreeMap<String, String>,
    /// The section with the credentials for Keystone.
    auth_section: String,
}

impl Settings {
    /// Parses all files.
    ///
    /// # Errors
    /// A line cannot be parsed, or `auth_section` has no valid value.
    pub(super) fn read(sources: &Sources) -> Result<Self, Diagnostic> {
        let mut files = Vec::new();
        for (name, text) in &sources.files {
            let parsed = ini::parse(text).map_err(|malformed| Diagnostic {
                severity: Severity::Error,
                option: String::new(),
                location: Location::Line(name.clone(), malformed.line),
                message: malformed.message.to_owned(),
            })?;
            files.push((name.clone(), parsed));
        }
        let environment = sources.environment.clone();
        let mut settings = Self { files, environment, auth_section: KEYSTONE.to_owned() };
        if let Some(option) = table::find(KEYSTONE, "auth_section")
            && let (Some(Value::Text(section)), _) = settings.value(option)?
            && !section.is_empty()
        {
            settings.auth_section = section;
        }
        Ok(settings)
    }

    /// The section with the credentials for Keystone, if it is not the usual one.
    pub(super) fn other_auth_section(&self) -> Option<&str> {
        Some(self.auth_section.as_str()).filter(|section| *section != KEYSTONE)
    }

    /// The section in which an option is looked up.
    pub(super) fn section<'a>(&'a self, option: &'a KnownOption) -> &'a str {
        if option.movable { &self.auth_section } else { option.section }
    }

    /// The option as `[section] name`.
    pub(super) fn name(&self, option: &KnownOption) -> String {
        format!("[{}] {}", self.section(option), option.name)
    }

    /// Every assignment in every file.
    pub(super) fn assignments(&self) -> impl Iterator<Item = (Location, &Assignment)> {
        self.files.iter().flat_map(|(file, lines)| {
            lines.iter().map(|line| (Location::Line(file.clone(), line.line), line))
        })
    }

    /// Source of an option's value.
    pub(super) fn location(&self, option: &KnownOption) -> Location {
        self.raw(option).map_or(Location::Unset, |raw| raw.location)
    }

    /// The effective value of an option, which may be its default, and its source.
    ///
    /// # Errors
    /// The value is not of the option's type, or refers to an unknown option.
    pub(super) fn value(
        &self,
        option: &KnownOption,
    ) -> Result<(Option<Value>, Location), Diagnostic> {
        let location = self.location(option);
        match self.resolve(option, 0) {
            Ok(value) => Ok((value, location)),
            Err(message) => {
                let severity = Severity::Error;
                Err(Diagnostic { severity, option: self.name(option), location, message })
            }
        }
    }

    /// The effective value, with references to other options replaced.
    fn resolve(&self, option: &KnownOption, depth: usize) -> Result<Option<Value>, String> {
        if depth > REFERENCES_MAX {
            return Err("it refers to itself".to_owned());
        }
        let texts = match (self.raw(option), option.default) {
            (Some(raw), _) => raw.texts,
            (None, Some(default)) => vec![default.to_owned()],
            (None, None) if option.name == INSTALLATION => {
                return Err(format!(
                    "it refers to {INSTALLATION}, which depends on where the reference is \
                     installed; write out the value"
                ));
            }
            (None, None) => return Ok(None),
        };
        let section = self.section(option);
        let mut values = Vec::new();
        for text in texts {
            let text = substitute(&text, |name| self.reference(section, name, depth))?;
            values.extend(values::read(option.kind, &text)?);
        }
        if option.kind != Kind::Many {
            return Ok(values.pop());
        }
        Ok(Some(Value::List(values.into_iter().flat_map(Value::in_list).collect())))
    }

    /// The text that replaces a reference to `name` in a value of `section`.
    fn reference(&self, section: &str, name: &str, depth: usize) -> Result<String, String> {
        let option = match name.split_once('.') {
            Some((DEFAULT, _)) => None,
            Some((section, name)) => self.find(section, name),
            None => self.find(section, name).or_else(|| self.find(DEFAULT, name)),
        };
        // The message does not repeat the name: a secret with a dollar sign looks like a reference.
        let option = option.ok_or(
            "it refers with $ to an unknown option; write $$ for a dollar sign in the value",
        )?;
        let value = self.resolve(option, depth + 1)?;
        Ok(value.map(|value| value.in_python()).unwrap_or_default())
    }

    fn find(&self, section: &str, name: &str) -> Option<&'static KnownOption> {
        let moved = || {
            let is_moved = |it: &&KnownOption| it.movable && it.name == name;
            table::all().find(is_moved).filter(|_| section == self.auth_section)
        };
        table::find(section, name).or_else(moved).filter(|option| option.is_read())
    }

    fn raw(&self, option: &KnownOption) -> Option<Raw> {
        let section = self.section(option);
        let variable = format!("OS_{}__{}", section.to_uppercase(), option.name.to_uppercase());
        if let Some(text) = self.environment.get(&variable) {
            let location = Location::Variable(variable);
            return Some(Raw { texts: vec![text.clone()], location });
        }
        let section = normalized(section);
        let mut names = vec![(section.as_str(), option.name)];
        // Deprecated names in the option's own section move along with the option.
        names.extend(option.deprecated().map(|(deprecated, name)| {
            (if deprecated == option.section { &section } else { deprecated }, name)
        }));
        let mut found: Option<Raw> = None;
        for (file, lines) in self.files.iter().rev() {
            for (section, name) in &names {
                let is_named = |it: &&Assignment| it.section == *section && it.name == *name;
                let here: Vec<&Assignment> = lines.iter().filter(is_named).collect();
                let Some(last) = here.last() else { continue };
                let location = Location::Line(file.clone(), last.line);
                if option.kind != Kind::Many {
                    return Some(Raw { texts: vec![last.value.clone()], location });
                }
                let mut texts: Vec<String> = here.iter().map(|it| it.value.clone()).collect();
                let mut raw = found.take().unwrap_or(Raw { texts: Vec::new(), location });
                texts.append(&mut raw.texts);
                found = Some(Raw { texts, location: raw.location });
            }
        }
        found
    }
}
