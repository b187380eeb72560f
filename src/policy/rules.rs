//! The effective rules: the defaults, with the overrides of an operator's files.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use thiserror::Error;

use super::caller::Caller;
use super::check::{Check, Facts, NamedChecks, Target};
use super::defaults::{BASES, Default, Rule, operations};
use super::language;

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
    /// What is wrong.
    pub what: String,
}

/// Why a request is not allowed.
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
    /// The defaults, with the overrides in their place; of several overrides with one name, the
    /// last counts. With `legacy`, defaults that are not overridden also pass callers that pass the
    /// former default.
    ///
    /// # Errors
    /// An override refers to a rule that does not exist, or to itself, directly or through others.
    pub(super) fn new(
        overrides: &[Override],
        default_rule: &str,
        legacy: bool,
    ) -> Result<Self, Fault> {
        let mut checks: HashMap<String, Check> =
            overrides.iter().map(|it| (it.name.clone(), it.check.clone())).collect();
        for default in defaults() {
            if !checks.contains_key(default.name) {
                checks.insert(default.name.to_owned(), in_force(default, legacy));
            }
        }
        let named = NamedChecks { checks, default_rule: default_rule.to_owned() };
        let rules = Self { named };
        for it in overrides {
            rules.references(it)?;
        }
        Ok(rules)
    }

    /// Rules that nobody passes.
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

    /// Whether the caller passes a rule, whatever the scope of the token.
    pub fn passes(&self, caller: &Caller, target: &Target<'_>, rule: &str) -> bool {
        self.named.get(rule).is_some_and(|check| check.passes(&self.facts(caller, target)))
    }

    /// The results of a rule and of each of its parts, one line each; `None` if the rule does not
    /// exist.
    pub fn explain(&self, caller: &Caller, target: &Target<'_>, rule: &str) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        self.named.get(rule)?.explain(&self.facts(caller, target), 0, &mut lines);
        Some(lines)
    }

    /// The names and expressions of all rules: first those that belong to no operation,
    /// alphabetically, then those of operations, in the order of [`operations`].
    pub fn all(&self) -> Vec<(&str, String)> {
        let position = |name: &str| operations().position(|it| it.name == name);
        let mut all: Vec<_> = self
            .named
            .checks
            .iter()
            .map(|(name, check)| (name.as_str(), check.to_string()))
            .collect();
        all.sort_by(|(one, _), (other, _)| (position(one), one).cmp(&(position(other), other)));
        all
    }

    fn facts<'f>(&'f self, caller: &'f Caller, target: &'f Target<'f>) -> Facts<'f> {
        Facts { caller, target, rules: &self.named }
    }

    /// Checks that all rules to which an override refers exist, and do not refer back to it.
    fn references(&self, it: &Override) -> Result<(), Fault> {
        let fault = |what| Fault { place: it.place.clone(), what };
        let mut seen = HashSet::new();
        let mut ahead = it.check.rules();
        while let Some(name) = ahead.pop() {
            if name == it.name {
                let what = format!("rule \"{name}\" refers to itself, by way of others or not");
                return Err(fault(what));
            }
            let Some(check) = self.named.get(name) else {
                let what = format!("rule \"{}\": there is no rule \"{name}\"", it.name);
                return Err(fault(what));
            };
            // The default rule, which takes the place of a missing one, may be the override itself.
            if !self.named.checks.contains_key(name) && it.name == self.named.default_rule {
                let what = format!("rule \"{}\" refers to itself by way of \"{name}\"", it.name);
                return Err(fault(what));
            }
            if seen.insert(name) {
                ahead.extend(check.rules());
            }
        }
        Ok(())
    }
}

/// All rules that exist without any file.
pub fn defaults() -> impl Iterator<Item = &'static Default> {
    BASES.iter().chain(operations())
}

/// The target of a request that has no other target: the caller.
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

/// A default's expression; a test parses all of them.
fn constant(text: &str) -> Check {
    language::parse(text).unwrap_or(Check::Never)
}

#[cfg(test)]
mod tests;
