//! `berth drain` and `berth rebalance`: the fewest moves that empty hosts, or make room.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::claim::parsed;
use super::columns::FormatOptions;
use super::explain::shown;
use super::page::{Cell, Page, Tone};
use super::service::ServiceOptions;
use super::terminal::Colours;
use crate::http::operator::views::relocations::{Move, Relocations, Step};
use crate::moving::placement_client::Microversion;
use crate::server::failure::Failure;

/// Options of `drain`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("drained").args(["hosts", "rack"]).required(true).multiple(true))]
pub struct DrainOptions {
    /// Hosts to empty, by name or UUID.
    #[arg(value_name = "HOST")]
    pub hosts: Vec<String>,

    /// A rack to empty. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub rack: Vec<String>,

    /// Options of both commands.
    #[command(flatten)]
    pub terms: RelocationOptions,
}

/// Options of `rebalance`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("size").args(["flavor", "resources"]).required(true))]
#[command(group = ArgGroup::new("number").args(["count", "fragmentation"]).required(true))]
pub struct RebalanceOptions {
    /// The flavor of the servers that are to fit, by name or id.
    #[arg(long, value_name = "NAME")]
    pub flavor: Option<String>,

    /// Or the amounts of each, such as `VCPU:4,MEMORY_MB:8192`.
    #[arg(long, value_name = "AMOUNTS")]
    pub resources: Option<String>,

    /// Number of servers that are to fit.
    #[arg(long, value_name = "NUMBER")]
    pub count: Option<u32>,

    /// Or the maximum part of the free capacity that they cannot use, from 0 to 1.
    #[arg(long, value_name = "PART", conflicts_with_all = ["host", "rack"])]
    pub fragmentation: Option<f64>,

    /// A host on which they are to fit, by name or UUID. May be repeated. Default: any host.
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,

    /// A rack in which they are to fit. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub rack: Vec<String>,

    /// Options of both commands.
    #[command(flatten)]
    pub terms: RelocationOptions,
}

/// Options of both commands.
#[derive(Args, Clone, Debug)]
pub struct RelocationOptions {
    /// Properties that the new host of a consumer outside of plans must share with the one it leaves: `traits`,
    /// `aggregates`, `traits,aggregates` or `nothing`. Default: `traits`.
    #[arg(long, value_name = "WHAT")]
    pub keep: Option<String>,

    /// Time limit of each search in seconds. Default: that of plans.
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,

    /// Carry the steps out, instead of only showing them.
    #[arg(long)]
    pub carry_out: bool,

    /// Output format. Only JSON has the bodies of the requests that carry out the steps.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The server.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Runs `berth drain`, and returns its output.
///
/// # Errors
/// The server does not respond, or refuses the request; the reason.
pub async fn drain(options: &DrainOptions) -> Result<String, Failure> {
    let body = Map::from_iter([
        ("hosts".to_owned(), json!(options.hosts)),
        ("racks".to_owned(), json!(options.rack)),
    ]);
    run("/-/v1/drain", body, &options.terms).await
}

/// Runs `berth rebalance`, and returns its output.
///
/// # Errors
/// Those of [`drain`].
pub async fn rebalance(options: &RebalanceOptions) -> Result<String, Failure> {
    let amounts = options.resources.as_deref().map(parsed).transpose()?;
    let amounts = amounts.map(|all| all.into_iter().collect::<BTreeMap<String, i64>>());
    let body = Map::from_iter([
        ("hosts".to_owned(), json!(options.host)),
        ("racks".to_owned(), json!(options.rack)),
        ("flavor".to_owned(), json!(options.flavor)),
        ("resources".to_owned(), json!(amounts)),
        ("count".to_owned(), json!(options.count)),
        ("fragmentation".to_owned(), json!(options.fragmentation)),
    ]);
    run("/-/v1/rebalance", body, &options.terms).await
}

async fn run(
    path: &str,
    mut body: Map<String, Value>,
    options: &RelocationOptions,
) -> Result<String, Failure> {
    body.insert("keep".to_owned(), json!(options.keep));
    body.insert("timeout".to_owned(), json!(options.timeout));
    body.insert("dry_run".to_owned(), json!(!options.carry_out));
    let client =
        if options.carry_out { options.service.client()? } else { options.service.reader()? };
    let body = Value::Object(body);
    let response = client.send(Method::POST, path, Microversion::MAX, Some(&body)).await?;
    shown(response, options.format, text)
}

fn text(it: &Relocations, colours: Colours) -> String {
    let mut page = Page::new(colours);
    let moves = if it.moves == 1 { "move" } else { "moves" };
    let proof =
        if it.proven { "No fewer suffice." } else { "Fewer might suffice; this is not proven." };
    page.toned(Tone::Good, format_args!("{} {moves}. {proof}", it.moves));
    let examined = it.examined;
    page.line(format_args!(
        "Examined: {} consumers outside of plans, plans: {}.",
        examined.consumers, examined.plans
    ));
    if !it.room.is_empty() {
        let room = it.room.iter().map(|(host, count)| format!("{count} on {host}"));
        page.line(format_args!("Room for {}.", room.collect::<Vec<_>>().join(", ")));
    }
    if let Some(count) = it.carried_out {
        page.line(format_args!("{count} of {} steps were carried out.", it.steps.len()));
    }
    if let Some(why) = &it.stopped_by {
        page.toned(Tone::Bad, format_args!("The next step was refused: {why}"));
    }
    if it.steps.is_empty() {
        return page.finish();
    }
    page.blank();
    let row = |nth: usize, it: &Move| {
        let server = match (&it.plan, &it.server) {
            (Some(plan), Some(server)) => format!("{server} of plan {plan}"),
            (None, _) | (_, None) => it.consumer.clone().unwrap_or_default(),
        };
        let step = (nth + 1).to_string();
        [step, server, it.project_id.clone(), it.from.clone(), it.to.clone()].map(Cell::from)
    };
    let rows = it.steps.iter().enumerate();
    let rows =
        rows.flat_map(|(nth, step): (usize, &Step)| step.moves.iter().map(move |it| row(nth, it)));
    page.table(["STEP", "SERVER", "PROJECT", "FROM", "TO"], rows);
    page.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::text;
    use crate::cli::terminal::Colours;
    use crate::http::operator::views::relocations::{Examined, Move, Relocations, Step};

    #[test]
    fn moves_are_listed_step_by_step() {
        let step = |servers: &[&str]| Step {
            api: String::new(),
            method: String::new(),
            path: String::new(),
            microversion: None,
            body: Value::Null,
            moves: servers
                .iter()
                .map(|server| Move {
                    consumer: Some("c1".to_owned()),
                    project_id: "p".to_owned(),
                    plan: (*server != "c1").then(|| "web".to_owned()),
                    server: (*server != "c1").then(|| (*server).to_owned()),
                    from: "h1".to_owned(),
                    to: "h2".to_owned(),
                    allocations: [].into(),
                })
                .collect(),
        };
        let moves = Relocations {
            moves: 3,
            proven: true,
            steps: vec![step(&["c1"]), step(&["a", "b"])],
            room: [("h1".to_owned(), 2)].into(),
            examined: Examined { plans: 1, consumers: 7 },
            carried_out: Some(1),
            stopped_by: Some("the plan has changed".to_owned()),
        };
        insta::assert_snapshot!(text(&moves, Colours::None), @r"
        3 moves. No fewer suffice.
        Examined: 7 consumers outside of plans, plans: 1.
        Room for 2 on h1.
        1 of 2 steps were carried out.
        The next step was refused: the plan has changed

        STEP  SERVER         PROJECT  FROM  TO
        1     c1             p        h1    h2
        2     a of plan web  p        h1    h2
        2     b of plan web  p        h1    h2
        ");
    }
}
