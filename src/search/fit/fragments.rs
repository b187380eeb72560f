//! Free capacity that requests cannot use: the remainder on a host where no more of them fit.

use std::collections::{BTreeMap, BTreeSet};

use super::super::engine;
use super::super::funnel::is_host;
use super::super::request::Unknown;
use super::count::Count;
use super::parameters::CountParameters;
use super::result::Bounds;
use crate::model::{ClassId, ProviderId};
use crate::world::{Provider, World};

/// The capacity that is unusable for several requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragmentation {
    /// For each request.
    pub requests: Vec<RequestFragments>,
    /// The capacity that is unusable for all of them.
    pub for_all: CommonFragments,
}

/// The capacity that is unusable for each of several requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonFragments {
    /// Whether all hosts were examined for each of the requests. If not, unexamined hosts are left out.
    pub is_complete: bool,
    /// For each class of any request: the free capacity of hosts, and the part that is unusable for each of the
    /// requests, even if the host is filled with the ones that leave least of the class.
    pub classes: Vec<Fragment>,
}

/// The capacity that is unusable for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFragments {
    /// Whether all hosts were examined.
    pub is_complete: bool,
    /// Number of requests that fit.
    pub fits: Bounds,
    /// Number of requests that would fit if all free capacity were at one provider.
    pub in_one_piece: u64,
    /// By requested class: the free capacity, and the remainder after as many requests as were found to fit.
    pub classes: Vec<ClassFragment>,
    /// Number of examined hosts with unusable capacity.
    pub host_count: usize,
    /// The hosts with the largest share of the cloud's free capacity that is unusable.
    pub hosts: Vec<HostFragments>,
}

/// The unusable capacity of a requested class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassFragment {
    /// The amount of one request.
    pub requested: i64,
    /// The free amount, and the unusable part of it.
    pub fragment: Fragment,
}

/// Free capacity of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The class.
    pub class: ClassId,
    /// The free amount.
    pub free: u64,
    /// The unusable part of it.
    pub unusable: u64,
}

/// The unusable capacity of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFragments {
    /// The key of the root of its tree.
    pub root: ProviderId,
    /// Number of requests that fit.
    pub fits: Bounds,
    /// By class.
    pub classes: Vec<Fragment>,
    /// Classes of its own with too little left for another request; empty if the cause is another one.
    pub short_of: Vec<ClassId>,
}

/// The total amount of each class that a request takes.
type Totals = BTreeMap<ClassId, i64>;

/// The free capacity of a tree, by class.
type Free = BTreeMap<ClassId, u64>;

/// A request with its count.
struct Counted {
    totals: Totals,
    is_complete: bool,
    /// The slot up to which hosts were examined, by the slots of their roots.
    examined: u32,
    fits: Bounds,
    /// By the slot of the root, ascending.
    by_host: Vec<(u32, Bounds)>,
}

/// Finds the unusable capacity for several requests, all with the same excluded hosts. For each request, `budget`
/// creates a function that receives the work since its last call, in numbers read; if it returns true, the
/// remaining hosts are skipped for this request.
///
/// # Errors
/// A request names something unknown.
pub fn fragmentation<F: FnMut(usize) -> bool>(
    world: &World,
    parameters: &[CountParameters<'_>],
    budget: impl Fn() -> F,
) -> Result<Fragmentation, Unknown> {
    let mut all = Vec::with_capacity(parameters.len());
    for parameters in parameters {
        all.push(counted(world, parameters, &mut budget())?);
    }
    let classes: BTreeSet<ClassId> = all.iter().flat_map(|it| it.totals.keys()).copied().collect();
    let is_host = is_host(world);
    let mut free_all = Free::new();
    let mut hosts: Vec<(u32, Free)> = Vec::new();
    let lost = parameters.first().map(|parameters| &parameters.excluded.lost);
    for root in world.trees() {
        if lost.is_some_and(|lost| lost.contains(root.slot())) {
            continue;
        }
        let free = free(world, &root, &classes);
        for (class, free) in &free {
            let sum = free_all.entry(*class).or_insert(0);
            *sum = sum.saturating_add(*free);
        }
        if is_host(&root) {
            hosts.push((root.slot(), free));
        }
    }
    let names_max = parameters.first().map_or(0, |parameters| parameters.names_max);
    Ok(Fragmentation {
        requests: all.iter().map(|it| it.fragments(world, &free_all, &hosts, names_max)).collect(),
        for_all: common(&all, &hosts, &classes),
    })
}

/// The capacity that is unusable for each of the requests.
fn common(all: &[Counted], hosts: &[(u32, Free)], classes: &BTreeSet<ClassId>) -> CommonFragments {
    let mut is_complete = true;
    let mut sums: BTreeMap<ClassId, (u64, u64)> =
        classes.iter().map(|class| (*class, (0, 0))).collect();
    for (root, free) in hosts {
        if !all.iter().all(|it| it.has_examined(*root)) {
            is_complete = false;
            continue;
        }
        for (class, free) in free {
            let least = all.iter().map(|it| it.unusable(*root, *class, *free)).min();
            let (sum, unusable) = sums.entry(*class).or_insert((0, 0));
            *sum = sum.saturating_add(*free);
            *unusable = unusable.saturating_add(least.unwrap_or(0));
        }
    }
    let fragment = |(class, (free, unusable))| Fragment { class, free, unusable };
    CommonFragments { is_complete, classes: sums.into_iter().map(fragment).collect() }
}

fn counted(
    world: &World,
    parameters: &CountParameters<'_>,
    is_enough: &mut impl FnMut(usize) -> bool,
) -> Result<Counted, Unknown> {
    let query = engine::resolve(world, parameters.request)?;
    let mut count = Count::new(world, &query, parameters.excluded);
    let are_examined = count.all(is_enough);
    let (fits, is_counted) = count.total(None, is_enough);
    Ok(Counted {
        totals: query.totals(),
        is_complete: are_examined && is_counted,
        examined: count.examined(),
        fits,
        by_host: count.hosts().iter().map(|host| (host.root, host.fits)).collect(),
    })
}

/// The free capacity of these classes in a tree.
fn free(world: &World, root: &Provider<'_>, classes: &BTreeSet<ClassId>) -> Free {
    let mut free = Free::new();
    let slots = root.slot()..root.slot() + world.place(root.slot()).len;
    for class in classes {
        let Some(column) = world.column(*class) else { continue };
        for entry in slots.clone().filter_map(|slot| column.get(slot)) {
            let sum = free.entry(*class).or_insert(0);
            *sum = sum.saturating_add(entry.free().max(0).unsigned_abs());
        }
    }
    free
}

impl Counted {
    /// Returns whether a host was examined.
    fn has_examined(&self, root: u32) -> bool {
        root < self.examined
    }

    /// The number of requests that fit on an examined host.
    fn on(&self, root: u32) -> Bounds {
        let at = self.by_host.binary_search_by_key(&root, |(root, _)| *root).ok();
        at.and_then(|at| self.by_host.get(at)).map_or(Bounds::exactly(0), |(_, fits)| *fits)
    }

    /// The unusable part of a free amount on an examined host.
    fn unusable(&self, root: u32, class: ClassId, free: u64) -> u64 {
        match self.totals.get(&class) {
            None => free,
            Some(units) => {
                let used = self.on(root).at_least.saturating_mul(units.unsigned_abs());
                free.saturating_sub(used)
            }
        }
    }

    fn fragments(
        &self,
        world: &World,
        free_all: &Free,
        hosts: &[(u32, Free)],
        names_max: usize,
    ) -> RequestFragments {
        let classes = self.totals.iter().map(|(class, requested)| {
            let free = free_all.get(class).copied().unwrap_or(0);
            let used = self.fits.at_least.saturating_mul(requested.unsigned_abs());
            let fragment = Fragment { class: *class, free, unusable: free.saturating_sub(used) };
            ClassFragment { requested: *requested, fragment }
        });
        let classes: Vec<ClassFragment> = classes.collect();
        let times = classes.iter().map(|it| it.fragment.free / it.requested.max(1).unsigned_abs());
        let mut worst: Vec<(f64, u32, &Free)> = hosts
            .iter()
            .filter(|(root, _)| self.has_examined(*root))
            .map(|(root, free)| (self.share(*root, free, free_all), *root, free))
            .filter(|(share, ..)| *share > 0.0)
            .collect();
        let host_count = worst.len();
        worst.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        worst.truncate(names_max);
        RequestFragments {
            is_complete: self.is_complete,
            fits: self.fits,
            in_one_piece: times.min().unwrap_or(0),
            classes,
            host_count,
            hosts: worst.into_iter().map(|(_, root, free)| self.host(world, root, free)).collect(),
        }
    }

    /// The unusable capacity of a host as a share of the free capacity of the cloud, summed over the classes.
    #[expect(clippy::cast_precision_loss, reason = "hosts are only put into an order by it")]
    fn share(&self, root: u32, free: &Free, free_all: &Free) -> f64 {
        let mine = free.iter().filter(|(class, _)| self.totals.contains_key(class));
        let shares = mine.map(|(class, free)| {
            let all = free_all.get(class).map_or(1, |all| (*all).max(1));
            self.unusable(root, *class, *free) as f64 / all as f64
        });
        shares.sum()
    }

    fn host(&self, world: &World, root: u32, free: &Free) -> HostFragments {
        let fits = self.on(root);
        let mut classes = Vec::new();
        let mut short_of = Vec::new();
        let is_shared = |class: ClassId| {
            let signature = world.signature_of(root);
            let mut slots = signature.into_iter().flat_map(|id| world.sharing_with(id));
            slots.any(|slot| world.occupied(slot).inventory(class).is_some())
        };
        for (class, requested) in &self.totals {
            let free = free.get(class).copied().unwrap_or(0);
            let unusable = self.unusable(root, *class, free);
            classes.push(Fragment { class: *class, free, unusable });
            if unusable < requested.unsigned_abs() && !is_shared(*class) {
                short_of.push(*class);
            }
        }
        HostFragments { root: world.occupied(root).id(), fits, classes, short_of }
    }
}
