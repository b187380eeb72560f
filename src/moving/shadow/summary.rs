//! The summary of all requests, as text and JSON.

use std::fmt::Write as _;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::route::Kind;
use super::tally::{ALL, Certainty, Counts, Latencies};

/// Quantiles in the table of latencies.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
/// Maximum number of differences, and of routes, in the text.
const SHOWN_MAX: usize = 30;
/// Heading of the table of latencies.
const HEADING: &str = "milliseconds, upstream / Berth";

/// Data in the summary beside the counts.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) upstream: String,
    pub(super) berth: String,
    pub(super) runs_for: Duration,
    pub(super) is_on: bool,
    pub(super) mirrors_writes: bool,
    /// Requests that wait or are being processed.
    pub(super) pending_reads: usize,
    pub(super) pending_writes: usize,
    /// Differences that were not written to the file.
    pub(super) not_written: u64,
}

/// The summary.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    pub(super) setting: Setting,
    pub(super) counts: Counts,
}

impl Summary {
    /// Number of writes that Berth lacks, or may lack.
    fn lacking(&self, certainty: Certainty) -> u64 {
        self.counts.lacking.iter().filter(|(it, _)| **it == certainty).map(|(_, count)| count).sum()
    }

    /// As JSON.
    pub(super) fn json(&self) -> Value {
        let Self { setting, counts } = self;
        let by_kind = |found: Vec<(Kind, &str, u64)>| {
            let mut all = Map::new();
            for kind in [Kind::Read, Kind::Write] {
                let of_kind = found.iter().filter(|(it, ..)| *it == kind);
                let of_kind: Map<String, Value> =
                    of_kind.map(|(_, name, count)| ((*name).to_owned(), (*count).into())).collect();
                all.insert(kind.name().to_owned(), of_kind.into());
            }
            Value::from(all)
        };
        let named = |map: &std::collections::BTreeMap<(Kind, &'static str), u64>| {
            by_kind(map.iter().map(|((kind, name), count)| (*kind, *name, *count)).collect())
        };
        let compared = counts.compared.iter();
        let compared = compared.map(|((kind, it), count)| (*kind, it.name(), *count)).collect();
        let mirrored = |kind| counts.mirrored.get(&kind).copied().unwrap_or(0);
        let differences: Vec<Value> = self
            .differences()
            .into_iter()
            .map(|(route, place, count, example)| {
                json!({"route": route, "place": place, "count": count, "example": example})
            })
            .collect();
        let known: Vec<Value> = counts
            .known
            .iter()
            .map(|(id, (count, title))| json!({"id": id, "title": title, "count": count}))
            .collect();
        let latencies: Map<String, Value> = counts
            .latencies
            .iter()
            .map(|(route, Latencies { upstream, berth })| {
                let both = json!({"upstream": times(upstream), "berth": times(berth)});
                ((*route).to_owned(), both)
            })
            .collect();
        json!({
            "upstream": setting.upstream,
            "berth": setting.berth,
            "seconds": setting.runs_for.as_secs(),
            "mirror": if setting.is_on { "on" } else { "off" },
            "mirrors_writes": setting.mirrors_writes,
            "pending": {"read": setting.pending_reads, "write": setting.pending_writes},
            "requests": named(&counts.requests),
            "mirrored": {"read": mirrored(Kind::Read), "write": mirrored(Kind::Write)},
            "not_mirrored": named(&counts.not_mirrored),
            "compared": by_kind(compared),
            "writes_lacking": self.lacking(Certainty::Accepted),
            "writes_perhaps_lacking": self.lacking(Certainty::Unknown),
            "differences": differences,
            "known_differences": known,
            "latency_seconds": latencies,
            "differences_not_written": setting.not_written,
        })
    }

    /// Differences, the most frequent first: route, place, count, example.
    fn differences(&self) -> Vec<(&str, &str, u64, &str)> {
        let mut found: Vec<_> = self
            .counts
            .differences
            .iter()
            .map(|(kind, it)| {
                (kind.route.as_str(), kind.place.as_str(), it.count, it.example.as_str())
            })
            .collect();
        found.sort_by(|one, other| other.2.cmp(&one.2).then(one.0.cmp(other.0)));
        found
    }

    /// In words.
    pub(super) fn words(&self) -> String {
        let mut text = String::new();
        match self.write(&mut text) {
            Ok(()) => text,
            // Writing to a string does not fail.
            Err(error) => error.to_string(),
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { setting, counts } = self;
        let seconds = setting.runs_for.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        writeln!(text, "upstream {}", setting.upstream)?;
        writeln!(text, "Berth    {}", setting.berth)?;
        let state = if setting.is_on { "on" } else { "off" };
        let what = if setting.mirrors_writes { "reads and writes" } else { "reads" };
        writeln!(
            text,
            "running for {hours} h {minutes} min {seconds} s; the mirror is {state}, for {what}\n"
        )?;
        for kind in [Kind::Read, Kind::Write] {
            let name = kind.name();
            let of = |(it, _): &&(Kind, &'static str)| *it == kind;
            let requests: Vec<String> = listed(counts.requests.iter().filter(|(it, _)| of(it)));
            let not: Vec<String> = listed(counts.not_mirrored.iter().filter(|(it, _)| of(it)));
            let compared: Vec<String> = counts
                .compared
                .iter()
                .filter(|((it, _), _)| *it == kind)
                .map(|((_, outcome), count)| format!("{count} {}", outcome.name()))
                .collect();
            let mirrored = counts.mirrored.get(&kind).copied().unwrap_or(0);
            writeln!(text, "{name}s: {}", or_none(&requests))?;
            writeln!(text, "  mirrored: {mirrored}; not: {}", or_none(&not))?;
            writeln!(text, "  answers: {}", or_none(&compared))?;
        }
        self.write_lacking(text)?;
        self.write_differences(text)?;
        self.write_latencies(text)
    }

    fn write_lacking(&self, text: &mut String) -> std::fmt::Result {
        let [lacking, perhaps] =
            [Certainty::Accepted, Certainty::Unknown].map(|it| self.lacking(it));
        if lacking + perhaps == 0 {
            return Ok(());
        }
        writeln!(text)?;
        if lacking > 0 {
            writeln!(text, "Berth lacks {lacking} writes that the upstream accepted")?;
        }
        if perhaps > 0 {
            writeln!(
                text,
                "Berth may lack {perhaps} writes: it is unknown whether the upstream and Berth carried them out"
            )?;
        }
        writeln!(text, "Import again before you judge further differences")
    }

    fn write_differences(&self, text: &mut String) -> std::fmt::Result {
        let found = self.differences();
        writeln!(text, "\ndifferences (upstream / Berth): {}", found.len())?;
        for (route, place, count, example) in found.iter().take(SHOWN_MAX) {
            writeln!(text, "  {count} x {route}, {place}\n      {example}")?;
        }
        if found.len() > SHOWN_MAX {
            writeln!(text, "  and {} more kinds", found.len() - SHOWN_MAX)?;
        }
        if !self.counts.known.is_empty() {
            writeln!(text, "\nknown differences, see docs/differences.md:")?;
        }
        for (id, (count, title)) in &self.counts.known {
            writeln!(text, "  {count} x {id}: {title}")?;
        }
        Ok(())
    }

    fn write_latencies(&self, text: &mut String) -> std::fmt::Result {
        if self.counts.latencies.is_empty() {
            return Ok(());
        }
        let widest = self.counts.latencies.keys().map(|route| route.len()).max();
        let width = widest.map_or(HEADING.len(), |widest| widest.max(HEADING.len()));
        write!(text, "\n  {HEADING:<width$}")?;
        for (name, _) in QUANTILES {
            write!(text, " {name:>17}")?;
        }
        writeln!(text, " {:>10}", "requests")?;
        let all = self.counts.latencies.get_key_value(ALL);
        let routes = self.counts.latencies.iter().filter(|(route, _)| **route != ALL);
        for (route, Latencies { upstream, berth }) in all.into_iter().chain(routes) {
            write!(text, "  {route:<width$}")?;
            for (_, quantile) in QUANTILES {
                let of = |it: &Histogram<u64>| milliseconds(it.value_at_quantile(quantile));
                write!(text, " {:>7.1} / {:>7.1}", of(upstream), of(berth))?;
            }
            writeln!(text, " {:>10}", upstream.len())?;
        }
        Ok(())
    }
}

fn listed<'c>(counts: impl Iterator<Item = (&'c (Kind, &'static str), &'c u64)>) -> Vec<String> {
    counts.map(|((_, name), count)| format!("{count} {name}")).collect()
}

fn or_none(parts: &[String]) -> String {
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

fn times(histogram: &Histogram<u64>) -> Value {
    let mut all: Map<String, Value> = QUANTILES
        .iter()
        .map(|(name, quantile)| {
            ((*name).to_owned(), seconds(histogram.value_at_quantile(*quantile)).into())
        })
        .collect();
    all.insert("max".to_owned(), seconds(histogram.max()).into());
    all.insert("count".to_owned(), histogram.len().into());
    all.into()
}

fn seconds(microseconds: u64) -> f64 {
    Duration::from_micros(microseconds).as_secs_f64()
}

fn milliseconds(microseconds: u64) -> f64 {
    seconds(microseconds) * 1000.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{Certainty, Kind, Setting, Summary};
    use crate::moving::compare::known::RULES;
    use crate::moving::shadow::tally::{DifferenceKind, Outcome, Tally};

    fn summary() -> Summary {
        let tally = Tally::default();
        for _ in 0..3 {
            tally.requested(Kind::Read, "answered");
            tally.mirrored(Kind::Read);
            tally.took("/usages", Duration::from_millis(20), Duration::from_millis(2));
        }
        tally.requested(Kind::Write, "accepted");
        tally.requested(Kind::Write, "broken");
        tally.not_mirrored(Kind::Read, "queue_full");
        tally.not_mirrored(Kind::Write, "off");
        tally.lacks(Certainty::Accepted);
        tally.not_mirrored(Kind::Write, "upstream_failed");
        tally.lacks(Certainty::Unknown);
        tally.compared(Kind::Read, Outcome::Same);
        tally.compared(Kind::Read, Outcome::Different);
        let kind = DifferenceKind { route: "GET /usages".to_owned(), place: "body/x".to_owned() };
        tally.differed(kind, "GET /usages?project_id=p: body/x is 1 / 2".to_owned());
        tally.differed_as_known(&RULES[0]);
        let setting = Setting {
            upstream: "http://old:8778".to_owned(),
            berth: "http://new:8778".to_owned(),
            runs_for: Duration::from_secs(3725),
            is_on: true,
            mirrors_writes: true,
            pending_reads: 1,
            pending_writes: 0,
            not_written: 0,
        };
        Summary { setting, counts: tally.snapshot() }
    }

    #[test]
    fn it_says_what_was_found() {
        insta::assert_snapshot!(summary().words(), @r"
        upstream http://old:8778
        Berth    http://new:8778
        running for 1 h 2 min 5 s; the mirror is on, for reads and writes

        reads: 3 answered
          mirrored: 3; not: 1 queue_full
          answers: 1 same, 1 different
        writes: 1 accepted, 1 broken
          mirrored: 0; not: 1 off, 1 upstream_failed
          answers: none

        Berth lacks 1 writes that the upstream accepted
        Berth may lack 1 writes: it is unknown whether the upstream and Berth carried them out
        Import again before you judge further differences

        differences (upstream / Berth): 1
          1 x GET /usages, body/x
              GET /usages?project_id=p: body/x is 1 / 2

        known differences, see docs/differences.md:
          1 x B1: a NUL character in any text, path or query

          milliseconds, upstream / Berth               p50               p90               p99   requests
          all                               20.1 /     2.0    20.1 /     2.0    20.1 /     2.0          3
          /usages                           20.1 /     2.0    20.1 /     2.0    20.1 /     2.0          3
        ");
    }

    #[test]
    fn the_summary_is_json() {
        let found = summary().json();
        assert_eq!(found["mirrored"], json!({"read": 3, "write": 0}));
        assert_eq!(found["not_mirrored"]["read"], json!({"queue_full": 1}));
        assert_eq!(found["compared"]["read"], json!({"same": 1, "different": 1}));
        assert_eq!([&found["writes_lacking"], &found["writes_perhaps_lacking"]], [1, 1]);
        assert_eq!(found["differences"][0]["count"], 1);
        assert_eq!(found["known_differences"][0]["id"], RULES[0].id);
        let latencies = &found["latency_seconds"]["/usages"];
        assert!((latencies["upstream"]["p50"].as_f64().unwrap() - 0.02).abs() < 0.001);
        assert_eq!(latencies["berth"]["count"], 3);
    }
}
