//! `berth moves`: proposes how to make room for a request.

use clap::Args;
use url::form_urlencoded::Serializer;

use super::columns::FormatOptions;
use super::explain::shown;
use super::page::{Cell, Page, Tone};
use super::service::ServiceOptions;
use super::terminal::Colours;
use crate::http::operator::views::moves::{Host, Moves, Step};
use crate::http::pasted_query;
use crate::moving::placement_client::Microversion;
use crate::server::failure::Failure;

/// Path of the resource.
const PATH: &str = "/-/v1/moves";

/// Options of `moves`.
#[derive(Args, Clone, Debug)]
pub struct MovesOptions {
    /// The query to make room for, in the form of `GET /allocation_candidates`.
    ///
    /// A line of a log with a path and `?` in front of the query is accepted as well. Quote it, because it contains
    /// `&`.
    #[arg(value_name = "QUERY", required_unless_present = "flavor", conflicts_with = "flavor")]
    pub query: Option<String>,

    /// The flavor of the planner to make room for, by name or id.
    #[arg(long, value_name = "NAME")]
    pub flavor: Option<String>,

    /// Propose to remove consumers instead of moving them: those of a project (`project:ID`) or type (`type:NAME`).
    ///
    /// May be repeated: consumers of the first ones are removed first.
    #[arg(long, value_name = "WHO")]
    pub victim: Vec<String>,

    /// Properties that a consumer's new host must share with the one it leaves: `traits`, `aggregates`,
    /// `traits,aggregates` or `nothing`. Default: `traits`.
    #[arg(long, value_name = "WHAT", conflicts_with = "victim")]
    pub keep: Option<String>,

    /// Microversion of the query.
    #[arg(long, value_name = "1.N", default_value_t = Microversion::MAX)]
    pub microversion: Microversion,

    /// Output format. Only JSON has the bodies of the requests that carry out the steps.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The server.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth moves`, and returns its output.
///
/// # Errors
/// The server does not respond, or the query is invalid.
pub async fn run(options: &MovesOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let mut query = Serializer::new(String::new());
    if let Some(it) = &options.query {
        query.append_pair("make-room-for", pasted_query(it));
    }
    if let Some(it) = &options.flavor {
        query.append_pair("flavor", it);
    }
    for it in &options.victim {
        query.append_pair("victim", it);
    }
    if let Some(keep) = &options.keep {
        query.append_pair("keep", keep);
    }
    let path = format!("{PATH}?{}", query.finish());
    shown(client.get(&path, options.microversion).await?, options.format, text)
}

fn text(it: &Moves, colours: Colours) -> String {
    let mut page = Page::new(colours);
    add(&mut page, it);
    page.finish()
}

fn add(page: &mut Page, it: &Moves) {
    if let Some(Host { host, .. }) = &it.fits_on {
        let request = &it.request;
        page.toned(Tone::Good, format_args!("{request} fits already, for example on {host}."));
        return;
    }
    let Some(Host { host, .. }) = &it.target else {
        let proof =
            if it.proven { "No 8 consumers of one host suffice." } else { "There may be one." };
        page.toned(
            Tone::Bad,
            format_args!("No way was found to make room for {}. {proof}", it.request),
        );
        examined(page, it);
        return;
    };
    let (count, unit) = (it.steps.len(), if it.steps.len() == 1 { "step" } else { "steps" });
    let proof = if it.proven {
        "No fewer consumers of one host suffice."
    } else {
        "Fewer might suffice; this is not proven."
    };
    page.toned(
        Tone::Good,
        format_args!("{} fits on {host} after {count} {unit}. {proof}", it.request),
    );
    examined(page, it);
    page.blank();
    let row = |step: &Step| {
        let amounts = step.leaves.iter().map(|(class, amount)| format!("{class}:{amount}"));
        let amounts = amounts.collect::<Vec<_>>().join(",");
        let to = step.to.as_ref().map(|to| to.host.clone());
        [
            step.consumer.clone(),
            step.project_id.clone(),
            amounts,
            to.unwrap_or_else(|| "(gives it up)".to_owned()),
        ]
        .map(Cell::from)
    };
    page.table(["CONSUMER", "PROJECT", "HOLDS", "MOVES TO"], it.steps.iter().map(row));
}

fn examined(page: &mut Page, it: &Moves) {
    let it = it.examined;
    page.line(format_args!(
        "{} consumers of {} hosts were examined; on {} hosts it would fit if they were empty.",
        it.consumers, it.hosts, it.of_hosts
    ));
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::text;
    use crate::cli::terminal::Colours;
    use crate::http::operator::views::moves::{Examined, Host, Moves, Step};

    fn host(name: &str) -> Host {
        Host { host: name.to_owned(), uuid: String::new() }
    }

    #[test]
    fn steps_are_described_with_their_proof() {
        let step = |to: Option<Host>| Step {
            consumer: "c1".to_owned(),
            project_id: "p".to_owned(),
            consumer_type: None,
            leaves: [("MEMORY_MB".to_owned(), 512), ("VCPU".to_owned(), 2)].into(),
            to,
            microversion: "1.28".to_owned(),
            body: Value::Null,
        };
        let moves = Moves {
            request: "m1.large".to_owned(),
            is_flavor: true,
            fits_on: None,
            target: Some(host("cn1")),
            steps: vec![step(Some(host("cn2"))), step(None)],
            proven: false,
            examined: Examined { hosts: 64, of_hosts: 70, consumers: 900 },
        };
        insta::assert_snapshot!(text(&moves, Colours::None), @r"
        m1.large fits on cn1 after 2 steps. Fewer might suffice; this is not proven.
        900 consumers of 64 hosts were examined; on 70 hosts it would fit if they were empty.

        CONSUMER  PROJECT  HOLDS                 MOVES TO
        c1        p        MEMORY_MB:512,VCPU:2  cn2
        c1        p        MEMORY_MB:512,VCPU:2  (gives it up)
        ");
        let none = Moves { target: None, steps: Vec::new(), proven: true, ..moves.clone() };
        insta::assert_snapshot!(text(&none, Colours::None), @r"
        No way was found to make room for m1.large. No 8 consumers of one host suffice.
        900 consumers of 64 hosts were examined; on 70 hosts it would fit if they were empty.
        ");
        let fits = Moves { fits_on: Some(host("cn3")), ..none };
        assert_eq!(text(&fits, Colours::None), "m1.large fits already, for example on cn3.\n");
    }
}
