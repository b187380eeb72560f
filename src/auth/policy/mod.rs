//! Authorization by rules in the language of oslo.policy.
//!
//! [`defaults`](mod@defaults) has the rules of all operations, [`language`] parses expressions,
//! [`check`] defines their meaning, [`evaluation`] evaluates [`named`] ones for a [`caller`],
//! [`file`](mod@file) reads an operator's files, and [`rules`] combines these with the defaults. A [`Policy`] holds
//! the effective rules, and reloads them.

mod caller;
mod check;
mod defaults;
mod evaluation;
mod file;
mod language;
mod listing;
mod named;
mod rules;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use metrics::counter;

pub use self::caller::{Attribute, Caller};
pub use self::check::Target;
pub use self::defaults::{
    BASES, Default, OPERATIONS, OPERATOR, PLANNING, Rule, is_for_operations, operations, operator,
    planning, rule,
};
pub use self::evaluation::Evaluation;
use self::file::Text;
pub use self::listing::{list, sample};
pub use self::rules::{Denied, Fault, Location, Rules, defaults, own};
use crate::model::nearest::did_you_mean;

/// The counter of requests denied by a rule.
const DENIALS: &str = "berth_policy_denials_total";

/// Starts the counter of each rule at zero: rates of a counter need its first value.
pub(crate) fn count_from_zero() {
    for operation in operations() {
        counter!(DENIALS, "rule" => operation.name).increment(0);
    }
}

/// The origin of rules.
#[derive(Clone, Debug)]
pub struct Source {
    /// A policy file.
    pub file: Option<PathBuf>,
    /// Directories with further files, which are applied after it.
    pub directories: Vec<PathBuf>,
    /// Applies only the present defaults, without the former ones.
    pub enforce_new_defaults: bool,
}

impl Source {
    /// Returns the source without any file.
    pub fn defaults(enforce_new_defaults: bool) -> Self {
        Self { file: None, directories: Vec::new(), enforce_new_defaults }
    }

    fn rules(&self, texts: &[Text]) -> Result<(Rules, Vec<String>), Fault> {
        let mut overrides = Vec::new();
        for text in texts {
            overrides.extend(file::parse(text)?);
        }
        let rules = Rules::new(&overrides, !self.enforce_new_defaults)?;
        let known = |name: &str| operations().any(|it| it.name == name);
        let strange = |name: &str| is_for_operations(name) && !known(name);
        let strangers = overrides.iter().filter(|it| strange(&it.name));
        let warnings = strangers.map(|it| {
            let guess = did_you_mean(&it.name, operations().map(|operation| operation.name));
            format!("{}: no operation uses the rule {:?}{guess}", it.place, it.name)
        });
        Ok((rules, warnings.collect()))
    }
}

/// The result of reading the files again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The files have not changed.
    Unchanged,
    /// Their rules are in force. Contains warnings.
    Changed(Vec<String>),
    /// They cannot be used, for this reason; the former rules remain in force.
    Kept(String),
}

/// The effective rules, which can be reloaded.
#[derive(Debug)]
pub struct Policy {
    rules: ArcSwap<Rules>,
    source: Source,
    /// The content of the files when they were last checked, or the error of reading them.
    last_read: Mutex<Result<Vec<Text>, String>>,
}

impl Policy {
    /// Loads the rules of a source, and returns warnings about them.
    ///
    /// # Errors
    /// A file cannot be read or is invalid; the message says where and why.
    pub fn load(source: Source) -> Result<(Self, Vec<String>), String> {
        let texts = file::read(source.file.as_deref(), &source.directories)?;
        let (rules, warnings) = source.rules(&texts).map_err(|fault| fault.to_string())?;
        let (rules, last_read) = (ArcSwap::from_pointee(rules), Mutex::new(Ok(texts)));
        Ok((Self { rules, source, last_read }, warnings))
    }

    /// Returns the default rules.
    pub fn defaults(enforce_new_defaults: bool) -> Self {
        let source = Source::defaults(enforce_new_defaults);
        // Without overrides this cannot fail.
        let rules = Rules::new(&[], !enforce_new_defaults);
        let rules = ArcSwap::from_pointee(rules.unwrap_or_else(|_| Rules::none()));
        Self { rules, source, last_read: Mutex::new(Ok(Vec::new())) }
    }

    /// Returns the effective rules.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Checks that the caller passes a rule. `project` is the target of the request, for rules that
    /// refer to it; without one, the caller's own.
    ///
    /// # Errors
    /// The caller does not pass.
    pub fn check(&self, caller: &Caller, rule: Rule, project: Option<&str>) -> Result<(), Denied> {
        let checked = self.rules.load().check(caller, rule, project);
        if checked.is_err() {
            counter!(DENIALS, "rule" => rule.name()).increment(1);
        }
        checked
    }

    /// Checks the files again. Files that cannot be used are reported once, until they change.
    pub fn reload(&self) -> Reload {
        let now = file::read(self.source.file.as_deref(), &self.source.directories);
        let mut last_read = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        if *last_read == now {
            return Reload::Unchanged;
        }
        last_read.clone_from(&now);
        let read =
            now.and_then(|texts| self.source.rules(&texts).map_err(|fault| fault.to_string()));
        match read {
            Ok((rules, warnings)) => {
                self.rules.store(Arc::new(rules));
                Reload::Changed(warnings)
            }
            Err(why) => Reload::Kept(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, Policy, Reload, Source, rule};

    fn visitor() -> Caller {
        Caller { project: Some("p".to_owned()), ..Caller::default() }
    }

    #[test]
    fn files_are_read_again_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let (file, directory) = (folder.path().join("policy.yaml"), folder.path().join("policy.d"));
        std::fs::create_dir(&directory).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("policy.yaml", "placement:traits:list: \"!\"");
        let source = Source {
            file: Some(file.clone()),
            directories: vec![directory],
            ..Source::defaults(true)
        };
        let (policy, warnings) = Policy::load(source).unwrap();
        let may = || policy.check(&visitor(), rule::TRAITS_LIST, None).is_ok();
        assert!(!may() && warnings.is_empty());
        assert_eq!(policy.reload(), Reload::Unchanged);

        write("policy.d/later.yaml", "placement:traits:list: \"@\"\nplacement:typo: \"@\"");
        let Reload::Changed(warnings) = policy.reload() else { panic!() };
        assert!(may() && warnings.len() == 1 && warnings[0].contains("later.yaml:2"));

        write("policy.d/later.yaml", "placement:traits:list: \"rule:nothing\"");
        let Reload::Kept(why) = policy.reload() else { panic!() };
        assert!(may() && why.contains("later.yaml:1"), "{why}");
        assert_eq!(policy.reload(), Reload::Unchanged);

        std::fs::remove_file(&file).unwrap();
        let Reload::Kept(why) = policy.reload() else { panic!() };
        assert!(may() && why.contains("policy.yaml"), "{why}");

        write("policy.yaml", "");
        write("policy.d/later.yaml", "");
        assert_eq!(policy.reload(), Reload::Changed(Vec::new()));
        assert!(!may());
    }

    #[test]
    fn an_invalid_file_fails_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.yaml");
        let source = Source { file: Some(file.clone()), ..Source::defaults(true) };
        assert!(Policy::load(source.clone()).unwrap_err().contains("policy.yaml"));
        std::fs::write(&file, "\na: role").unwrap();
        assert!(Policy::load(source).unwrap_err().contains("policy.yaml:2: rule \"a\""));
    }
}
