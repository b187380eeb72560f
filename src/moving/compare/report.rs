//! The report of a comparison, as text and JSON.

use serde::Serialize;
use serde_json::Value;

use super::options::Options;
use super::response::Difference;
use super::subject::{SUBJECTS, Subject};
use crate::moving::placement_client::Microversion;
use crate::observe::printable::{self, escaped};

/// Maximum number of differences per subject in the text.
const SHOWN: usize = 10;
/// Maximum number of failures that are kept.
const FAILURES_MAX: usize = 100;
/// Maximum number of characters of a value in the text.
const VALUE_MAX: usize = 200;
/// Maximum number of bytes of a value in JSON; a larger value is truncated text.
const VALUE_BYTES_MAX: usize = 4096;

/// The report of a comparison.
#[derive(Debug, Serialize)]
pub struct Report {
    /// One service.
    pub left: Service,
    /// The other service.
    pub right: Service,
    /// The microversion of the requests.
    pub microversion: String,
    /// Number of providers in each service.
    pub providers: (u64, u64),
    /// Counts for each subject.
    pub differences: Vec<Count>,
    /// Total number of differences, without those that an import explains.
    pub total: u64,
    /// The first differences.
    pub shown: Vec<Shown>,
    /// The first differences that an import explains.
    pub explained: Vec<Shown>,
    /// Notes about the comparison.
    pub notes: Vec<String>,
    /// Errors of the first requests that could not be compared.
    pub not_compared: Vec<String>,
    /// Duration in seconds.
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

/// Counts for one subject.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The subject.
    pub subject: Subject,
    /// Number of requests compared.
    pub compared: u64,
    /// Number of differences, without those that an import explains.
    pub count: u64,
    /// Number of differences that an import explains.
    pub explained: u64,
    /// Number of requests that could not be compared, because a service failed.
    pub not_compared: u64,
    /// Whether the subject was left out.
    pub skipped: bool,
}

/// A difference.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The subject.
    pub subject: Subject,
    /// The request whose responses differ.
    pub request: String,
    /// Place in the responses.
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
        options: &Options,
    ) -> Self {
        let service = |(url, highest): (String, Microversion)| Service {
            url,
            microversion: highest.to_string(),
        };
        let none = |subject| Count {
            subject,
            compared: 0,
            count: 0,
            explained: 0,
            not_compared: 0,
            skipped: options.skips(subject),
        };
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
            kept: options.kept,
        }
    }

    /// Counts requests with equal responses.
    pub(super) fn compared(&mut self, subject: Subject, requests: u64) {
        for count in self.differences.iter_mut().filter(|it| it.subject == subject) {
            count.compared += requests;
        }
    }

    /// Adds a request with its differences.
    pub(super) fn add(&mut self, subject: Subject, request: &str, found: &[Difference]) {
        self.compared(subject, 1);
        for count in self.differences.iter_mut().filter(|it| it.subject == subject) {
            count.count += found.len() as u64;
        }
        self.total += found.len() as u64;
        let room = self.kept.saturating_sub(self.shown.len());
        self.shown.extend(found.iter().take(room).map(|it| Shown::new(subject, request, it)));
    }

    /// Adds differences that an import explains, of a request that is already counted.
    pub(super) fn add_explained(&mut self, subject: Subject, request: &str, found: &[Difference]) {
        for count in self.differences.iter_mut().filter(|it| it.subject == subject) {
            count.explained += found.len() as u64;
        }
        let room = self.kept.saturating_sub(self.explained.len());
        self.explained.extend(found.iter().take(room).map(|it| Shown::new(subject, request, it)));
    }

    /// Adds a request that failed, with an error that names it.
    pub(super) fn not_compared(&mut self, subject: Subject, why: &str) {
        self.not_sent(subject);
        if self.not_compared.len() < FAILURES_MAX {
            self.not_compared.push(why.to_owned());
        }
    }

    /// Counts a request that was not sent because the service had not responded to many before it.
    pub(super) fn not_sent(&mut self, subject: Subject) {
        for count in self.differences.iter_mut().filter(|it| it.subject == subject) {
            count.not_compared += 1;
        }
    }

    /// The number of requests that could not be compared.
    pub fn failures(&self) -> u64 {
        self.differences.iter().map(|it| it.not_compared).sum()
    }

    /// The number of requests that were compared.
    pub fn comparisons(&self) -> u64 {
        self.differences.iter().map(|it| it.compared).sum()
    }

    /// The report as JSON.
    pub fn json(&self) -> String {
        printable::json(self)
    }

    /// The report as text, with all control characters of the services' values escaped.
    pub fn words(&self) -> String {
        let service = |side: &str, it: &Service, providers: u64| {
            format!("{side}: {}, up to {}, {providers} providers", it.url, it.microversion)
        };
        let mut lines = vec![
            service("left", &self.left, self.providers.0),
            service("right", &self.right, self.providers.1),
        ];
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        for count in &self.differences {
            lines.push(count.words());
            lines.extend(listed(&self.shown, count.subject, count.count));
            if count.explained > 0 {
                let explained = differences(count.explained);
                lines.push(format!("  and {explained} explained by the import:"));
                lines.extend(listed(&self.explained, count.subject, count.explained));
            }
        }
        let failures = self.failures();
        let first = self.not_compared.iter().take(SHOWN);
        lines.extend(first.map(|failure| format!("not compared: {failure}")));
        let more = failures.saturating_sub(self.not_compared.len().min(SHOWN) as u64);
        if more > 0 {
            lines.push(format!("not compared: ... and {more} more"));
        }
        let explained: u64 = self.differences.iter().map(|it| it.explained).sum();
        let failed = format!("{failures} requests could not be compared");
        let ending = match (self.total, failures) {
            (0, 0) if self.comparisons() == 0 => "nothing was compared".to_owned(),
            (0, _) if self.comparisons() == 0 => format!("nothing was compared: {failed}"),
            (0, 0) if explained > 0 => format!(
                "the services are the same but for {}, explained by the import",
                differences(explained)
            ),
            (0, 0) => "the services are the same".to_owned(),
            (0, _) => format!("nothing differs, but {failed}"),
            (count, 0) => differences(count),
            (count, _) => format!("{}, and {failed}", differences(count)),
        };
        let at = if self.comparisons() == 0 { "at" } else { "compared at" };
        lines.push(format!("{ending}, {at} {} in {:.1} s", self.microversion, self.seconds));
        let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
        lines.join("\n")
    }
}

impl Count {
    /// Formats one line.
    fn words(&self) -> String {
        let subject = self.subject.words();
        if self.skipped {
            return format!("{subject}: skipped");
        }
        let failed = match self.not_compared {
            0 => String::new(),
            failed => format!(", {failed} could not be compared"),
        };
        let same = match (self.compared, self.count) {
            (0, 0) => String::new(),
            (_, count) => format!(", {}", differences(count)),
        };
        format!("{subject}: {} compared{same}{failed}", self.compared)
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

    /// Formats one line.
    fn words(&self) -> String {
        let value = |value: &Option<Value>| match value {
            None => "nothing".to_owned(),
            Some(value) => shortened(&value.to_string(), VALUE_MAX),
        };
        let (left, right) = (value(&self.left), value(&self.right));
        format!("{} {}: left {left}, right {right}", self.request, self.place)
    }
}

/// Lists the first of `count` differences of a subject, one per line.
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

    use super::{Options, Report, Subject};
    use crate::moving::compare::response::Difference;
    use crate::moving::placement_client::Microversion;

    fn report() -> Report {
        let service = |url: &str, minor| (url.to_owned(), Microversion(minor));
        let options = Options { kept: 12, skipped: vec![Subject::Traits], ..Options::default() };
        let (left, right) = (service("http://old/", 39), service("http://new/", 38));
        Report::new(left, right, Microversion(38), &options)
    }

    fn difference(path: &[&str]) -> Difference {
        let path = path.iter().map(|it| (*it).to_owned()).collect();
        Difference { path, left: Some(json!(1)), right: None }
    }

    #[test]
    fn all_differences_are_counted_and_the_first_are_shown() {
        let mut report = report();
        assert!(report.words().contains("nothing was compared, at 1.38 in 0.0 s"));
        report.add(Subject::Candidates, "/allocation_candidates", &[]);
        assert!(report.words().contains("the services are the same, compared at 1.38 in 0.0 s"));
        assert!(report.words().contains("\ntraits: skipped\n"));
        for nth in 0..20 {
            let path = format!("/resource_providers/{nth}/usages");
            report.add(Subject::Usages, &path, &[difference(&["body", "usages", "VCPU"])]);
        }
        assert_eq!((report.total, report.shown.len()), (20, 12));
        let words = report.words();
        assert!(words.contains(
            "usages: 20 compared, 20 differences\n  /resource_providers/0/usages body/usages/VCPU: \
             left 1, right nothing\n"
        ));
        assert!(words.contains("  ... and 10 more: see --report\n"), "{words}");
        assert!(words.contains("candidates: 1 compared, the same\n20 differences, "), "{words}");
        assert!(words.ends_with("20 differences, compared at 1.38 in 0.0 s"));
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(
            json["differences"][4],
            json!({"subject": "usages", "compared": 20, "count": 20, "explained": 0,
                   "not_compared": 0, "skipped": false})
        );
        assert_eq!(json["shown"][0]["right"], json!(null));
    }

    #[test]
    fn skipped_subjects_are_counted_and_the_first_are_named() {
        let mut report = report();
        for nth in 0..300 {
            report.not_compared(Subject::Usages, &format!("GET http://old/{nth}: 500"));
        }
        report.not_sent(Subject::Usages);
        let words = report.words();
        assert!(words.contains("usages: 0 compared, 301 could not be compared\n"), "{words}");
        assert!(
            words.contains("not compared: GET http://old/9: 500\nnot compared: ... and 291 more\n")
        );
        let ending = "nothing was compared: 301 requests could not be compared, at 1.38";
        assert!(words.contains(ending), "{words}");
        report.add(Subject::Usages, "/resource_providers/1/usages", &[]);
        let words = report.words();
        assert!(words.contains("usages: 1 compared, the same, 301 could not be compared\n"));
        assert!(words.contains("\nnothing differs, but 301 requests could not be compared, "));
        let found = [difference(&["body", "usages", "VCPU"])];
        report.add(Subject::Usages, "/resource_providers/2/usages", &found);
        assert!(
            report.words().contains("\n1 difference, and 301 requests could not be compared, ")
        );
    }

    #[test]
    fn differences_due_to_an_import_are_counted_separately() {
        let mut report = report();
        report.add(Subject::Usages, "/resource_providers/1/usages", &[]);
        let found = [difference(&["body", "usages", "VCPU"])];
        report.add_explained(Subject::Usages, "/resource_providers/1/usages", &found);
        let words = report.words();
        let listed = "usages: 1 compared, the same\n  and 1 difference explained by the import:\n  \
                      /resource_providers/1/usages body/usages/VCPU: left 1, right nothing\n";
        assert!(words.contains(listed), "{words}");
        let ending =
            "the services are the same but for 1 difference, explained by the import, compared at";
        assert!(words.contains(ending), "{words}");
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        let count = json!({"subject": "usages", "compared": 1, "count": 0, "explained": 1,
                           "not_compared": 0, "skipped": false});
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
