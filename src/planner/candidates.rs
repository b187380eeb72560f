//! The hosts with enough capacity for servers of one size, found as allocation candidates.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::failure::{Failure, in_time};
use super::flavor::Size;
use super::stack::Stack;
use super::topology::Topology;
use crate::model::traits;
use crate::model::{ClassId, ProviderId};
use crate::search::{self, Group as RequestGroup, Next, Request, Unknown};
use crate::solver::Budget;
use crate::world::{Provider, World};

/// Allocation candidates on one host at most. A tree may have thousands; those that are left out take the
/// same amounts from other providers of the tree.
pub(super) const WAYS_MAX: usize = 16;

/// Different sizes of the servers of one plan at most: all hosts are searched for each size.
const SIZES_MAX: usize = 500;

/// The cost of beginning a search, in units of the budget.
const BEGIN_WORK: usize = 1000;

/// The candidates for servers of one size: the amounts from each provider, by host.
pub(super) type Options = HashMap<ProviderId, Vec<Vec<(ProviderId, ClassId, i64)>>>;

/// The sizes of the servers that need a host, in the order of the servers.
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
        return Err(Failure::Invalid(format!(
            "the servers of a plan have at most {SIZES_MAX} different sizes, and these have {count}"
        )));
    }
    Ok(sizes)
}

/// All allocation candidates for a server of a size, by host.
pub(super) fn candidates(
    world: &Arc<World>,
    topology: &Topology,
    size: &Size,
    budget: &mut Budget<'_>,
) -> Result<Options, Failure> {
    budget.is_spent_after(BEGIN_WORK);
    // Hosts get this trait when a group takes them, which follows from groups and not from flavors.
    let required = size.required.iter().filter(|name| *name != traits::EXCLUSIVE);
    let group = RequestGroup {
        resources: size.needs.iter().map(|(class, amount)| (class.clone(), *amount)).collect(),
        required: required.map(|name| vec![name.clone()]).collect(),
        forbidden: size.forbidden.clone(),
        ..RequestGroup::default()
    };
    let disabled =
        world.trait_id(traits::COMPUTE_DISABLED).map(|_| traits::COMPUTE_DISABLED.to_owned());
    let root_forbidden = disabled.into_iter().collect();
    let request =
        Request { groups: vec![group], root_forbidden, nested: true, ..Request::default() };
    let mut search = search::find(Arc::clone(world), &request).map_err(|unknown| {
        Failure::Invalid(match unknown {
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
