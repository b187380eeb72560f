//! Expressions by the names of their rules, and the references between them.

use std::collections::HashMap;
use std::slice;

use super::check::Check;

/// A rule in [`NamedChecks`].
#[derive(Clone, Debug)]
struct NamedCheck {
    name: String,
    check: Check,
    /// The positions of the rules to which the expression refers.
    references: Vec<usize>,
}

/// The rule that replaces rules that do not exist.
const DEFAULT_RULE: &str = "default";

/// Expressions by the names of their rules, in the order in which they were given.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedChecks {
    rules: Vec<NamedCheck>,
    numbers: HashMap<String, usize>,
}

/// The state of a rule in the search for cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VisitState {
    New,
    OnPath,
    Done,
}

impl NamedChecks {
    /// Collects the expressions of rules. Of several with one name, the last counts.
    pub(super) fn new(checks: impl Iterator<Item = (String, Check)>) -> Self {
        let mut named = Self::default();
        for (name, check) in checks {
            let known = named.numbers.get(&name).and_then(|number| named.rules.get_mut(*number));
            if let Some(known) = known {
                known.check = check;
                continue;
            }
            named.numbers.insert(name.clone(), named.rules.len());
            named.rules.push(NamedCheck { name, check, references: Vec::new() });
        }
        let numbers = |it: &NamedCheck| -> Vec<usize> {
            it.check.rules().into_iter().filter_map(|name| named.number(name)).collect()
        };
        let references: Vec<_> = named.rules.iter().map(numbers).collect();
        for (rule, references) in named.rules.iter_mut().zip(references) {
            rule.references = references;
        }
        named
    }

    /// Returns the number of rules.
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns whether there is a rule of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    /// Returns the position of a rule, or of the default rule if it does not exist.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).or_else(|| self.numbers.get(DEFAULT_RULE)).copied()
    }

    /// Returns the expression of a rule.
    pub(super) fn check(&self, number: usize) -> Option<&Check> {
        self.rules.get(number).map(|rule| &rule.check)
    }

    /// Returns the rules to which a rule refers.
    pub(super) fn references(&self, number: usize) -> &[usize] {
        self.rules.get(number).map_or(&[], |rule| &rule.references)
    }

    /// Returns the names and expressions of all rules.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Check)> {
        self.rules.iter().map(|rule| (rule.name.as_str(), &rule.check))
    }

    /// Returns a rule that refers to itself, directly or through others. If it is the default rule, the missing rule
    /// that it replaces in the cycle comes with it. Every reference is followed once.
    pub(super) fn cycle(&self) -> Option<(&str, Option<&str>)> {
        let mut states = vec![VisitState::New; self.rules.len()];
        for root in 0..self.rules.len() {
            let mut path: Vec<(usize, slice::Iter<'_, usize>)> = Vec::new();
            let mut next = Some(root);
            loop {
                if let Some(number) = next
                    && let Some(state) = states.get_mut(number)
                {
                    match state {
                        VisitState::New => {
                            *state = VisitState::OnPath;
                            path.push((number, self.references(number).iter()));
                        }
                        VisitState::OnPath => {
                            let path = path.iter().map(|(number, _)| *number);
                            let cycle: Vec<_> = path.skip_while(|it| *it != number).collect();
                            return self.first_of(&cycle);
                        }
                        VisitState::Done => {}
                    }
                }
                let Some((number, ahead)) = path.last_mut() else { break };
                next = ahead.next().copied();
                if next.is_none() {
                    if let Some(state) = states.get_mut(*number) {
                        *state = VisitState::Done;
                    }
                    path.pop();
                }
            }
        }
        None
    }

    /// Returns the first rule of a cycle in the order of the files, and the missing rule by way of which the rule
    /// before it in the cycle refers to it.
    fn first_of(&self, cycle: &[usize]) -> Option<(&str, Option<&str>)> {
        let first = cycle.iter().min()?;
        let at = cycle.iter().position(|number| number == first)?;
        let before = cycle.iter().cycle().nth(at + cycle.len() - 1)?;
        let name = &self.rules.get(*first)?.name;
        let mut referred = self.check(*before)?.rules().into_iter();
        let missing = referred.find(|it| name == DEFAULT_RULE && !self.has(it));
        Some((name, missing))
    }
}
