//! Which value holds for an option: the environment's, then the last file's, as in oslo.config.

use std::collections::BTreeMap;

use super::ini::{self, Assignment, normalized};
use super::interpolate::substitute;
use super::location::Location;
use super::remark::{Level, Remark};
use super::sources::Sources;
use super::table::{self, DEFAULT, KEYSTONE, Kind, KnownOption, Preset};
use super::values::{self, Value};

/// How many options may refer to each other in a row.
const REFERENCES_MAX: usize = 50;

/// What was given for an option, unread.
struct Given {
    /// One text; for [`Kind::Many`] as many as were given.
    texts: Vec<String>,
    place: Location,
}

/// Everything that files and environment say.
#[derive(Debug)]
pub(super) struct Settings {
    /// Each file's name and lines, in the order given.
    files: Vec<(String, Vec<Assignment>)>,
    environment: BTreeMap<String, String>,
    /// The section of Keystone's credentials.
    section: String,
}

impl Settings {
    /// Reads all files.
    pub(super) fn read(sources: &Sources) -> Result<Self, Remark> {
        let mut files = Vec::new();
        for (name, text) in &sources.files {
            let parsed = ini::parse(text).map_err(|malformed| Remark {
                level: Level::Error,
                option: String::new(),
                place: Location::Line(name.clone(), malformed.line),
                words: malformed.words.to_owned(),
            })?;
            files.push((name.clone(), parsed));
        }
        let environment = sources.environment.clone();
        let mut settings = Self { files, environment, section: KEYSTONE.to_owned() };
        if let Some(option) = table::find(KEYSTONE, "auth_section") {
            let (section, _) = settings.value(option)?;
            if let Some(Value::Text(section)) =
                section.filter(|it| *it != Value::Text(String::new()))
            {
                settings.section = section;
            }
        }
        Ok(settings)
    }

    /// The section of Keystone's credentials, when it is another than usual.
    pub(super) fn other_section(&self) -> Option<&str> {
        Some(self.section.as_str()).filter(|section| *section != KEYSTONE)
    }

    /// The section an option is looked for in.
    pub(super) fn group<'a>(&'a self, known: &'a KnownOption) -> &'a str {
        if known.movable { &self.section } else { known.group }
    }

    /// Every line of every file.
    pub(super) fn lines(&self) -> impl Iterator<Item = (Location, &Assignment)> {
        self.files.iter().flat_map(|(file, lines)| {
            lines.iter().map(move |one| (Location::Line(file.clone(), one.line), one))
        })
    }

    /// Where an option is given, if it is.
    pub(super) fn place(&self, known: &KnownOption) -> Option<Location> {
        self.given(known).map(|given| given.place)
    }

    /// The value that holds for an option and where it stands; the default stands nowhere.
    ///
    /// # Errors
    /// It is not of the option's kind, or refers to what is not there.
    pub(super) fn value(&self, known: &KnownOption) -> Result<(Option<Value>, Location), Remark> {
        let place = self.place(known).unwrap_or(Location::Nowhere);
        let value = self.resolved(known, 0).map_err(|words| Remark {
            level: Level::Error,
            option: format!("[{}] {}", self.group(known), known.name),
            place: place.clone(),
            words,
        })?;
        Ok((value, place))
    }

    fn resolved(&self, known: &KnownOption, depth: usize) -> Result<Option<Value>, String> {
        if depth > REFERENCES_MAX {
            return Err("it refers to itself".to_owned());
        }
        let texts = match (self.given(known), known.preset) {
            (Some(given), _) => given.texts,
            (None, Preset::Text(text)) => vec![text.to_owned()],
            (None, Preset::None) => return Ok(None),
            (None, Preset::Installed) => {
                return Err(format!(
                    "it refers to {}, which depends on where the reference is installed; write \
                     out the value",
                    known.name
                ));
            }
        };
        let group = self.group(known).to_owned();
        let mut read = Vec::new();
        for text in texts {
            let text = substitute(&text, |name| self.referred(&group, name, depth))?;
            read.extend(values::read(known.kind, &text)?);
        }
        if known.kind != Kind::Many {
            return Ok(read.pop());
        }
        let each = read.into_iter().map(Value::in_list);
        Ok(Some(Value::List(each.flatten().collect())))
    }

    /// What a reference to `name` in a value of section `group` stands for.
    fn referred(&self, group: &str, name: &str, depth: usize) -> Result<String, String> {
        let option = match name.split_once('.') {
            Some((DEFAULT, _)) => None,
            Some((group, name)) => self.find(group, name),
            None => self.find(group, name).or_else(|| self.find(DEFAULT, name)),
        };
        // The name is not repeated: a secret with a dollar sign in it looks like a reference.
        let option = option.ok_or(
            "it refers with $ to an option that is not there; a dollar sign of the value itself is \
             written $$",
        )?;
        let value = self.resolved(option, depth + 1)?;
        Ok(value.map(|value| value.in_python()).unwrap_or_default())
    }

    fn find(&self, group: &str, name: &str) -> Option<&'static KnownOption> {
        let movable = || {
            table::all().find(|known| known.movable && known.name == name && group == self.section)
        };
        table::find(group, name).or_else(movable).filter(|known| known.is_read())
    }

    fn given(&self, known: &KnownOption) -> Option<Given> {
        let group = self.group(known);
        let variable = format!("OS_{}__{}", group.to_uppercase(), known.name.to_uppercase());
        if let Some(text) = self.environment.get(&variable) {
            return Some(Given { texts: vec![text.clone()], place: Location::Variable(variable) });
        }
        let group = normalized(group);
        let mut names = vec![(group.as_str(), known.name)];
        // Former names within the option's own section move along with it.
        names.extend(known.also.iter().map(|(former, name)| {
            (if *former == known.group { group.as_str() } else { *former }, *name)
        }));
        let mut found: Option<Given> = None;
        for (file, lines) in self.files.iter().rev() {
            for (group, name) in &names {
                let here: Vec<&Assignment> =
                    lines.iter().filter(|one| one.group == *group && one.name == *name).collect();
                let Some(last) = here.last() else { continue };
                let place = Location::Line(file.clone(), last.line);
                if known.kind != Kind::Many {
                    return Some(Given { texts: vec![last.value.clone()], place });
                }
                let mut texts: Vec<String> = here.iter().map(|one| one.value.clone()).collect();
                let later = found.take();
                let place = later.as_ref().map_or(place, |later| later.place.clone());
                texts.extend(later.into_iter().flat_map(|later| later.texts));
                found = Some(Given { texts, place });
            }
        }
        found
    }
}
