//! Finds another host for what a consumer holds on one: the same amounts, what one provider supplied again
//! from one provider.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::super::request::{Group, Request};
use super::super::steps::Next;
use super::super::trees::{Trees, trees};
use super::super::{Search, find};
use super::hypothetical::is_sharing;
use crate::model::{ClassId, ProviderId, traits};
use crate::world::{Provider, World};

/// The maximum number of pauses of a walk over hosts, of about a millisecond each.
const PAUSES_MAX: usize = 100;

/// What a host has to have in common with the one that a consumer leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// The traits: of the provider, and of the root. Those that say where a host is, or what state it is in,
    /// do not count.
    pub traits: bool,
    /// The aggregates of the root.
    pub aggregates: bool,
}

/// Traits that are those of a host and not of what is on it.
const PLACES: [&str; 2] = [traits::RACK_PREFIX, traits::CLUSTER_PREFIX];
const STATES: [&str; 2] = [traits::COMPUTE_DISABLED, traits::EXCLUSIVE];

/// Finds hosts.
#[derive(Debug)]
pub(super) struct Relocation {
    keeping: Keeping,
    /// The roots of trees that nobody may move to, or keep anything on that they share.
    closed: BTreeSet<ProviderId>,
}

/// Amounts on providers.
type Amounts = Vec<(ProviderId, ClassId, i64)>;

/// Where a consumer fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On this host, by the root of its tree, with all that the consumer holds then.
    On(ProviderId, Amounts),
    /// On no host, or it is not to be moved.
    Nowhere,
    /// No host was found before the search was given up, or the world does not know all that the consumer
    /// holds. So it is not proven that there is none.
    Undecided,
}

/// One of the places where a consumer fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OnePlace {
    /// The host, by the root of its tree.
    pub(super) host: ProviderId,
    /// All that the consumer holds then.
    pub(super) allocations: Amounts,
    /// Whether it cannot hold the same on this host otherwise.
    pub(super) is_only: bool,
}

/// How a search for places ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Enough was found.
    Stopped,
    /// There are no others.
    Exhausted,
    /// There may be others.
    Undecided,
}

impl Relocation {
    /// Finds hosts that have this in common, apart from some trees.
    pub(super) fn new(keeping: Keeping, closed: BTreeSet<ProviderId>) -> Self {
        Self { keeping, closed }
    }

    /// Another host for a consumer that leaves one.
    pub(super) fn place(
        &self,
        world: &Arc<World>,
        held: &[(ProviderId, ClassId, i64)],
        leaving: ProviderId,
    ) -> Place {
        let mut found = None;
        let end = self.places(world, held, leaving, |place| {
            found = Some(place);
            ControlFlow::Break(())
        });
        match (found, end) {
            (Some(place), _) => Place::On(place.host, place.allocations),
            (None, End::Undecided) => Place::Undecided,
            (None, End::Stopped | End::Exhausted) => Place::Nowhere,
        }
    }

    /// Tells the other hosts where a consumer fits that leaves one, one place on each, until `take` has enough.
    pub(super) fn places(
        &self,
        world: &Arc<World>,
        held: &[(ProviderId, ClassId, i64)],
        leaving: ProviderId,
        take: impl FnMut(OnePlace) -> ControlFlow<()>,
    ) -> End {
        let Some(from) = world.provider_by_id(leaving) else { return End::Undecided };
        let mut here: BTreeMap<ProviderId, Vec<(ClassId, i64)>> = BTreeMap::new();
        let mut elsewhere: Amounts = Vec::new();
        for &(id, class, amount) in held {
            let Some(provider) = world.provider_by_id(id) else { return End::Undecided };
            if provider.root() == from {
                here.entry(id).or_default().push((class, amount));
            } else if self.closed.contains(&provider.root().id()) {
                return End::Exhausted;
            } else if is_sharing(world, &provider) {
                elsewhere.push((id, class, amount));
            } else {
                // It is on two hosts: somebody is moving it already.
                return End::Exhausted;
            }
        }
        match self.request(world, &from, &here) {
            Some(request) => self.search(world, &request, &from, &elsewhere, take),
            None => End::Undecided,
        }
    }

    /// The hosts that suit, and have what is requested.
    fn search(
        &self,
        world: &Arc<World>,
        request: &Request,
        from: &Provider<'_>,
        elsewhere: &[(ProviderId, ClassId, i64)],
        mut take: impl FnMut(OnePlace) -> ControlFlow<()>,
    ) -> End {
        let Ok(mut walk) = trees(Arc::clone(world), request) else { return End::Undecided };
        let mut pauses = 0;
        let mut otherwise = End::Exhausted;
        loop {
            let to = match next(&mut walk) {
                Next::Found(root) => root,
                Next::Paused if pauses < PAUSES_MAX => {
                    pauses += 1;
                    continue;
                }
                Next::Paused => return End::Undecided,
                Next::Exhausted => return otherwise,
            };
            let Some(root) = world.provider_by_id(to) else { return End::Undecided };
            if root == *from
                || self.closed.contains(&to)
                || !self.suits(world, from, &root, elsewhere)
            {
                continue;
            }
            match allocations(world, request, &root) {
                Next::Found(mut allocations) => {
                    allocations.extend(elsewhere);
                    allocations.sort_unstable();
                    let is_only = request.groups.len() == 1 && root.tree().count() == 1;
                    if take(OnePlace { host: to, allocations, is_only }).is_break() {
                        return End::Stopped;
                    }
                }
                // Another host may have it; if none has, it remains open whether this one does.
                Next::Paused => otherwise = End::Undecided,
                Next::Exhausted => {}
            }
        }
    }

    /// A request for what the consumer holds: a group for each provider. `None` if the world does not know all
    /// of it.
    fn request(
        &self,
        world: &World,
        from: &Provider<'_>,
        here: &BTreeMap<ProviderId, Vec<(ClassId, i64)>>,
    ) -> Option<Request> {
        let mut groups = Vec::new();
        for (nth, (id, amounts)) in here.iter().enumerate() {
            let provider = world.provider_by_id(*id)?;
            // Consumers are read from the database, which may know classes that this world does not.
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

    /// The traits of a provider that another has to have.
    fn traits(&self, world: &World, provider: &Provider<'_>) -> Vec<String> {
        if !self.keeping.traits {
            return Vec::new();
        }
        let names = provider.traits().iter().map(|id| world.name_of_trait(*id));
        let counts = |name: &&str| {
            !STATES.contains(name)
                && *name != traits::SHARING
                && !PLACES.iter().any(|prefix| name.starts_with(prefix))
        };
        names.filter(counts).map(str::to_owned).collect()
    }

    /// Whether a host has the aggregates, and can use what the consumer holds at sharing providers.
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

/// What a request would be given on a host: all of it in its tree; or else all but one group, at least, from
/// providers that share with it. A pause means that the search was given up.
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
