//! The pages of a query, as their templates show them.

use std::sync::Arc;

use askama::Template;
use uuid::Uuid;

use super::form::Form;
use crate::http::console::amounts::{Amounts, Grouped, Permille, fraction};
use crate::http::console::context::Problem;
use crate::http::console::page::Shell;
use crate::http::operator::views::refused::RefusedDetails;
use crate::http::operator::views::{Amount, Closest, Condition, Explanation};
use crate::http::placement::allocation_candidates::unknown;
use crate::search::{Candidate, Next, Request, find};
use crate::world::World;

/// Maximum number of classes that the form suggests.
const CLASSES_MAX: usize = 500;
/// Maximum numbers of hosts with candidates on the page, and of candidates that are read for them.
const HOSTS_MAX: usize = 12;
const CANDIDATES_MAX: usize = 1000;
/// Maximum number of pauses of the search: about a tenth of a second.
const PAUSES_MAX: usize = 100;

/// The page of a query.
#[derive(Template)]
#[template(path = "console/why.html")]
pub(super) struct QueryPage {
    shell: Shell,
    form: Form,
    /// The names of all classes.
    classes: Vec<String>,
    /// The reason why the question is wrong.
    pub(super) problem: Option<String>,
    pub(super) found: Option<Found>,
}

/// The page of requests that the server has kept.
#[derive(Template)]
#[template(path = "console/kept.html")]
pub(super) struct KeptPage {
    shell: Shell,
    form: Form,
    requests: Vec<Kept>,
}

/// A request that the server has kept.
struct Kept {
    details: RefusedDetails,
    /// The effect of its conditions at the time, if it was a query.
    funnel: Option<Funnel>,
    /// The details as JSON, if they have no other form.
    facts: Option<String>,
}

/// The result of a query.
pub(super) struct Found {
    funnel: Funnel,
    candidates: Vec<CandidateCard>,
    /// Whether there may be candidates on more hosts.
    has_more: bool,
    /// The query in a readable form, and the URL of the same query to the Placement API.
    query: String,
    url: String,
}

/// An explanation.
struct Funnel {
    explanation: Explanation,
    steps: Vec<FunnelStep>,
}

/// A condition.
struct FunnelStep {
    condition: Condition,
    /// The share of hosts that are left.
    width: Permille,
    /// The lack of an amount on hosts that it rules out.
    lack: String,
}

/// The candidates on a host, of which the first is shown.
pub(super) struct CandidateCard {
    host: Option<(String, Uuid)>,
    providers: Vec<Share>,
    /// Number of candidates on the host that were read.
    ways: usize,
}

/// The amounts that a candidate takes from a provider.
struct Share {
    name: String,
    uuid: Uuid,
    amounts: Vec<Taken>,
}

/// An amount that a candidate takes.
struct Taken {
    class: String,
    amount: Grouped,
    amounts: Amounts,
    width: Permille,
}

impl QueryPage {
    pub(super) fn new(shell: Shell, form: Form, world: &World) -> Self {
        let mut classes: Vec<String> =
            world.catalogue().classes.values().map(|entry| entry.name.clone()).collect();
        classes.sort_unstable();
        classes.truncate(CLASSES_MAX);
        Self { shell, form, classes, problem: None, found: None }
    }
}

impl KeptPage {
    pub(super) fn new(shell: Shell, form: Form, requests: Vec<RefusedDetails>) -> Self {
        let kept = |mut details: RefusedDetails| {
            let funnel = details.explanation.take().map(Funnel::new);
            let facts =
                details.faults.as_ref().and_then(|it| serde_json::to_string_pretty(it).ok());
            Kept { details, funnel, facts }
        };
        Self { shell, form, requests: requests.into_iter().map(kept).collect() }
    }
}

impl Found {
    pub(super) fn new(
        explanation: Explanation,
        (candidates, has_more): (Vec<CandidateCard>, bool),
        (query, url): (String, String),
    ) -> Self {
        Self { funnel: Funnel::new(explanation), candidates, has_more, query, url }
    }
}

impl Funnel {
    fn new(explanation: Explanation) -> Self {
        let hosts = count(explanation.hosts);
        let step = |condition: &Condition| FunnelStep {
            width: if hosts > 0 { fraction(count(condition.left), hosts) } else { 0 },
            lack: condition.amount.as_ref().map_or_else(String::new, lack),
            condition: condition.clone(),
        };
        // The step that combines conditions matters only where it rules out hosts.
        let matters = |it: &&Condition| it.providers.is_some() || it.ruled_out > 0;
        Self {
            steps: explanation.conditions.iter().filter(matters).map(step).collect(),
            explanation,
        }
    }
}

fn count(count: usize) -> i64 {
    Grouped::count(count).0
}

/// Describes the number of hosts without a class, and the host on which most of it is available.
fn lack(it: &Amount) -> String {
    let without = Some(it.without_inventory).filter(|count| *count > 0);
    let without =
        without.map(|count| format!("{} without {}", Grouped::count(count), it.resource_class));
    let closest = it.closest.as_ref().map(closest);
    without.into_iter().chain(closest).collect::<Vec<_>>().join("; ")
}

fn closest(it: &Closest) -> String {
    let (host, available, capacity, used) =
        (&it.host, Grouped(it.available), Grouped(it.capacity), Grouped(it.used));
    match it.limit_value {
        None => {
            format!("at most {available} in a provider of {host} ({used} of {capacity} used)")
        }
        Some(value) => {
            let limit = &it.limit;
            format!("at most {available} in a provider of {host} ({limit} is {})", Grouped(value))
        }
    }
}

/// Returns the first hosts with candidates for a request, and whether there may be more.
///
/// # Errors
/// The request names something unknown.
pub(super) fn candidates(
    world: &Arc<World>,
    mut request: Request,
) -> Result<(Vec<CandidateCard>, bool), Problem> {
    request.limit = Some(CANDIDATES_MAX);
    let mut search =
        find(Arc::clone(world), &request).map_err(|name| Problem::from(unknown(name)))?;
    let (mut cards, mut pauses, mut found) = (Vec::<CandidateCard>::new(), 0, 0);
    loop {
        match search.next_candidate() {
            Next::Found(candidate) => {
                found += 1;
                let card = card(world, candidate);
                if let Some(known) = cards.iter_mut().find(|it| it.host == card.host) {
                    known.ways += 1;
                } else if cards.len() < HOSTS_MAX {
                    cards.push(card);
                } else {
                    return Ok((cards, true));
                }
            }
            Next::Paused if pauses < PAUSES_MAX => pauses += 1,
            Next::Paused => return Ok((cards, true)),
            Next::Exhausted => return Ok((cards, found == CANDIDATES_MAX)),
        }
    }
}

fn card(world: &World, candidate: Candidate<'_>) -> CandidateCard {
    let mut host = None;
    let mut providers = Vec::new();
    for (provider, taken) in candidate.allocations() {
        let root = provider.root();
        host.get_or_insert_with(|| (root.name().to_owned(), root.uuid()));
        let amounts = taken.iter().map(|(class, amount)| {
            let inventory = provider.inventory(*class);
            let amounts = inventory.map_or_else(Amounts::default, |row| Amounts::of(&row));
            Taken {
                class: world.name_of_class(*class).to_owned(),
                amount: Grouped(*amount),
                width: amounts.width_of(*amount),
                amounts,
            }
        });
        let amounts = amounts.collect();
        providers.push(Share { name: provider.name().to_owned(), uuid: provider.uuid(), amounts });
    }
    CandidateCard { host, providers, ways: 1 }
}
