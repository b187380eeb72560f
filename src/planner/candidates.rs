//! Where servers of one size can be put: by host, the ways that allocation candidates say.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::failure::{Failure, in_time};
use super::flavor::Size;
use super::stack::Stack;
use super::topology::Topology;
use crate::model::exclusive::EXCLUSIVE_TRAIT;
use crate::model::{ClassId, ProviderId};
use crate::search::{self, Group as RequestGroup, Next, Request, Unknown};
use crate::solver::Budget;
use crate::world::{Provider, World};

/// Ways in which a server can be put on one host, at the most. A tree may have thousands; those that
/// are left out are choices of other providers for the same amounts.
pub(super) const WAYS_MAX: usize = 16;

/// Different sizes of the servers of one plan, at the most: for each of them all hosts are looked at.
const SIZES_MAX: usize = 500;

/// What it costs to begin a search, in the units of the budget.
const BEGIN_WORK: usize = 1000;

/// The trait of hosts that are not to get anything new.
const DISABLED: &str = "COMPUTE_STATUS_DISABLED";

/// The candidates for servers of one size: the amounts from each provider, by host.
pub(super) type Options = HashMap<ProviderId, Vec<Vec<(ProviderId, ClassId, i64)>>>;

/// The sizes of servers for which candidates are looked for, in the order in which they come.
pub(super) fn sizes<'s>(
    stack: &'s Stack,
    homes: &[Option<ProviderId>],
) -> Result<Vec<&'s Size>, Failure> {
    let mut known: HashSet<&Size> = HashSet::new();
    let mut sizes = Vec::new();
    for (server, home) in stack.servers.iter().zip(homes) {
        let stays = server.is_fixed() && home.is_some();
        if !stays && known.insert(&server.size) {
            sizes.push(&server.size);
        }
    }
    if sizes.len() > SIZES_MAX {
        let count = sizes.len();
        return Err(Failure::TooLarge(format!(
            "the servers of a plan have at most {SIZES_MAX} different sizes, and these have {count}"
        )));
    }
    Ok(sizes)
}

/// Everywhere a server of a size can be put, exactly as allocation candidates say.
pub(super) fn candidates(
    world: &Arc<World>,
    topology: &Topology,
    size: &Size,
    budget: &mut Budget<'_>,
) -> Result<Options, Failure> {
    budget.is_spent_after(BEGIN_WORK);
    // Hosts get this trait when a group gets them to itself, which groups say and not flavors.
    let required = size.required.iter().filter(|name| *name != EXCLUSIVE_TRAIT);
    let group = RequestGroup {
        resources: size.needs.iter().map(|(class, amount)| (class.clone(), *amount)).collect(),
        required: required.map(|name| vec![name.clone()]).collect(),
        forbidden: size.forbidden.clone(),
        ..RequestGroup::default()
    };
    let disabled = world.trait_id(DISABLED).map(|_| DISABLED.to_owned());
    let root_forbidden = disabled.into_iter().collect();
    let request =
        Request { groups: vec![group], root_forbidden, nested: true, ..Request::default() };
    let mut search = search::find(Arc::clone(world), &request).map_err(|unknown| {
        Failure::Unknown(match unknown {
            Unknown::Class(class) => format!("No such resource class {class}."),
            Unknown::Traits(traits) | Unknown::RootTraits(traits) => {
                format!("No such trait(s): {}.", traits.join(", "))
            }
        })
    })?;
    let mut options = Options::new();
    let mut steps = 0;
    loop {
        budget.is_spent_after(usize::try_from(search.steps() - steps).unwrap_or(usize::MAX));
        in_time(budget)?;
        steps = search.steps();
        let candidate = match search.next_candidate() {
            Next::Found(candidate) => candidate,
            Next::Paused => continue,
            Next::Exhausted => return Ok(options),
        };
        let providers: Vec<Provider<'_>> =
            candidate.allocations().map(|(provider, _)| provider).collect();
        budget.is_spent_after(16 * providers.len());
        let Some(host) = topology.host(providers.into_iter()) else { continue };
        let ways = options.entry(host.id()).or_default();
        let draw = |(provider, amounts): (Provider<'_>, &[(ClassId, i64)])| {
            let id = provider.id();
            amounts.iter().map(move |(class, amount)| (id, *class, *amount)).collect::<Vec<_>>()
        };
        let draws: Vec<_> = candidate.allocations().flat_map(draw).collect();
        budget.is_spent_with(8 + 3 * draws.len());
        ways.push(draws);
        if ways.len() >= WAYS_MAX {
            search.skip_tree();
        }
    }
}
