//! `berth ls`: lists hosts with their free capacity.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;

use super::columns::{FormatOptions, padded};
use super::providers::{Provider, bulk, list, read, version};
use super::service::ServiceOptions;
use super::terminal::{Colours, bar};
use crate::moving::placement_client::{Client, Microversion};
use crate::observe::printable::escaped;
use crate::server::failure::Failure;

/// Parts that are read of each provider.
const PARTS: [&str; 2] = ["inventories", "usages"];
/// Width of a bar, in characters.
const BAR: usize = 8;
/// Default number of classes.
const CLASSES: usize = 3;
/// The value of --sort that sorts by name.
const BY_NAME: &str = "name";

/// Options of `ls`.
#[derive(Args, Clone, Debug)]
pub struct LsOptions {
    /// Hosts with a provider that matches this query of `GET /resource_providers`.
    ///
    /// For example `required=CUSTOM_SSD&resources=VCPU:4`, quoted because of the `&`. Default: all.
    #[arg(value_name = "QUERY")]
    pub query: Option<String>,

    /// Classes to show. Default: the most frequent ones.
    #[arg(long, value_name = "CLASS", value_delimiter = ',')]
    pub classes: Vec<String>,

    /// Sort by the free amount of this class, most first; or by `name`.
    ///
    /// Default: by the mean free share of the shown classes.
    #[arg(long, value_name = "CLASS")]
    pub sort: Option<String>,

    /// Reverse the order.
    #[arg(long)]
    pub reverse: bool,

    /// Show only the first hosts.
    #[arg(long, value_name = "COUNT")]
    pub top: Option<usize>,

    /// Maximum number of hosts to show, after --top; if there are more, none is shown.
    ///
    /// OpenStack Placement needs two requests for each provider, so there all providers count. Berth returns all of
    /// them at once.
    #[arg(long, value_name = "COUNT", default_value = "10000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub limit: u32,

    /// Output format.
    #[command(flatten)]
    pub format: FormatOptions,

    /// The service, Berth or OpenStack Placement.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// A host: a tree of providers that has inventory.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Host {
    name: String,
    uuid: String,
    /// Number of providers of its tree.
    providers: usize,
    /// Total amounts of its providers.
    classes: BTreeMap<String, Amounts>,
}

/// Amounts of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Amounts {
    capacity: i64,
    used: i64,
    /// The amount that can be allocated. Overuse of one provider does not reduce another's.
    free: i64,
}

/// Runs `berth ls`, and returns its output.
///
/// # Errors
/// The service does not respond, or refuses the query.
pub async fn run(options: &LsOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let version = version(&client).await?;
    let limit = options.limit as usize;
    let mut hosts = hosts(&providers(&client, version, options.query.as_deref(), limit).await?);
    check_classes(&hosts, options)?;
    let classes = classes(&hosts, &options.classes);
    sort(&mut hosts, &classes, options);
    let count = hosts.len();
    if let Some(top) = options.top {
        hosts.truncate(top);
    }
    if hosts.len() > limit {
        let hosts = hosts.len();
        return Err(Failure(format!("there are {hosts} hosts: see --top, or raise --limit")));
    }
    Ok(if options.format.is_json() {
        format!("{:#}", serde_json::json!(hosts))
    } else if count == 0 {
        "There are no such hosts.".to_owned()
    } else {
        table(&hosts, count, &classes, Colours::of_stdout())
    })
}

/// Reads the providers of the trees that match a query, or all.
async fn providers(
    client: &Client,
    version: Microversion,
    query: Option<&str>,
    limit: usize,
) -> Result<Vec<Provider>, Failure> {
    let roots: Option<BTreeSet<String>> = match query {
        None => None,
        Some(query) => {
            let query = query.trim().trim_start_matches('?');
            let matching = list(client, version, &format!("?{query}")).await?;
            Some(matching.iter().map(|it| it.root().clone()).collect())
        }
    };
    let is_asked_for = |root: &str| roots.as_ref().is_none_or(|roots| roots.contains(root));
    if let Some(mut all) = bulk(client, version, &PARTS, None).await? {
        all.retain(|it| is_asked_for(it.root()));
        return Ok(all);
    }
    let mut listed = list(client, version, "").await?;
    listed.retain(|it| is_asked_for(it.root()));
    read(client, version, listed, &PARTS, limit).await
}

/// Trees of providers that have inventory, by the names of their roots.
fn hosts(providers: &[Provider]) -> Vec<Host> {
    let mut trees: BTreeMap<&str, Vec<&Provider>> = BTreeMap::new();
    for provider in providers {
        trees.entry(provider.root()).or_default().push(provider);
    }
    let mut hosts = Vec::new();
    for (uuid, members) in trees {
        let mut classes: BTreeMap<String, Amounts> = BTreeMap::new();
        for member in &members {
            for (class, inventory) in &member.inventories {
                let amounts = classes.entry(class.clone()).or_default();
                let used = member.usages.get(class).map_or(0, |used| *used);
                amounts.capacity += inventory.capacity();
                amounts.used += used;
                amounts.free += inventory.capacity().saturating_sub(used).max(0);
            }
        }
        let Some(root) = members.iter().find(|it| it.uuid == uuid).filter(|_| !classes.is_empty())
        else {
            continue;
        };
        let (name, uuid) = (root.name.clone(), uuid.to_owned());
        hosts.push(Host { name, uuid, providers: members.len(), classes });
    }
    hosts.sort_by(|one, other| one.name.cmp(&other.name));
    hosts
}

/// Checks that each named class occurs on a host.
fn check_classes(hosts: &[Host], options: &LsOptions) -> Result<(), Failure> {
    let known: BTreeSet<&str> =
        hosts.iter().flat_map(|host| host.classes.keys()).map(String::as_str).collect();
    let by = options.sort.iter().filter(|sort| *sort != BY_NAME);
    match options.classes.iter().chain(by).find(|class| !known.contains(class.as_str())) {
        Some(class) if !hosts.is_empty() => Err(Failure(format!(
            "no host has inventory of {class:?}; there is {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        ))),
        _ => Ok(()),
    }
}

fn classes(hosts: &[Host], chosen: &[String]) -> Vec<String> {
    if !chosen.is_empty() {
        let mut seen = BTreeSet::new();
        return chosen.iter().filter(|class| seen.insert(*class)).cloned().collect();
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for class in hosts.iter().flat_map(|host| host.classes.keys()) {
        *counts.entry(class).or_default() += 1;
    }
    let mut classes: Vec<(&str, usize)> = counts.into_iter().collect();
    classes.sort_unstable_by_key(|(class, count)| (Reverse(*count), *class));
    classes.into_iter().take(CLASSES).map(|(class, _)| class.to_owned()).collect()
}

/// Sorts hosts, which are in order of name, by the options.
fn sort(hosts: &mut [Host], classes: &[String], options: &LsOptions) {
    match options.sort.as_deref() {
        Some(BY_NAME) => {}
        Some(class) => {
            let free = |host: &Host| host.classes.get(class).map(|it| it.free);
            hosts.sort_by_key(|host| Reverse(free(host)));
        }
        None => {
            hosts.sort_by(|one, other| {
                free_share(other, classes).total_cmp(&free_share(one, classes))
            });
        }
    }
    if options.reverse {
        hosts.reverse();
    }
}

/// The mean free share of the classes.
#[expect(clippy::cast_precision_loss, reason = "for a comparison")]
fn free_share(host: &Host, classes: &[String]) -> f64 {
    let shares = classes
        .iter()
        .filter_map(|class| host.classes.get(class))
        .map(|it| if it.capacity > 0 { it.free as f64 / it.capacity as f64 } else { 0.0 });
    let (sum, count) = shares.fold((0.0, 0_u32), |(sum, count), share| (sum + share, count + 1));
    sum / f64::from(count.max(1))
}

fn table(hosts: &[Host], count: usize, classes: &[String], colours: Colours) -> String {
    let mut heads = vec!["HOST".to_owned(), "PROVIDERS".to_owned()];
    heads.extend(classes.iter().map(|class| format!("{class} FREE")));
    let rows = hosts.iter().map(|host| {
        let mut row = vec![escaped(&host.name), host.providers.to_string()];
        row.extend(classes.iter().map(|class| match host.classes.get(class) {
            None => String::new(),
            Some(it) => {
                let bar = bar(it.used, it.capacity, BAR, colours);
                format!("{bar} {} of {}", it.free, it.capacity)
            }
        }));
        row
    });
    let mut text = padded(std::iter::once(heads).chain(rows));
    if hosts.len() < count {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{} of {count} hosts", hosts.len());
    }
    let all: BTreeSet<&String> = hosts.iter().flat_map(|host| host.classes.keys()).collect();
    let others = all.into_iter().filter(|class| !classes.contains(class));
    let others: Vec<&str> = others.map(String::as_str).collect();
    if !others.is_empty() {
        let _ = writeln!(text, "Not shown: {}; see --classes.", others.join(", "));
    }
    text
}
