//! The rules in force: the defaults, and what an operator's files say instead.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use thiserror::Error;

use super::caller::Caller;
use super::check::{Check, Facts, NamedChecks, Target};
use super::defaults::{BASES, Default, Rule, operations};
use super::language;

/// A rule as a file has it.
#[derive(Clone, Debug)]
pub(super) struct Override {
    /// Its name.
    pub(super) name: String,
    /// What it asks.
    pub(super) check: Check,
    /// Where it stands.
    pub(super) place: Location,
}

/// A line of a file, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[error("{}:{line}", file.display())]
pub struct Location {
    /// The file.
    pub file: PathBuf,
    /// The line.
    pub line: usize,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {what}")]
pub struct Fault {
    /// Where.
    pub place: Location,
    /// What.
    pub what: String,
}

/// Why a caller may not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    /// The rule says no.
    #[error("Policy does not allow {0} to be performed.")]
    Rule(&'static str),
    /// The token is not for a project.
    #[error("{0}")]
    Scope(&'static str),
}

/// The rules in force.
#[derive(Clone, Debug)]
pub struct Rules {
    named: NamedChecks,
}

impl Rules {
    /// The defaults, with the overrides in their place: of several of one name the last. With
    /// `legacy`, those that are not overridden also let pass whom they let pass before.
    ///
    /// # Errors
    /// An override refers to a rule that there is not, or to itself by way of others.
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

    /// Rules that let nobody do anything.
    pub(super) fn none() -> Self {
        Self { named: NamedChecks::default() }
    }

    /// Whether the caller may do what the rule is about. `project` is whose things it is about, for
    /// the rules that care.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, caller: &Caller, rule: Rule, project: Option<&str>) -> Result<(), Denied> {
        // Every operation is for tokens of projects, whatever the rule says.
        if caller.system.is_some() || caller.domain.is_some() {
            return Err(Denied::Scope(rule.name()));
        }
        let passes = match project {
            Some(project) => self.passes(caller, &[("project_id", Some(project))], rule.name()),
            None => self.passes(caller, &own(caller), rule.name()),
        };
        if passes { Ok(()) } else { Err(Denied::Rule(rule.name())) }
    }

    /// The verdict of a rule, by its name, without regard to what the token is for.
    pub fn passes(&self, caller: &Caller, target: &Target<'_>, rule: &str) -> bool {
        self.named.get(rule).is_some_and(|check| check.passes(&self.facts(caller, target)))
    }

    /// The verdict of a rule with that of every part of it, a line each; `None` if there is no
    /// such rule.
    pub fn explain(&self, caller: &Caller, target: &Target<'_>, rule: &str) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        self.named.get(rule)?.explain(&self.facts(caller, target), 0, &mut lines);
        Some(lines)
    }

    /// The names of all rules and what they ask, in the policy language; operations in the order of
    /// [`operations`], after what else there is in the order of the alphabet.
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

    /// Makes sure that all rules that an override leads to exist, and do not lead back to it.
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
            // A rule that stands for another may be the one that is looked at.
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

/// All rules there are without any file.
pub fn defaults() -> impl Iterator<Item = &'static Default> {
    BASES.iter().chain(operations())
}

/// What a request is about if it is about nobody's things in particular: the caller's own.
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

/// A default's expression; a test reads them all.
fn constant(text: &str) -> Check {
    language::parse(text).unwrap_or(Check::Never)
}

#[cfg(test)]
mod tests;
