//! Prometheus's text format, as in `/metrics`: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use std::collections::BTreeMap;

/// A sample of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: f64,
}

/// All samples by metric name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Samples(BTreeMap<String, Vec<Sample>>);

impl Samples {
    /// Parses a text. Lines without a sample, such as comments, are ignored.
    pub(super) fn parse(text: &str) -> Self {
        let mut samples = Self::default();
        for line in text.lines() {
            if let Some((name, sample)) = sample(line) {
                samples.0.entry(name).or_default().push(sample);
            }
        }
        samples
    }

    /// The samples of a metric.
    pub(super) fn of(&self, metric: &str) -> &[Sample] {
        self.0.get(metric).map_or(&[], Vec::as_slice)
    }

    /// The sum of a metric's samples with these labels; `None` if there are no such samples.
    pub(super) fn sum(&self, metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has =
            |sample: &&Sample| labels.iter().all(|(name, value)| sample.label(name) == Some(value));
        self.of(metric).iter().filter(has).map(|it| it.value).reduce(|sum, more| sum + more)
    }
}

impl Sample {
    /// The value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

/// Parses a line: `name{label="value",...} number`.
fn sample(line: &str) -> Option<(String, Sample)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (name, labels, rest) = match line.split_once('{') {
        // If a space precedes the brace, the brace is not part of the name.
        Some((name, rest)) if !name.contains(' ') => {
            let (labels, rest) = labels(rest)?;
            (name, labels, rest)
        }
        _ => {
            let (name, rest) = line.split_once(' ')?;
            (name, BTreeMap::new(), rest)
        }
    };
    // A timestamp may follow.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((name.to_owned(), Sample { labels, value }))
}

/// The labels of a sample, up to the closing brace, and the rest.
fn labels(mut text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.insert(name.trim().to_owned(), value);
        text = rest;
    }
}

/// A text up to the closing quote, unescaped, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Samples;

    #[test]
    fn samples_have_labels_and_values() {
        let samples = Samples::parse(
            "# TYPE up gauge\nup 1\n\
             seconds_bucket{route=\"/a/{uuid}\",le=\"0.1\"} 3\n\
             seconds_bucket{route=\"say \\\"hi\\\"\\\\\\n\",le=\"+Inf\"} 4 1700000000\n\
             broken{a=\"b\n broken\nnothing NaN\n",
        );
        assert_eq!(samples.sum("up", &[]), Some(1.0));
        assert_eq!(
            samples.sum("seconds_bucket", &[("route", "/a/{uuid}"), ("le", "0.1")]),
            Some(3.0)
        );
        assert_eq!(samples.of("seconds_bucket")[1].label("route"), Some("say \"hi\"\\\n"));
        assert_eq!(samples.sum("seconds_bucket", &[]), Some(7.0));
        assert_eq!(samples.sum("broken", &[]), None);
        assert!(samples.sum("nothing", &[]).is_some_and(f64::is_nan));
    }
}
