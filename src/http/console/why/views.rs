//! The pages of a query, as their templates show them.

use std::sync::Arc;

use askama::Template;
use uuid::Uuid;

use super::form::Form;
use crate::http::console::amounts::{Amounts, Grouped, Permille, fraction};
use crate::http::console::context::Problem;
use crate::http::console::page::Shell;
use crate::http::operator::views::refused::RefusedDetails;
use crate::http::operator::views::{Closest, Condition, Explanation};
use crate::http::placement::allocation_candidates::unknown;
use crate::search::{Candidate, Next, Request, find};
use crate::world::World;

/// Maximum number of classes that the form suggests.
const CLASSES_MAX: usize = 500;
/// Maximum number of candidates on the page.
const CANDIDATES_MAX: usize = 12;
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
    found: Option<Found>,
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
    /// Whether there may be more candidates.
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
    /// The host that comes closest to an amount.
    closest: Option<String>,
}

/// A candidate.
pub(super) struct CandidateCard {
    host: String,
    providers: Vec<Share>,
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
    pub(super) fn new(shell: Shell, form: Form, world: &World, found: Option<Found>) -> Self {
        let mut classes: Vec<String> =
            world.catalogue().classes.values().map(|entry| entry.name.clone()).collect();
        classes.sort_unstable();
        classes.truncate(CLASSES_MAX);
        Self { shell, form, classes, found }
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
            closest: condition.amount.as_ref().and_then(|it| it.closest.as_ref()).map(closest),
            condition: condition.clone(),
        };
        Self { steps: explanation.conditions.iter().map(step).collect(), explanation }
    }
}

fn count(count: usize) -> i64 {
    Grouped::count(count).0
}

/// Describes the host that comes closest to an amount.
fn closest(it: &Closest) -> String {
    let (host, available, capacity, used) =
        (&it.host, Grouped(it.available), Grouped(it.capacity), Grouped(it.used));
    match it.limit_value {
        None => format!("at most {available}, on {host} ({used} of {capacity} used)"),
        Some(value) => {
            format!("at most {available}, on {host} ({} is {})", it.limit, Grouped(value))
        }
    }
}

/// Returns the first candidates of a request, and whether there may be more.
///
/// # Errors
/// The request names something unknown.
pub(super) fn candidates(
    world: &Arc<World>,
    mut request: Request,
) -> Result<(Vec<CandidateCard>, bool), Problem> {
    let most = request.limit.map_or(CANDIDATES_MAX, |limit| limit.min(CANDIDATES_MAX));
    request.limit = Some(most);
    let mut search =
        find(Arc::clone(world), &request).map_err(|name| Problem::from(unknown(name)))?;
    let (mut cards, mut pauses) = (Vec::new(), 0);
    loop {
        match search.next_candidate() {
            Next::Found(candidate) => cards.push(card(world, candidate)),
            Next::Paused if pauses < PAUSES_MAX => pauses += 1,
            Next::Paused => return Ok((cards, true)),
            Next::Exhausted => {
                let has_more = cards.len() == most;
                return Ok((cards, has_more));
            }
        }
    }
}

fn card(world: &World, candidate: Candidate<'_>) -> CandidateCard {
    let mut host = None;
    let mut providers = Vec::new();
    for (provider, taken) in candidate.allocations() {
        host.get_or_insert_with(|| provider.root().name().to_owned());
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
    CandidateCard { host: host.unwrap_or_default(), providers }
}
