//! The evaluation of rules for one caller: each rule at most once.

use std::collections::HashSet;

use super::caller::Caller;
use super::check::{Check, EvaluationInput, Target};
use super::named::NamedChecks;

/// Maximum indentation of an explanation, in levels. Deeper levels are not indented further.
const INDENT_MAX: usize = 40;

/// The verdicts of rules for a caller and a target.
#[derive(Debug)]
pub struct Evaluation<'e> {
    rules: &'e NamedChecks,
    caller: &'e Caller,
    target: &'e Target<'e>,
    /// Verdicts by the position of the rule.
    verdicts: Vec<Option<bool>>,
    #[cfg(test)]
    pub(super) evaluated: usize,
}

impl<'e> Evaluation<'e> {
    pub(super) fn new(rules: &'e NamedChecks, caller: &'e Caller, target: &'e Target<'e>) -> Self {
        let verdicts = vec![None; rules.len()];
        Self {
            rules,
            caller,
            target,
            verdicts,
            #[cfg(test)]
            evaluated: 0,
        }
    }

    /// Returns whether the caller passes a rule, whatever the scope of the token. No caller passes a missing rule.
    pub fn passes(&mut self, rule: &str) -> bool {
        let number = self.rules.number(rule);
        number.is_some_and(|number| self.evaluate(number))
    }

    /// Returns whether the caller passes an expression. The rules to which it refers have been evaluated.
    fn passes_check(&self, check: &Check) -> bool {
        let verdict = |rule: &str| {
            let number = self.rules.number(rule);
            let verdict = number.and_then(|number| self.verdicts.get(number));
            matches!(verdict, Some(Some(true)))
        };
        check.passes(&EvaluationInput {
            caller: self.caller,
            target: self.target,
            verdict: &verdict,
        })
    }

    /// Evaluates a rule, after those to which it refers.
    fn evaluate(&mut self, number: usize) -> bool {
        let mut passes = false;
        let mut ahead = vec![(number, false)];
        while let Some((number, are_references_known)) = ahead.pop() {
            if let Some(Some(known)) = self.verdicts.get(number) {
                passes = *known;
                continue;
            }
            if !are_references_known && !self.rules.references(number).is_empty() {
                ahead.push((number, true));
                ahead.extend(self.rules.references(number).iter().map(|it| (*it, false)));
                continue;
            }
            passes = self.rules.check(number).is_some_and(|check| self.passes_check(check));
            if let Some(verdict) = self.verdicts.get_mut(number) {
                *verdict = Some(passes);
            }
            #[cfg(test)]
            {
                self.evaluated += 1;
            }
        }
        passes
    }

    /// Returns the results of a rule and of each of its parts, one line each, nested parts indented; `None` if the
    /// rule does not exist. The parts of a rule that occurs again are not repeated.
    pub fn explain(&mut self, rule: &str) -> Option<Vec<String>> {
        let number = self.rules.number(rule)?;
        self.evaluate(number);
        let mut lines = Vec::new();
        let mut explained = HashSet::from([number]);
        let mut ahead = vec![(self.rules.check(number)?, 0)];
        while let Some((check, depth)) = ahead.pop() {
            let verdict = if self.passes_check(check) { "yes" } else { "no " };
            let (words, parts): (_, &[Check]) = match check {
                Check::Not(check) => ("not".to_owned(), std::slice::from_ref(check)),
                Check::All(checks) => ("all of".to_owned(), checks),
                Check::Any(checks) => ("any of".to_owned(), checks),
                Check::Rule(name) => match self.rules.number(name) {
                    Some(number) if !explained.insert(number) => {
                        (format!("{check}, as above"), &[])
                    }
                    number => {
                        let referred = number.and_then(|number| self.rules.check(number));
                        (check.to_string(), referred.map_or(&[], std::slice::from_ref))
                    }
                },
                Check::Always | Check::Never | Check::Role(_) | Check::Equal(..) => {
                    (check.to_string(), &[])
                }
            };
            let indent = 2 * depth.min(INDENT_MAX);
            lines.push(format!("{verdict} {:indent$}{words}", ""));
            ahead.extend(parts.iter().rev().map(|part| (part, depth + 1)));
        }
        Some(lines)
    }
}
