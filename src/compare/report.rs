//! What two services differ in: in words and as JSON.

use serde::Serialize;
use serde_json::Value;

use super::answers::Difference;
use crate::placement_client::Microversion;
use crate::telemetry::escaped;

/// How many differences of one subject are written out in words.
const SHOWN: usize = 10;
/// How many failures are kept.
const FAILURES_MAX: usize = 100;
/// The most characters of a value in words.
const VALUE_MAX: usize = 200;
/// The most bytes of a value in JSON: a value that is larger is written as text, and cut off.
const VALUE_BYTES_MAX: usize = 4096;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The names of resource classes.
    ResourceClasses,
    /// The names of traits.
    Traits,
    /// Providers: name, generation, place in the tree.
    Providers,
    /// Inventories of providers.
    Inventories,
    /// Usages of providers.
    Usages,
    /// Aggregates of providers.
    Aggregates,
    /// Traits of providers.
    ProviderTraits,
    /// What consumers have of providers.
    ProviderAllocations,
    /// Consumers: what they have, whose they are, type and generation.
    Consumers,
    /// Usages of projects.
    ProjectUsages,
    /// Allocation candidates.
    Candidates,
}

const SUBJECTS: [Subject; 11] = [
    Subject::ResourceClasses,
    Subject::Traits,
    Subject::Providers,
    Subject::Inventories,
    Subject::Usages,
    Subject::Aggregates,
    Subject::ProviderTraits,
    Subject::ProviderAllocations,
    Subject::Consumers,
    Subject::ProjectUsages,
    Subject::Candidates,
];

impl Subject {
    /// Its name for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::ResourceClasses => "resource classes",
            Self::Traits => "traits",
            Self::Providers => "providers and trees",
            Self::Inventories => "inventories",
            Self::Usages => "usages",
            Self::Aggregates => "aggregates",
            Self::ProviderTraits => "traits of providers",
            Self::ProviderAllocations => "allocations of providers",
            Self::Consumers => "consumers",
            Self::ProjectUsages => "usages of projects",
            Self::Candidates => "candidates",
        }
    }

    /// Whether answers about it have the time of the last change, and not that of the request.
    pub(super) fn has_times(self) -> bool {
        match self {
            Self::Providers | Self::Inventories | Self::ProviderAllocations | Self::Consumers => {
                true
            }
            Self::ResourceClasses
            | Self::Traits
            | Self::Usages
            | Self::Aggregates
            | Self::ProviderTraits
            | Self::ProjectUsages
            | Self::Candidates => false,
        }
    }
}

/// What two services differ in.
#[derive(Debug, Serialize)]
pub struct Report {
    /// One service.
    pub left: Service,
    /// The other service.
    pub right: Service,
    /// The microversion at which both were asked.
    pub microversion: String,
    /// How many providers each has.
    pub providers: (u64, u64),
    /// How many requests were compared, and how many differences were found.
    pub differences: Vec<Count>,
    /// The number of all differences, without those that an import explains.
    pub total: u64,
    /// The first differences.
    pub shown: Vec<Shown>,
    /// The first of the differences that an import explains.
    pub explained: Vec<Shown>,
    /// What one should know about the comparison.
    pub notes: Vec<String>,
    /// Questions that a service failed at.
    pub not_compared: Vec<String>,
    /// How long it took, in seconds.
    pub seconds: f64,
    #[serde(skip)]
    kept: usize,
}

/// A service.
#[derive(Debug, Serialize)]
pub struct Service {
    /// Its URL.
    pub url: String,
    /// Its highest microversion.
    pub microversion: String,
}

/// What was found about one subject.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The subject.
    pub subject: Subject,
    /// How many requests were compared.
    pub compared: u64,
    /// How many differences there are, without those that an import explains.
    pub count: u64,
    /// How many differences an import explains.
    pub explained: u64,
}

/// A difference.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// What it is about.
    pub subject: Subject,
    /// The request whose answers differ.
    pub request: String,
    /// Where in the answers.
    pub place: String,
    /// The left value, if there is one.
    pub left: Option<Value>,
    /// The right value, if there is one.
    pub right: Option<Value>,
}

impl Report {
    pub(super) fn new(
        left: (String, Microversion),
        right: (String, Microversion),
        version: Microversion,
        kept: usize,
    ) -> Self {
        let service = |(url, highest): (String, Microversion)| Service {
            url,
            microversion: highest.to_string(),
        };
        let none = |subject| Count { subject, compared: 0, count: 0, explained: 0 };
        Self {
            left: service(left),
            right: service(right),
            microversion: version.to_string(),
            providers: (0, 0),
            differences: SUBJECTS.map(none).into(),
            total: 0,
            shown: Vec::new(),
            explained: Vec::new(),
            notes: Vec::new(),
            not_compared: Vec::new(),
            seconds: 0.0,
            kept,
        }
    }

    /// Counts requests whose answers are the same.
    pub(super) fn compared(&mut self, subject: Subject, requests: u64) {
        for count in self.differences.iter_mut().filter(|it| it.subject == subject) {
            count.compared += requests;
        }
    }

    /// Adds what was found about a request.
    pub(super) fn add(&mut self, subject: Subject, request: &str, found: &[Difference]) {
        self.compared(subject, 1);
        for count in self.differences.iter_mut().filter(|it| it.subject == subject) {
            count.count += found.len() as u64;
        }
        self.total += found.len() as u64;
        let room = self.kept.saturating_sub(self.shown.len());
        self.shown.extend(found.iter().take(room).map(|it| Shown::new(subject, request, it)));
    }

    /// Adds differences that an import explains, of a request that is counted already.
    pub(super) fn add_explained(&mut self, subject: Subject, request: &str, found: &[Difference]) {
        for count in self.differences.iter_mut().filter(|it| it.subject == subject) {
            count.explained += found.len() as u64;
        }
        let room = self.kept.saturating_sub(self.explained.len());
        self.explained.extend(found.iter().take(room).map(|it| Shown::new(subject, request, it)));
    }

    /// Adds a request that a service failed at.
    pub(super) fn not_compared(&mut self, request: &str, why: &str) {
        if self.not_compared.len() < FAILURES_MAX {
            self.not_compared.push(format!("{request}: {why}"));
        }
    }

    /// Whether everything could be compared, and nothing differs.
    pub fn is_same(&self) -> bool {
        self.total == 0 && self.not_compared.is_empty()
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        // A report is of strings and finite numbers, which always have a form in JSON.
        serde_json::to_string_pretty(self).unwrap_or_else(|error| error.to_string())
    }

    /// The report in words, in which nothing that a service tells does anything to a terminal.
    pub fn words(&self) -> String {
        let service = |side: &str, it: &Service, providers: u64| {
            format!("{side}: {}, up to {}, {providers} providers", it.url, it.microversion)
        };
        let mut lines = vec![
            service("left", &self.left, self.providers.0),
            service("right", &self.right, self.providers.1),
        ];
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        for Count { subject, compared, count, explained } in &self.differences {
            let words = subject.words();
            lines.push(format!("{words}: {compared} compared, {}", differences(*count)));
            lines.extend(listed(&self.shown, *subject, *count));
            if *explained > 0 {
                lines.push(format!("  and {} explained by the import:", differences(*explained)));
                lines.extend(listed(&self.explained, *subject, *explained));
            }
        }
        for failure in &self.not_compared {
            lines.push(format!("not compared: {failure}"));
        }
        let explained: u64 = self.differences.iter().map(|it| it.explained).sum();
        let ending = match (self.total, self.not_compared.len()) {
            (0, 0) if explained > 0 => format!(
                "the services are the same but for {}, explained by the import",
                differences(explained)
            ),
            (0, 0) => "the services are the same".to_owned(),
            (0, failed) => format!("nothing differs, but {failed} requests could not be compared"),
            (count, _) => differences(count),
        };
        lines.push(format!("{ending}, compared at {} in {:.1} s", self.microversion, self.seconds));
        let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
        lines.join("\n")
    }
}

impl Shown {
    fn new(subject: Subject, request: &str, difference: &Difference) -> Self {
        Self {
            subject,
            request: request.to_owned(),
            place: difference.place(),
            left: difference.left.as_ref().map(bounded),
            right: difference.right.as_ref().map(bounded),
        }
    }

    /// One line.
    fn words(&self) -> String {
        let value = |value: &Option<Value>| match value {
            None => "nothing".to_owned(),
            Some(value) => shortened(&value.to_string(), VALUE_MAX),
        };
        let (left, right) = (value(&self.left), value(&self.right));
        format!("{} {}: left {left}, right {right}", self.request, self.place)
    }
}

/// The first of `count` differences of a subject, a line each.
fn listed(of: &[Shown], subject: Subject, count: u64) -> Vec<String> {
    let first: Vec<&Shown> = of.iter().filter(|it| it.subject == subject).take(SHOWN).collect();
    let mut lines: Vec<String> = first.iter().map(|it| format!("  {}", it.words())).collect();
    let more = count.saturating_sub(first.len() as u64);
    if more > 0 {
        lines.push(format!("  ... and {more} more: see --report"));
    }
    lines
}

fn differences(count: u64) -> String {
    match count {
        0 => "the same".to_owned(),
        1 => "1 difference".to_owned(),
        count => format!("{count} differences"),
    }
}

/// A value, or the beginning of its text if it is large.
fn bounded(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= VALUE_BYTES_MAX {
        return value.clone();
    }
    Value::String(shortened(&text, VALUE_BYTES_MAX))
}

fn shortened(text: &str, most: usize) -> String {
    let shown: String = text.chars().take(most).collect();
    if shown.len() == text.len() { shown } else { format!("{shown}...") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Report, Subject};
    use crate::compare::answers::Difference;
    use crate::placement_client::Microversion;

    fn report() -> Report {
        let service = |url: &str, minor| (url.to_owned(), Microversion(minor));
        Report::new(service("http://old/", 39), service("http://new/", 38), Microversion(38), 12)
    }

    fn difference(path: &[&str]) -> Difference {
        let path = path.iter().map(|it| (*it).to_owned()).collect();
        Difference { path, left: Some(json!(1)), right: None }
    }

    #[test]
    fn all_differences_are_counted_and_the_first_are_shown() {
        let mut report = report();
        assert!(report.is_same());
        assert!(report.words().contains("the services are the same, compared at 1.38 in 0.0 s"));
        for nth in 0..20 {
            let path = format!("/resource_providers/{nth}/usages");
            report.add(Subject::Usages, &path, &[difference(&["body", "usages", "VCPU"])]);
        }
        report.add(Subject::Candidates, "/allocation_candidates", &[]);
        report.not_compared("/allocation_candidates?x", "no answer");
        assert_eq!((report.total, report.shown.len(), report.is_same()), (20, 12, false));
        let words = report.words();
        assert!(words.contains(
            "usages: 20 compared, 20 differences\n  /resource_providers/0/usages body/usages/VCPU: \
             left 1, right nothing\n"
        ));
        assert!(words.contains("  ... and 10 more: see --report\n"), "{words}");
        assert!(words.contains("candidates: 1 compared, the same\nnot compared: "), "{words}");
        assert!(words.ends_with("20 differences, compared at 1.38 in 0.0 s"));
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(
            json["differences"][4],
            json!({"subject": "usages", "compared": 20, "count": 20, "explained": 0})
        );
        assert_eq!(json["shown"][0]["right"], json!(null));
    }

    #[test]
    fn what_an_import_explains_is_counted_by_itself() {
        let mut report = report();
        report.add(Subject::Usages, "/resource_providers/1/usages", &[]);
        let found = [difference(&["body", "usages", "VCPU"])];
        report.add_explained(Subject::Usages, "/resource_providers/1/usages", &found);
        assert!(report.is_same());
        let words = report.words();
        let listed = "usages: 1 compared, the same\n  and 1 difference explained by the import:\n  \
                      /resource_providers/1/usages body/usages/VCPU: left 1, right nothing\n";
        assert!(words.contains(listed), "{words}");
        let ending =
            "the services are the same but for 1 difference, explained by the import, compared at";
        assert!(words.contains(ending), "{words}");
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        let count = json!({"subject": "usages", "compared": 1, "count": 0, "explained": 1});
        assert_eq!((&json["differences"][4], &json["total"]), (&count, &json!(0)));
        assert_eq!(json["explained"][0]["left"], json!(1));
    }

    #[test]
    fn a_large_value_is_cut_off() {
        let mut report = report();
        let large = Difference { left: Some(json!("x".repeat(10_000))), ..difference(&["body"]) };
        report.add(Subject::Traits, "/traits", &[large]);
        assert!(report.words().len() < 2000);
        assert!(report.json().len() < 10_000);
    }
}
