//! The effective rules: the defaults, with the overrides of an operator's files.

use std::collections::HashSet;
use std::path::PathBuf;

use thiserror::Error;

use super::caller::Caller;
use super::check::{Check, Target};
use super::defaults::{BASES, Default, Rule, operations};
use super::evaluation::Evaluation;
use super::language;
use super::named::NamedChecks;

/// A rule in a file.
#[derive(Clone, Debug)]
pub(super) struct Override {
    /// Its name.
    pub(super) name: String,
    /// Its expression.
    pub(super) check: Check,
    /// Its position.
    pub(super) place: Location,
}

/// A line of a file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[error("{}:{line}", file.display())]
pub struct Location {
    /// The file.
    pub file: PathBuf,
    /// The line.
    pub line: usize,
}

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct Fault {
    /// Its position.
    pub place: Location,
    /// The error.
    pub what: String,
}

/// The reason for which a request is denied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    /// The caller does not pass the rule.
    #[error("Policy does not allow {0} to be performed.")]
    Rule(&'static str),
    /// The token is not for a project.
    #[error("{0}")]
    Scope(&'static str),
}

/// The effective rules.
#[derive(Clone, Debug)]
pub struct Rules {
    named: NamedChecks,
}

impl Rules {
    /// Combines the defaults with the overrides that replace them; of several overrides with one name, the
    /// last counts. With `legacy`, defaults that are not overridden also pass callers that pass the
    /// former default.
    ///
    /// # Errors
    /// An override refers to a missing rule, or to itself, directly or through others.
    pub(super) fn new(overrides: &[Override], legacy: bool) -> Result<Self, Fault> {
        let given = overrides.iter().map(|it| (it.name.clone(), it.check.clone()));
        let names: HashSet<&str> = overrides.iter().map(|it| it.name.as_str()).collect();
        let others = defaults().filter(|it| !names.contains(it.name));
        let others = others.map(|it| (it.name.to_owned(), in_force(it, legacy)));
        let rules = Self { named: NamedChecks::new(given.chain(others)) };
        rules.check_references(overrides)?;
        Ok(rules)
    }

    /// Returns rules that no caller passes.
    pub(super) fn none() -> Self {
        Self { named: NamedChecks::default() }
    }

    /// Checks that the caller passes a rule; see [`Policy::check`](super::Policy::check).
    ///
    /// # Errors
    /// The caller does not pass.
    pub fn check(&self, caller: &Caller, rule: Rule, project: Option<&str>) -> Result<(), Denied> {
        // Every operation requires a token for a project, whatever the rule says.
        if caller.system.is_some() || caller.domain.is_some() {
            return Err(Denied::Scope(rule.name()));
        }
        let passes = match project {
            Some(project) => self.passes(caller, &[("project_id", Some(project))], rule.name()),
            None => self.passes(caller, &own(caller), rule.name()),
        };
        if passes { Ok(()) } else { Err(Denied::Rule(rule.name())) }
    }

    /// Returns whether the caller passes a rule, whatever the scope of the token.
    pub fn passes(&self, caller: &Caller, target: &Target<'_>, rule: &str) -> bool {
        self.evaluation(caller, target).passes(rule)
    }

    /// Evaluates several rules for one caller.
    pub fn evaluation<'e>(&'e self, caller: &'e Caller, target: &'e Target<'e>) -> Evaluation<'e> {
        Evaluation::new(&self.named, caller, target)
    }

    /// Returns the names and expressions of all rules: first those without operations, alphabetically, then those
    /// of operations, in the order of [`operations`].
    pub fn all(&self) -> Vec<(&str, String)> {
        let position = |name: &str| operations().position(|it| it.name == name);
        let all = self.named.all().map(|(name, check)| (name, check.to_string()));
        let mut all: Vec<_> = all.collect();
        all.sort_by_cached_key(|(name, _)| (position(name), *name));
        all
    }

    /// Checks that all rules to which an override refers exist, and that no override refers to itself.
    fn check_references(&self, overrides: &[Override]) -> Result<(), Fault> {
        for it in overrides {
            let mut referred = it.check.rules().into_iter();
            if let Some(missing) = referred.find(|name| self.named.number(name).is_none()) {
                let what = format!("rule \"{}\": there is no rule \"{missing}\"", it.name);
                return Err(Fault { place: it.place.clone(), what });
            }
        }
        let Some((name, missing)) = self.named.cycle() else { return Ok(()) };
        // The defaults have no cycle, so an override is in it, and overrides come first.
        let Some(it) = overrides.iter().rfind(|it| it.name == name) else { return Ok(()) };
        let what = match missing {
            Some(missing) => format!("rule \"{name}\" refers to itself by way of \"{missing}\""),
            None => format!("rule \"{name}\" refers to itself, by way of others or not"),
        };
        Err(Fault { place: it.place.clone(), what })
    }
}

/// Returns all rules that exist without any file.
pub fn defaults() -> impl Iterator<Item = &'static Default> {
    BASES.iter().chain(operations())
}

/// Returns the target of a request that has no other target: the caller.
pub fn own(caller: &Caller) -> [(&'static str, Option<&str>); 2] {
    [("project_id", caller.project.as_deref()), ("user_id", caller.user.as_deref())]
}

fn in_force(default: &Default, legacy: bool) -> Check {
    let present = constant(default.check);
    match default.legacy.filter(|_| legacy) {
        Some(before) => Check::Any(vec![present, constant(before)]),
        None => present,
    }
}

/// Parses a default's expression; a test parses all of them.
fn constant(text: &str) -> Check {
    language::parse(text).unwrap_or(Check::Never)
}

#[cfg(test)]
mod tests;
