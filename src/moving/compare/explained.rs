//! Differences that the report of an import explains: they come from rows that could not be imported unchanged.
//!
//! A finding names its provider, class, consumer, amount and project. Usages are explained only by exactly the amount
//! that was left out, and candidates of Berth alone only if that amount would take their place. A consumer's
//! allocations are explained if a finding names the consumer, and usages of a project if such a consumer belongs to
//! it and has, or had, an allocation of the class.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::response::Difference;
use super::subject::Subject;

/// The member beside the amounts of a consumer type in the usages of a project.
const CONSUMER_COUNT: &str = "consumer_count";

/// The used part of an import's report.
#[derive(Debug, Deserialize)]
struct Imported {
    findings: Vec<Finding>,
}

#[derive(Debug, Deserialize)]
struct Finding {
    about: Option<About>,
}

/// The subject of a finding.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct About {
    provider: Option<String>,
    /// Null means a class without a name.
    classes: Option<Vec<Option<String>>>,
    consumer: Option<String>,
    project: Option<String>,
    /// Amounts of the provider that were left out, by class.
    left_out: Option<BTreeMap<String, i64>>,
}

/// Differences explained by the findings of an import.
#[derive(Clone, Debug, Default)]
pub struct Explained {
    consumers: HashSet<String>,
    /// The amounts left out, by provider and class.
    amounts: HashMap<(String, String), i64>,
    /// Inventories that were left out: provider and class.
    inventories: HashSet<(String, String)>,
    /// The projects of the consumers, with the classes of their allocations in either service.
    projects: BTreeMap<String, BTreeSet<String>>,
    /// The amounts left out of consumers that the service does not show, by project and class.
    project_amounts: HashMap<(String, String), i64>,
}

impl Explained {
    /// Reads a report of `berth import --report`.
    ///
    /// # Errors
    /// It is not such a report.
    pub fn read(report: &[u8]) -> Result<Self, String> {
        let imported: Imported = serde_json::from_slice(report)
            .map_err(|error| format!("is not a report of `berth import`: {error}"))?;
        let mut explained = Self::default();
        for about in imported.findings.into_iter().filter_map(|finding| finding.about) {
            explained.learn(about);
        }
        Ok(explained)
    }

    fn learn(&mut self, about: About) {
        let classes: Vec<String> = about.classes.into_iter().flatten().flatten().collect();
        let provider = about.provider.as_deref().map(one_spelling);
        let left_out = about.left_out;
        if let Some(consumer) = &about.consumer {
            self.consumers.insert(one_spelling(consumer));
        }
        if let Some(provider) = provider {
            if about.consumer.is_none() && left_out.is_none() {
                let of = classes.iter().map(|class| (provider.clone(), class.clone()));
                self.inventories.extend(of);
            }
            for (class, left_out) in left_out.into_iter().flatten() {
                let amount = self.amounts.entry((provider.clone(), class)).or_default();
                *amount = amount.saturating_add(left_out);
            }
        } else if let Some(project) = &about.project {
            for (class, left_out) in left_out.into_iter().flatten() {
                self.project_amounts.insert((project.clone(), class), left_out);
            }
        }
        if let Some(project) = about.project {
            self.projects.entry(project).or_default().extend(classes);
        }
    }

    /// Returns whether a finding is about the consumer.
    pub(super) fn is_about(&self, consumer: &str) -> bool {
        self.consumers.contains(&one_spelling(consumer))
    }

    /// The known projects of consumers with findings.
    pub(super) fn projects(&self) -> impl Iterator<Item = &str> {
        self.projects.keys().map(String::as_str)
    }

    /// Adds a service's response about a consumer, so that usages of its project are explained.
    pub(super) fn learn_of(&mut self, consumer: &str, response: &Value) {
        if !self.is_about(consumer) {
            return;
        }
        let Some(project) = response.get("project_id").and_then(Value::as_str) else { return };
        let classes = self.projects.entry(project.to_owned()).or_default();
        let held = response.get("allocations").and_then(Value::as_object);
        for resources in held.into_iter().flat_map(|held| held.values()) {
            let resources = resources.get("resources").and_then(Value::as_object);
            classes.extend(resources.into_iter().flat_map(|it| it.keys().cloned()));
        }
    }

    /// Splits the differences in the responses about an object into those that the import's findings explain, and the
    /// others. By subject, the object is a provider, a consumer, a project or a request for candidates; `right` is
    /// the body of Berth's response.
    pub(super) fn divide(
        &self,
        subject: Subject,
        of: &str,
        differences: Vec<Difference>,
        right: Option<&Value>,
    ) -> (Vec<Difference>, Vec<Difference>) {
        let (Subject::Candidates, Some(body)) = (subject, right) else {
            return differences.into_iter().partition(|it| self.explains(subject, of, it));
        };
        let summaries = body.get("provider_summaries").and_then(Value::as_object);
        let found = Candidates { explained: self, summaries };
        let trees: HashSet<&str> =
            differences.iter().flat_map(|it| found.trees_of_candidate(it)).collect();
        let (explained, others) =
            differences.iter().cloned().partition(|it| found.explains(it, &trees));
        (explained, others)
    }

    /// Returns whether the import's findings explain a difference in the responses about an object.
    fn explains(&self, subject: Subject, of: &str, difference: &Difference) -> bool {
        let path: Vec<&str> = difference.path.iter().map(String::as_str).collect();
        match (subject, path.as_slice()) {
            (Subject::Consumers, _) => self.is_about(of),
            (Subject::ProviderAllocations, ["body", "allocations", consumer, ..]) => {
                self.is_about(consumer)
            }
            (Subject::Inventories, ["body", "inventories", class]) => {
                difference.right.is_none() && self.has_lost(of, class)
            }
            (Subject::Usages, ["body", "usages", class]) => {
                self.explains_usage(of, class, difference)
            }
            (Subject::ProjectUsages, ["body", "usages", within @ ..]) => {
                self.explains_usages_of_project(of, within, difference)
            }
            _ => false,
        }
    }

    fn has_lost(&self, provider: &str, class: &str) -> bool {
        self.inventories.contains(&(one_spelling(provider), class.to_owned()))
    }

    fn explains_usage(&self, provider: &str, class: &str, difference: &Difference) -> bool {
        let amount = |value: &Option<Value>| value.as_ref().and_then(Value::as_i64);
        match (amount(&difference.left), &difference.right) {
            (Some(_), None) => self.has_lost(provider, class),
            (Some(left), right) => {
                let place = (one_spelling(provider), class.to_owned());
                let lost = amount(right).map(|right| left.saturating_sub(right));
                lost.is_some() && self.amounts.get(&place).copied() == lost
            }
            (None, _) => false,
        }
    }

    fn explains_usages_of_project(
        &self,
        project: &str,
        within: &[&str],
        difference: &Difference,
    ) -> bool {
        let Some(classes) = self.projects.get(project) else { return false };
        // Amounts by consumer type are a part of the amount left out.
        let is_total = matches!(within, [_] | ["all", _]);
        let is_left_out = |class: &str, left: Option<&Value>, right: Option<&Value>| {
            let amount = |value: Option<&Value>| value.map_or(Some(0), Value::as_i64);
            let lost = amount(left).zip(amount(right)).map(|(left, right)| left - right);
            let all = self.project_amounts.get(&(project.to_owned(), class.to_owned()));
            lost.zip(all)
                .is_some_and(|(lost, all)| lost == *all || !is_total && (1..*all).contains(&lost))
        };
        let is_of = |name: &str, left: Option<&Value>, right: Option<&Value>| {
            name == CONSUMER_COUNT || classes.contains(name) || is_left_out(name, left, right)
        };
        let (left, right) = (difference.left.as_ref(), difference.right.as_ref());
        match (within, left.or(right)) {
            // A consumer type that only one side has.
            ([_], Some(Value::Object(amounts))) => amounts
                .iter()
                .all(|(name, amount)| is_of(name, left.and(Some(amount)), right.and(Some(amount)))),
            ([name] | [_, name], _) => is_of(name, left, right),
            _ => false,
        }
    }
}

/// The candidates in Berth's response, and the amounts left out of their providers.
struct Candidates<'c> {
    explained: &'c Explained,
    summaries: Option<&'c Map<String, Value>>,
}

impl Candidates<'_> {
    /// Returns whether a difference follows from amounts that were left out. `trees` has the roots of candidates that
    /// do.
    fn explains(&self, difference: &Difference, trees: &HashSet<&str>) -> bool {
        let path: Vec<&str> = difference.path.iter().map(String::as_str).collect();
        let is_of_berth_alone = difference.left.is_none();
        match path.as_slice() {
            ["body", "provider_summaries", provider, "resources", class, "used"] => {
                self.explained.explains_usage(provider, class, difference)
            }
            ["body", "provider_summaries", provider] => {
                is_of_berth_alone && self.root(provider).is_some_and(|root| trees.contains(root))
            }
            ["body", "allocation_requests", _] => difference
                .right
                .as_ref()
                .is_some_and(|it| is_of_berth_alone && self.fits_here_alone(it)),
            _ => false,
        }
    }

    /// The trees of a candidate that only Berth has, if it follows from amounts that were left out.
    fn trees_of_candidate(&self, difference: &Difference) -> Vec<&str> {
        let is_candidate = difference.path.get(1).is_some_and(|it| it == "allocation_requests");
        let candidate = difference.right.as_ref().filter(|_| is_candidate);
        let candidate = candidate.filter(|_| self.explains(difference, &HashSet::new()));
        let providers = candidate.and_then(|it| it.get("allocations")).and_then(Value::as_object);
        providers.into_iter().flatten().filter_map(|(provider, _)| self.root(provider)).collect()
    }

    fn root(&self, provider: &str) -> Option<&str> {
        self.summaries?.get(provider)?.get("root_provider_uuid")?.as_str()
    }

    /// Returns whether a candidate would exceed a capacity if the amounts had not been left out.
    fn fits_here_alone(&self, candidate: &Value) -> bool {
        let allocations = candidate.get("allocations").and_then(Value::as_object);
        allocations.into_iter().flatten().any(|(provider, allocated)| {
            let resources = allocated.get("resources").and_then(Value::as_object);
            resources.into_iter().flatten().any(|(class, wanted)| {
                let needed = || {
                    let place = (one_spelling(provider), class.clone());
                    let left_out = *self.explained.amounts.get(&place)?;
                    let summary = self.summaries?.get(provider)?.get("resources")?.get(class)?;
                    let number = |name| summary.get(name).and_then(Value::as_i64);
                    let wanted = number("used")?.checked_add(wanted.as_i64()?)?;
                    let capacity = number("capacity")?;
                    Some(wanted <= capacity && wanted.saturating_add(left_out) > capacity)
                };
                needed() == Some(true)
            })
        })
    }
}

/// A UUID in its usual spelling; other texts unchanged.
fn one_spelling(text: &str) -> String {
    Uuid::try_parse(text).map_or_else(|_| text.to_owned(), |uuid| uuid.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Explained, Subject};
    use crate::moving::compare::response::Difference;

    const HOST: &str = "0000000a-0000-4000-8000-000000000001";
    const CONSUMER: &str = "0000000b-0000-4000-8000-00000000000a";

    fn explained(about: &[Value]) -> Explained {
        let finding = |about: &Value| json!({"kind": "k", "row": "r", "done": "d", "about": about});
        let findings: Vec<Value> = about.iter().map(finding).collect();
        Explained::read(json!({"findings": findings}).to_string().as_bytes()).unwrap()
    }

    fn difference(path: &str, left: Value, right: Value) -> Difference {
        let side = |value: Value| (!value.is_null()).then_some(value);
        let path = path.split('/').map(str::to_owned).collect();
        Difference { path, left: side(left), right: side(right) }
    }

    #[test]
    fn usages_are_explained_by_the_very_amount_that_was_left_out() {
        let left_out = |amount| json!({"consumer": "x", "provider": HOST, "classes": ["VCPU"], "left_out": {"VCPU": amount}});
        let explained = explained(&[left_out(2), left_out(3)]);
        let is_explained = |subject, path, left, right| {
            explained.explains(subject, HOST, &difference(path, left, right))
        };
        assert!(is_explained(Subject::Usages, "body/usages/VCPU", json!(12), json!(7)));
        assert!(!is_explained(Subject::Usages, "body/usages/VCPU", json!(13), json!(7)));
        assert!(!is_explained(Subject::Usages, "body/usages/VCPU", json!(12), Value::Null));
        assert!(!is_explained(Subject::Usages, "body/usages/DISK_GB", json!(12), json!(7)));
        assert!(!is_explained(
            Subject::Inventories,
            "body/inventories/VCPU",
            json!({}),
            Value::Null
        ));
    }

    #[test]
    fn an_inventory_that_was_left_out_has_no_usages() {
        let explained = explained(&[json!({"provider": HOST, "classes": ["VCPU"]}), Value::Null]);
        for (subject, path) in
            [(Subject::Inventories, "body/inventories/VCPU"), (Subject::Usages, "body/usages/VCPU")]
        {
            let lost = difference(path, json!(3), Value::Null);
            assert!(explained.explains(subject, HOST, &lost), "{path}");
            assert!(!explained.explains(subject, CONSUMER, &lost), "{path}");
            let added = difference(path, Value::Null, json!(3));
            assert!(!explained.explains(subject, HOST, &added), "{path}");
        }
    }

    #[test]
    fn a_consumer_is_known_in_any_spelling_and_its_project_by_what_it_has() {
        let mut explained = explained(&[json!({"consumer": CONSUMER.to_uppercase()})]);
        let path = format!("body/allocations/{CONSUMER}");
        let held = difference(&path, Value::Null, json!({}));
        assert!(explained.explains(Subject::ProviderAllocations, HOST, &held));
        let whole = difference("body/project_id", Value::Null, json!("p"));
        assert!(explained.explains(Subject::Consumers, CONSUMER, &whole));
        assert!(!explained.explains(Subject::Consumers, HOST, &whole));

        let used = difference("body/usages/INSTANCE/VCPU", json!(3), json!(4));
        assert!(!explained.explains(Subject::ProjectUsages, "p", &used));
        let response =
            json!({"project_id": "p", "allocations": {HOST: {"resources": {"VCPU": 1}}}});
        explained.learn_of(HOST, &response);
        assert_eq!(explained.projects().count(), 0);
        explained.learn_of(CONSUMER, &response);
        assert!(explained.explains(Subject::ProjectUsages, "p", &used));
        for (path, value, is_explained) in [
            ("body/usages/INSTANCE/DISK_GB", json!(3), false),
            ("body/usages/INSTANCE", json!({"consumer_count": 1, "VCPU": 1}), true),
            ("body/usages/INSTANCE", json!({"consumer_count": 1, "DISK_GB": 1}), false),
            ("body/usages/VCPU", json!(3), true),
        ] {
            let found = difference(path, value, Value::Null);
            assert_eq!(
                explained.explains(Subject::ProjectUsages, "p", &found),
                is_explained,
                "{path}"
            );
        }
    }

    #[test]
    fn usages_of_a_project_lack_what_no_consumer_explains() {
        let explained = explained(&[json!({"project": "p", "left_out": {"VCPU": 5}})]);
        assert_eq!(explained.projects().collect::<Vec<_>>(), ["p"]);
        for (path, left, right, is_explained) in [
            ("body/usages/VCPU", json!(7), json!(2), true),
            ("body/usages/VCPU", json!(7), json!(3), false),
            ("body/usages/VCPU", json!(5), Value::Null, true),
            ("body/usages/all/VCPU", json!(6), json!(2), false),
            // Consumers of another type may have the rest.
            ("body/usages/INSTANCE/VCPU", json!(6), json!(2), true),
            ("body/usages/INSTANCE/VCPU", json!(8), json!(2), false),
            ("body/usages/INSTANCE/VCPU", json!(1), json!(2), false),
            ("body/usages/INSTANCE/DISK_GB", json!(6), json!(1), false),
            ("body/usages/INSTANCE/consumer_count", json!(2), json!(1), true),
            ("body/usages/INSTANCE", json!({"VCPU": 5, "consumer_count": 1}), Value::Null, true),
            ("body/usages/INSTANCE", json!({"VCPU": 9, "consumer_count": 1}), Value::Null, false),
            ("body/usages/INSTANCE", Value::Null, json!({"VCPU": 5, "consumer_count": 1}), false),
        ] {
            let found = difference(path, left.clone(), right);
            let explains = explained.explains(Subject::ProjectUsages, "p", &found);
            assert_eq!(explains, is_explained, "{path} {left}");
            assert!(!explained.explains(Subject::ProjectUsages, "q", &found), "{path}");
        }
    }

    #[test]
    fn candidates_follow_from_the_amount_that_was_left_out() {
        const CHILD: &str = "0000000a-0000-4000-8000-000000000002";
        let explained = explained(&[json!({"provider": HOST, "left_out": {"VCPU": 4}})]);
        let candidate =
            |amount: i64| json!({"allocations": {HOST: {"resources": {"VCPU": amount}}}});
        let summary = |used: i64| json!({"resources": {"VCPU": {"capacity": 8, "used": used}}, "root_provider_uuid": HOST});
        let right = json!({"provider_summaries": {HOST: summary(2), CHILD: summary(0)}});
        let new = |path: &str, value: Value| difference(path, Value::Null, value);
        let explains = |differences: Vec<Difference>| -> Vec<String> {
            let (explained, _) =
                explained.divide(Subject::Candidates, "", differences, Some(&right));
            explained.iter().map(Difference::place).collect()
        };
        let used =
            "body/provider_summaries/0000000a-0000-4000-8000-000000000001/resources/VCPU/used";
        assert_eq!(explains(vec![difference(used, json!(6), json!(2))]), [used]);
        assert_eq!(explains(vec![difference(used, json!(5), json!(2))]), Vec::<String>::new());
        // With the amount that was left out, 3 exceed the capacity, and 2 do not.
        let request = "body/allocation_requests/[]";
        let child = "body/provider_summaries/0000000a-0000-4000-8000-000000000002";
        let found = explains(vec![new(request, candidate(3)), new(child, summary(0))]);
        assert_eq!(found, [request, child]);
        let found = explains(vec![new(request, candidate(2)), new(child, summary(0))]);
        assert_eq!(found, Vec::<String>::new());
        let gone = difference(request, candidate(3), Value::Null);
        assert_eq!(explains(vec![gone]), Vec::<String>::new());
    }

    #[test]
    fn another_file_is_named() {
        let why = Explained::read(b"{\"total\": 0}").unwrap_err();
        assert!(
            why.contains("is not a report of `berth import`: missing field `findings`"),
            "{why}"
        );
    }
}
