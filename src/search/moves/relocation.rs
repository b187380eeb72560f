//! Finds another host for a consumer's allocations on one host: the same amounts, with those of one provider again
//! on one provider.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::request::{Group, Request};
use super::super::steps::Next;
use super::super::trees::{Trees, trees};
use super::super::{Search, find};
use super::hypothetical::is_sharing;
use crate::model::{ClassId, ProviderId, traits};
use crate::world::{Provider, World};

/// Maximum number of pauses of a walk over hosts, of about a millisecond each.
const PAUSES_MAX: usize = 100;

/// The properties that the new host must share with the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptProperties {
    /// The traits of the provider and of the root, except those for the location or the state of a host.
    pub traits: bool,
    /// The aggregates of the root.
    pub aggregates: bool,
}

/// Prefixes of traits that describe the location of a host.
const PLACES: [&str; 2] = [traits::RACK_PREFIX, traits::CLUSTER_PREFIX];
const STATES: [&str; 2] = [traits::COMPUTE_DISABLED, traits::EXCLUSIVE];

/// Finds hosts.
#[derive(Debug)]
pub(super) struct Relocation {
    keeping: KeptProperties,
}

/// Amounts on providers.
type Amounts = Vec<(ProviderId, ClassId, i64)>;

/// The outcome of a search for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RelocationPlace {
    /// This host, by the root of its tree, with the allocations of the consumer afterwards.
    On(ProviderId, Amounts),
    /// No host, or the consumer must not be moved.
    Nowhere,
    /// No host was found before the search was abandoned, or the world lacks a provider or class of the consumer.
    /// So there may be one.
    Undecided,
}

/// A host where a consumer fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OnePlace {
    /// The host, by the root of its tree.
    pub(super) host: ProviderId,
    /// The allocations of the consumer afterwards.
    pub(super) allocations: Amounts,
    /// Whether there is no other way to fit it on this host.
    pub(super) is_only: bool,
}

/// The end of a search for hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchEnd {
    /// The caller stopped it.
    Stopped,
    /// There are no other hosts.
    Exhausted,
    /// There may be other hosts.
    Undecided,
}

impl Relocation {
    /// Creates a search for hosts with these properties.
    pub(super) fn new(keeping: KeptProperties) -> Self {
        Self { keeping }
    }

    /// Finds another host for a consumer.
    pub(super) fn place(
        &self,
        world: &Arc<World>,
        held: &[(ProviderId, ClassId, i64)],
        leaving: ProviderId,
    ) -> RelocationPlace {
        let mut found = None;
        let end = self.places(world, held, leaving, |place| {
            found = Some(place);
            ControlFlow::Break(())
        });
        match (found, end) {
            (Some(place), _) => RelocationPlace::On(place.host, place.allocations),
            (None, SearchEnd::Undecided) => RelocationPlace::Undecided,
            (None, SearchEnd::Stopped | SearchEnd::Exhausted) => RelocationPlace::Nowhere,
        }
    }

    /// Passes the other hosts where a consumer fits to `take`, with one set of allocations for each, until it has
    /// enough.
    pub(super) fn places(
        &self,
        world: &Arc<World>,
        held: &[(ProviderId, ClassId, i64)],
        leaving: ProviderId,
        take: impl FnMut(OnePlace) -> ControlFlow<()>,
    ) -> SearchEnd {
        let Some(from) = world.provider_by_id(leaving) else { return SearchEnd::Undecided };
        let mut here: BTreeMap<ProviderId, Vec<(ClassId, i64)>> = BTreeMap::new();
        let mut elsewhere: Amounts = Vec::new();
        for &(id, class, amount) in held {
            let Some(provider) = world.provider_by_id(id) else { return SearchEnd::Undecided };
            if provider.root() == from {
                here.entry(id).or_default().push((class, amount));
            } else if is_sharing(world, &provider) {
                elsewhere.push((id, class, amount));
            } else {
                // It is on two hosts: a migration is in progress.
                return SearchEnd::Exhausted;
            }
        }
        match self.request(world, &from, &here) {
            Some(request) => self.search(world, &request, &from, &elsewhere, take),
            None => SearchEnd::Undecided,
        }
    }

    /// The suitable hosts that have the requested capacity.
    fn search(
        &self,
        world: &Arc<World>,
        request: &Request,
        from: &Provider<'_>,
        elsewhere: &[(ProviderId, ClassId, i64)],
        mut take: impl FnMut(OnePlace) -> ControlFlow<()>,
    ) -> SearchEnd {
        let Ok(mut walk) = trees(Arc::clone(world), request) else { return SearchEnd::Undecided };
        let mut pauses = 0;
        let mut otherwise = SearchEnd::Exhausted;
        loop {
            let to = match next(&mut walk) {
                Next::Found(root) => root,
                Next::Paused if pauses < PAUSES_MAX => {
                    pauses += 1;
                    continue;
                }
                Next::Paused => return SearchEnd::Undecided,
                Next::Exhausted => return otherwise,
            };
            let Some(root) = world.provider_by_id(to) else { return SearchEnd::Undecided };
            if root == *from || !self.suits(world, from, &root, elsewhere) {
                continue;
            }
            match allocations(world, request, &root) {
                Next::Found(mut allocations) => {
                    allocations.extend(elsewhere);
                    allocations.sort_unstable();
                    let is_only = request.groups.len() == 1 && root.tree().count() == 1;
                    if take(OnePlace { host: to, allocations, is_only }).is_break() {
                        return SearchEnd::Stopped;
                    }
                }
                // Another host may have it; if none has, this one remains undecided.
                Next::Paused => otherwise = SearchEnd::Undecided,
                Next::Exhausted => {}
            }
        }
    }

    /// A request for the consumer's allocations: a group for each provider. `None` if the world lacks any of them.
    fn request(
        &self,
        world: &World,
        from: &Provider<'_>,
        here: &BTreeMap<ProviderId, Vec<(ClassId, i64)>>,
    ) -> Option<Request> {
        let mut groups = Vec::new();
        for (nth, (id, amounts)) in here.iter().enumerate() {
            let provider = world.provider_by_id(*id)?;
            // Consumers are read from the database, which may have classes that this world lacks.
            let resources = amounts
                .iter()
                .map(|(class, it)| Some((world.class_name(*class)?.to_owned(), *it)))
                .collect::<Option<_>>()?;
            groups.push(Group {
                suffix: format!("_{nth}"),
                resources,
                required: self.traits(world, &provider).into_iter().map(|it| vec![it]).collect(),
                ..Group::default()
            });
        }
        let forbidden = STATES.iter().filter(|name| world.trait_id(name).is_some());
        Some(Request {
            groups,
            root_required: self.traits(world, from),
            root_forbidden: forbidden.map(|name| (*name).to_owned()).collect(),
            nested: true,
            ..Request::default()
        })
    }

    /// The traits of a provider that another must have.
    fn traits(&self, world: &World, provider: &Provider<'_>) -> Vec<String> {
        if self.keeping.traits { kept_traits(world, provider) } else { Vec::new() }
    }

    /// Returns whether a host has the aggregates, and can use the sharing providers of the consumer.
    fn suits(
        &self,
        world: &World,
        from: &Provider<'_>,
        to: &Provider<'_>,
        elsewhere: &[(ProviderId, ClassId, i64)],
    ) -> bool {
        let has_aggregates = !self.keeping.aggregates
            || from.aggregates().iter().all(|it| to.aggregates().binary_search(it).is_ok());
        has_aggregates
            && elsewhere.iter().all(|(id, ..)| {
                let Some(shared) = world.provider_by_id(*id) else { return false };
                to.tree().any(|member| {
                    member
                        .aggregates()
                        .iter()
                        .any(|it| shared.aggregates().binary_search(it).is_ok())
                })
            })
    }
}

/// The traits of a provider that a provider to which consumers move must have, too: all but those for the location or
/// the state of a host.
pub fn kept_traits(world: &World, provider: &Provider<'_>) -> Vec<String> {
    let names = provider.traits().iter().map(|id| world.name_of_trait(*id));
    let counts = |name: &&str| {
        !STATES.contains(name)
            && *name != traits::SHARING
            && !PLACES.iter().any(|prefix| name.starts_with(prefix))
    };
    names.filter(counts).map(str::to_owned).collect()
}

/// The root of the next tree of a walk.
fn next(walk: &mut Trees) -> Next<ProviderId> {
    match walk.next_tree() {
        Next::Found(tree) => match tree.root() {
            Some(root) => Next::Found(root.id()),
            None => Next::Paused,
        },
        Next::Paused => Next::Paused,
        Next::Exhausted => Next::Exhausted,
    }
}

/// The allocations of a request on a host: entirely in its tree; or all but at least one group from its sharing
/// providers. A pause means that the search was abandoned.
fn allocations(world: &Arc<World>, request: &Request, root: &Provider<'_>) -> Next<Amounts> {
    let only_in_tree = |is_in_tree: &dyn Fn(usize) -> bool| {
        let mut request = request.clone();
        for (nth, group) in request.groups.iter_mut().enumerate() {
            group.in_tree = is_in_tree(nth).then(|| root.uuid());
        }
        let Ok(mut search) = find(Arc::clone(world), &request) else { return Next::Paused };
        first(&mut search)
    };
    let mut found = only_in_tree(&|_| true);
    if request.groups.len() > 1 {
        for group in 0..request.groups.len() {
            if matches!(found, Next::Exhausted) {
                found = only_in_tree(&|nth| nth == group);
            }
        }
    }
    found
}

fn first(search: &mut Search) -> Next<Amounts> {
    for _ in 0..PAUSES_MAX {
        match search.next_candidate() {
            Next::Found(candidate) => {
                let amounts = candidate.allocations().flat_map(|(provider, amounts)| {
                    amounts.iter().map(move |(class, amount)| (provider.id(), *class, *amount))
                });
                return Next::Found(amounts.collect());
            }
            Next::Paused => {}
            Next::Exhausted => return Next::Exhausted,
        }
    }
    Next::Paused
}
