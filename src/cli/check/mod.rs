//! `berth check`: options and output.

pub mod checks;

use std::fmt::Write;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::cli::check::checks::{Finding, Verdict, worst};
use crate::config::Config;

/// Options of `check`.
#[derive(Args, Clone, Debug)]
pub struct CheckOptions {
    /// Check whether this version can replace the running one, instead of everything.
    ///
    /// Checks the configuration, the version of PostgreSQL, the schema, inventories below their usage and the
    /// consistency of the stored data.
    #[arg(long)]
    pub upgrade: bool,

    /// Output format.
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub format: FindingFormat,

    /// The options of `serve`.
    #[command(flatten)]
    pub config: Config,
}

/// Output format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FindingFormat {
    /// Lines, for people.
    Text,
    /// A JSON object.
    Json,
}

/// The findings as text, and whether no check has failed.
pub fn findings(found: &[Finding], format: FindingFormat) -> (String, bool) {
    let verdict = worst(found);
    let text = match format {
        FindingFormat::Text => lines(found, verdict),
        FindingFormat::Json => {
            let findings = found.iter().map(view).collect::<Value>();
            format!("{:#}", json!({"verdict": verdict.word(), "findings": findings}))
        }
    };
    (text, verdict < Verdict::Failure)
}

fn view(finding: &Finding) -> Value {
    json!({
        "subject": finding.subject,
        "verdict": finding.verdict.word(),
        "found": finding.found,
        "advice": finding.advice,
    })
}

fn lines(found: &[Finding], verdict: Verdict) -> String {
    let width = found.iter().map(|finding| finding.subject.len()).max().unwrap_or_default();
    let mut text = String::new();
    for finding in found {
        let Finding { subject, verdict, found, advice } = finding;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{verdict:7}  {subject:width$}  {found}");
        if let Some(advice) = advice {
            let _ = writeln!(text, "{:7}  {:width$}  do: {advice}", "", "");
        }
    }
    let count = |verdict| found.iter().filter(|finding| finding.verdict == verdict).count();
    let (failures, warnings) = (count(Verdict::Failure), count(Verdict::Warning));
    let _ = match verdict {
        Verdict::Fine | Verdict::Skipped => writeln!(text, "nothing is wrong"),
        Verdict::Warning | Verdict::Failure => {
            writeln!(text, "{failures} failures, {warnings} warnings")
        }
    };
    text
}

#[cfg(test)]
mod tests {
    use super::{Finding, FindingFormat, findings};

    #[test]
    fn findings_are_printed_with_what_to_do() {
        let found = [
            Finding::fine("clock", "it is right"),
            Finding::warning("certificates", "one ends", "replace it"),
        ];
        let (text, passes) = findings(&found, FindingFormat::Text);
        insta::assert_snapshot!(text, @r"
        ok       clock         it is right
        warning  certificates  one ends
                               do: replace it
        0 failures, 1 warnings
        ");
        assert!(passes);
        let (text, passes) = findings(&[Finding::failure("a", "b", "c")], FindingFormat::Json);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["verdict"], "failure");
        assert_eq!(value["findings"][0]["advice"], "c");
        assert!(!passes);
        let found = [Finding::fine("clock", "it is right"), Finding::skipped("keystone", "none")];
        let (text, passes) = findings(&found, FindingFormat::Json);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["verdict"], passes), (&serde_json::json!("ok"), true));
        assert_eq!(value["findings"][1]["verdict"], "skipped");
    }
}
