//! A memory of situations in which the remaining parts cannot be supplied.
//!
//! A *situation* is everything that the rest of a search depends on: the remaining parts, the remaining capacity of
//! the providers, and the possible ancestors of the `same_subtree` sets in progress. Providers that are otherwise
//! equal are interchangeable, and so are whole subtrees of them, and sets of equal groups. So a situation is
//! encoded without names: for each provider its relevant properties, followed by the sorted encodings of its
//! children.
//!
//! *Example.* Of eight equal devices, three are in use. The situation is the same whichever three they are, and
//! whichever groups use them.

#![expect(clippy::indexing_slicing, reason = "sites, levels and sets are numbered densely")]

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::capacity::{Capacity, PartOptions};
use super::lookahead::Decided;
use super::query::Query;

/// Maximum size of the memory, in numbers of eight bytes. A full memory is emptied.
const NUMBERS_MAX: usize = 1 << 20;
/// The overhead of an entry, in numbers.
const ENTRY_NUMBERS: usize = 6;

/// The memory of a search.
#[derive(Debug, Default)]
pub(super) struct FailedSituations {
    /// A code for each list of numbers that occurred.
    codes: HashMap<Box<[u64]>, u64>,
    /// The codes of situations.
    failed: HashSet<u64>,
    /// Number of numbers stored.
    numbers: usize,
    /// Number of anchors that used the memory.
    anchors: u64,
}

/// The providers of an anchor that are options, and the parts that each can supply.
#[derive(Debug)]
pub(super) struct Shape {
    /// The number of the anchor, which distinguishes it from others.
    anchor: u64,
    /// Ascending by slot.
    sites: Vec<Site>,
    services: Vec<Service>,
    /// For each level, the class of its part: parts of a class have equal requirements and the same options.
    classes: Vec<u64>,
    /// For each `same_subtree` set, whether none of its groups is in another set.
    are_alone: Vec<bool>,
    /// For each part, its level.
    levels: Vec<usize>,
}

/// A provider that is an option.
#[derive(Debug)]
struct Site {
    slot: u32,
    /// The position among the sites of the [`Capacity`].
    in_capacity: usize,
    /// The position of its nearest ancestor that is an option, too.
    parent: Option<usize>,
    root: u32,
    services: Range<usize>,
}

/// A level that a provider is an option for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Service {
    slot: u32,
    class: u64,
    level: usize,
    site: usize,
    is_bound: bool,
    meets: u64,
}

impl FailedSituations {
    /// Returns whether a situation has failed before.
    pub(super) fn contains(&self, situation: u64) -> bool {
        self.failed.contains(&situation)
    }

    /// Remembers a failed situation.
    pub(super) fn add(&mut self, situation: u64) {
        self.failed.insert(situation);
        self.numbers += ENTRY_NUMBERS;
    }

    fn code(&mut self, numbers: &[u64]) -> u64 {
        if let Some(code) = self.codes.get(numbers) {
            return *code;
        }
        let code = self.codes.len() as u64;
        self.numbers += numbers.len() + ENTRY_NUMBERS;
        self.codes.insert(numbers.into(), code);
        code
    }

    /// Empties the memory if it is full.
    fn bound(&mut self) {
        if self.numbers > NUMBERS_MAX {
            self.codes.clear();
            self.failed.clear();
            self.numbers = 0;
        }
    }
}

impl Shape {
    /// Computes the shape of an anchor. `parts` are in the order of the levels.
    pub(super) fn new<'t>(
        failed: &mut FailedSituations,
        decided: &Decided<'_>,
        parts: impl Iterator<Item = PartOptions<'t>>,
    ) -> Self {
        failed.anchors += 1;
        let query = decided.query;
        let mut classes = Vec::new();
        let mut known: HashMap<Vec<u64>, u64> = HashMap::new();
        let mut levels = vec![0; query.parts.len()];
        let mut services = Vec::new();
        for (level, part) in parts.enumerate() {
            let mut requirements = vec![u64::from(part.part.spread)];
            for amount in &part.part.amounts {
                requirements.extend([
                    u64::from(amount.class.0.cast_unsigned()),
                    amount.units.cast_unsigned(),
                ]);
            }
            requirements.push(u64::MAX);
            let mut options: Vec<u64> = part
                .options
                .iter()
                .map(|choice| u64::from(choice.slot) << 1 | u64::from(choice.bound))
                .collect();
            options.sort_unstable();
            requirements.extend(options);
            let next = known.len() as u64;
            let class = *known.entry(requirements).or_insert(next);
            classes.push(class);
            levels[part.position] = level;
            services.extend(part.options.iter().map(|choice| Service {
                slot: choice.slot,
                class,
                level,
                site: choice.site,
                is_bound: choice.bound,
                meets: choice.meets,
            }));
        }
        services.sort_unstable();
        let mut shape = Self {
            anchor: failed.anchors,
            sites: Vec::new(),
            services,
            classes,
            are_alone: are_alone(query),
            levels,
        };
        shape.add_sites(decided);
        shape
    }

    fn add_sites(&mut self, decided: &Decided<'_>) {
        let mut above: Vec<usize> = Vec::new();
        let mut from = 0;
        for of_slot in self.services.chunk_by(|one, other| one.slot == other.slot) {
            let Some(Service { slot, site, .. }) = of_slot.first().copied() else { continue };
            let spans = |&at: &usize| decided.spans(self.sites[at].slot, (slot, slot));
            while above.last().is_some_and(|at| !spans(at)) {
                above.pop();
            }
            let services = from..from + of_slot.len();
            from = services.end;
            let parent = above.last().copied();
            above.push(self.sites.len());
            let root = decided.world.place(slot).root;
            self.sites.push(Site { slot, in_capacity: site, parent, root, services });
        }
    }

    /// The situation in which the parts of the levels from `depth` on remain.
    pub(super) fn situation(
        &self,
        failed: &mut FailedSituations,
        decided: &Decided<'_>,
        capacity: &Capacity,
        depth: usize,
    ) -> u64 {
        failed.bound();
        let query = decided.query;
        let need = self.need(query, depth);
        let marks = self.marks(failed, decided, depth);
        let mut children: Vec<Vec<u64>> = vec![Vec::new(); self.sites.len()];
        let mut trees: Vec<(u32, u64)> = Vec::new();
        let mut numbers = Vec::new();
        for (at, site) in self.sites.iter().enumerate().rev() {
            numbers.clear();
            self.describe(site, (decided, capacity), (depth, &need), &mut numbers);
            let is_plain = numbers.is_empty();
            numbers.insert(0, numbers.len() as u64);
            let own = marks.iter().filter(|(marked, _)| *marked == at);
            let marked = numbers.len();
            numbers.extend(own.map(|(_, mark)| *mark));
            numbers.insert(marked, (numbers.len() - marked) as u64);
            let mut below = std::mem::take(&mut children[at]);
            if is_plain && below.is_empty() && numbers.len() == marked + 1 {
                continue;
            }
            below.sort_unstable();
            numbers.extend(below);
            let code = failed.code(&numbers);
            match site.parent {
                Some(parent) => children[parent].push(code),
                None => trees.push((site.root, code)),
            }
        }
        trees.sort_unstable();
        let mut codes: Vec<u64> = trees
            .chunk_by(|one, other| one.0 == other.0)
            .map(|tree| {
                let codes: Vec<u64> = tree.iter().map(|(_, code)| *code).collect();
                failed.code(&codes)
            })
            .collect();
        codes.sort_unstable();
        let (met, has_bound) = decided.have;
        numbers.clear();
        numbers.extend([self.anchor, depth as u64, met, u64::from(has_bound)]);
        numbers.extend(codes);
        failed.code(&numbers)
    }

    /// The amounts of each contended class that the levels from `depth` on take.
    fn need(&self, query: &Query, depth: usize) -> Vec<i64> {
        let mut need = vec![0_i64; query.contended.len()];
        for (part, level) in query.parts.iter().zip(&self.levels) {
            for amount in part.amounts.iter().filter(|_| *level >= depth) {
                if let Some(class) = amount.contended {
                    need[class] = need[class].saturating_add(amount.units);
                }
            }
        }
        need
    }

    /// Describes a provider as far as the levels from `depth` on depend on it; empty if they do not.
    fn describe(
        &self,
        site: &Site,
        (decided, capacity): (&Decided<'_>, &Capacity),
        (depth, need): (usize, &[i64]),
        numbers: &mut Vec<u64>,
    ) {
        let query = decided.query;
        let services = &self.services[site.services.clone()];
        let mut meets = 0;
        for service in services.iter().filter(|service| service.level >= depth) {
            let number = service.class << 1 | u64::from(service.is_bound);
            if numbers.last() != Some(&number) {
                numbers.push(number);
            }
            meets |= service.meets & !decided.have.0;
        }
        if !numbers.is_empty() {
            numbers.extend([u64::MAX, meets]);
            if capacity.matters() {
                let left = capacity.left(query, site.in_capacity).iter().zip(need);
                numbers.extend(left.map(|(left, need)| left.min(need).max(&0).cast_unsigned()));
                numbers.push(u64::from(capacity.is_held(site.in_capacity)));
            }
        }
        // It supplies resources, so no other provider of its tree may.
        let is_used = |(part, &pick): (usize, &u32)| {
            pick == site.slot && !query.parts[part].amounts.is_empty()
        };
        if !query.nested && decided.picks.iter().enumerate().any(is_used) {
            numbers.push(1);
        }
    }

    /// Marks the possible ancestors of the `same_subtree` sets in progress, by position of the provider.
    fn marks(
        &self,
        failed: &mut FailedSituations,
        decided: &Decided<'_>,
        depth: usize,
    ) -> Vec<(usize, u64)> {
        let query = decided.query;
        let mut marks = Vec::new();
        for (number, (set, is_alone)) in query.subtrees.iter().zip(&self.are_alone).enumerate() {
            let Some(ends) = decided.ends(set) else { continue };
            let parts = set.iter().flat_map(|&group| query.groups[group].parts.clone());
            let levels = parts.map(|part| self.levels[part]).filter(|level| *level >= depth);
            let levels: Vec<usize> = levels.collect();
            if levels.is_empty() {
                continue;
            }
            // Either the first provider is the ancestor, or a provider above all of them.
            let is_above = |site: &Site| {
                let services = &self.services[site.services.clone()];
                let is_open = services.iter().any(|service| levels.contains(&service.level));
                is_open && decided.spans(site.slot, ends)
            };
            let is_found = decided.spans(ends.0, ends);
            let place = if is_found {
                self.sites.iter().position(|site| site.slot == ends.0)
            } else {
                self.sites.iter().rposition(is_above)
            };
            let mut numbers = vec![u64::from(is_found)];
            if *is_alone {
                numbers.extend(levels.iter().map(|level| self.classes[*level]));
                numbers[1..].sort_unstable();
            } else {
                numbers.extend([u64::MAX, number as u64]);
            }
            let mark = failed.code(&numbers);
            // If no provider can be the ancestor, the set has no mark, unlike in all other situations of this
            // depth.
            marks.extend(place.map(|place| (place, mark)));
        }
        marks.sort_unstable();
        marks
    }
}

/// For each `same_subtree` set, whether none of its groups is in another set.
fn are_alone(query: &Query) -> Vec<bool> {
    let sets = query.subtrees.iter().enumerate();
    let is_alone = |(number, set): (usize, &Vec<usize>)| {
        let mut others = query.subtrees.iter().enumerate().filter(|(other, _)| *other != number);
        let mut own = set.clone();
        own.sort_unstable();
        own.windows(2).all(|pair| pair[0] != pair[1])
            && !others.any(|(_, other)| other.iter().any(|group| set.contains(group)))
    };
    sets.map(is_alone).collect()
}
