//! The rules, written down as literally as possible and without any regard for speed: form all
//! combinations, then throw out what is not allowed.

use std::collections::{BTreeMap, BTreeSet};

use berth::model::provider::ProviderRow;
use berth::model::{ClassId, ProviderId, TraitId};
use berth::search::{Group, Policy, Request, Unknown};
use berth::world::Catalogue;
use uuid::Uuid;

/// A candidate: what would be allocated where, and who serves which group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) allocations: BTreeMap<(Uuid, ClassId), i64>,
    pub(crate) mappings: BTreeMap<String, BTreeSet<Uuid>>,
}

/// All providers and names.
pub(crate) struct Oracle<'a> {
    pub(crate) catalogue: &'a Catalogue,
    pub(crate) rows: &'a [ProviderRow],
}

/// One way to serve one group at one anchor.
#[derive(Clone, Debug)]
struct Partial {
    anchor: ProviderId,
    amounts: Vec<(ProviderId, ClassId, i64)>,
    providers: BTreeSet<ProviderId>,
}

struct Resolved {
    amounts: Vec<(ClassId, i64)>,
    required: Vec<Vec<TraitId>>,
    forbidden: Vec<TraitId>,
    tree: Option<ProviderId>,
}

impl<'a> Oracle<'a> {
    pub(crate) fn row(&self, id: ProviderId) -> &'a ProviderRow {
        self.rows.iter().find(|row| row.id == id).unwrap()
    }

    pub(crate) fn root(&self, id: ProviderId) -> ProviderId {
        match self.row(id).parent {
            Some(parent) => self.root(parent),
            None => id,
        }
    }

    fn is_ancestor_or_self(&self, above: ProviderId, below: ProviderId) -> bool {
        let parent = self.row(below).parent;
        above == below || parent.is_some_and(|parent| self.is_ancestor_or_self(above, parent))
    }

    fn trait_id(&self, name: &str) -> Option<TraitId> {
        self.catalogue.traits.iter().find(|(_, it)| it.name == name).map(|(id, _)| *id)
    }

    fn class_id(&self, name: &str) -> Option<ClassId> {
        self.catalogue.classes.iter().find(|(_, it)| it.name == name).map(|(id, _)| *id)
    }

    fn trait_ids<'n>(
        &self,
        names: impl Iterator<Item = &'n String>,
    ) -> Result<Vec<TraitId>, Vec<String>> {
        let names: BTreeSet<&String> = names.collect();
        let unknown: Vec<String> = names
            .iter()
            .filter(|name| self.trait_id(name).is_none())
            .map(|&name| name.clone())
            .collect();
        if unknown.is_empty() {
            Ok(names.iter().map(|name| self.trait_id(name).unwrap()).collect())
        } else {
            Err(unknown)
        }
    }

    pub(crate) fn fits(&self, provider: ProviderId, class: ClassId, amount: i64) -> bool {
        let inventory = self.row(provider).inventories.iter().find(|it| it.class == class);
        inventory.is_some_and(|it| it.terms.fits(it.used, amount))
    }

    pub(crate) fn shares(&self, provider: ProviderId) -> bool {
        let shares = self.trait_id("MISC_SHARES_VIA_AGGREGATE");
        shares.is_some_and(|shares| self.row(provider).traits.contains(&shares))
    }

    /// The roots of all providers with which a provider has an aggregate in common.
    pub(crate) fn anchors(&self, provider: ProviderId) -> BTreeSet<ProviderId> {
        let mine = &self.row(provider).aggregates;
        let near = self.rows.iter().filter(|row| row.aggregates.iter().any(|it| mine.contains(it)));
        near.map(|row| self.root(row.id)).collect()
    }

    fn in_all(&self, provider: ProviderId, member_of: &[Vec<Uuid>]) -> bool {
        let mine = &self.row(provider).aggregates;
        member_of.iter().all(|any| any.iter().any(|it| mine.contains(it)))
    }

    fn in_any(&self, provider: ProviderId, aggregates: &[Uuid]) -> bool {
        aggregates.iter().any(|it| self.row(provider).aggregates.contains(it))
    }

    /// Returns all candidates, or the unknown name.
    pub(crate) fn candidates(&self, request: &Request) -> Result<BTreeSet<Candidate>, Unknown> {
        self.candidates_at(request, |_| true)
    }

    /// The same at some anchors.
    pub(crate) fn candidates_at(
        &self,
        request: &Request,
        counts: impl Fn(ProviderId) -> bool,
    ) -> Result<BTreeSet<Candidate>, Unknown> {
        let Some(mut anchors) = self.anchor_roots(request)? else { return Ok(BTreeSet::new()) };
        anchors.retain(|anchor| counts(*anchor));
        let mut partials = Vec::new();
        for group in &request.groups {
            let Some(resolved) = self.resolve(group)? else { return Ok(BTreeSet::new()) };
            let mut found = if group.suffix.is_empty() {
                self.unsuffixed(group, &resolved)
            } else {
                self.suffixed(group, &resolved)
            };
            found.retain(|partial| anchors.contains(&partial.anchor));
            if found.is_empty() {
                return Ok(BTreeSet::new());
            }
            partials.push(found);
        }
        let mut candidates = BTreeSet::new();
        for anchor in anchors {
            let here: Vec<Vec<&Partial>> = partials
                .iter()
                .map(|partials| partials.iter().filter(|it| it.anchor == anchor).collect())
                .collect();
            if request.groups.is_empty() {
                continue;
            }
            for choice in product(&here) {
                candidates.extend(self.merge(request, &choice));
            }
        }
        Ok(candidates)
    }

    fn anchor_roots(&self, request: &Request) -> Result<Option<BTreeSet<ProviderId>>, Unknown> {
        let both = request.root_required.iter().chain(&request.root_forbidden);
        self.trait_ids(both).map_err(Unknown::RootTraits)?;
        let required = self.trait_ids(request.root_required.iter()).unwrap();
        let forbidden = self.trait_ids(request.root_forbidden.iter()).unwrap();
        let roots: BTreeSet<ProviderId> = self
            .rows
            .iter()
            .filter(|row| row.parent.is_none())
            .filter(|row| required.iter().all(|it| row.traits.contains(it)))
            .filter(|row| !forbidden.iter().any(|it| row.traits.contains(it)))
            .map(|row| row.id)
            .collect();
        Ok(Some(roots).filter(|roots| !roots.is_empty()))
    }

    /// Names to keys, in the order that decides between an error and an empty answer.
    fn resolve(&self, group: &Group) -> Result<Option<Resolved>, Unknown> {
        let mut amounts = Vec::new();
        for (name, amount) in &group.resources {
            let class = self.class_id(name).ok_or_else(|| Unknown::Class(name.clone()))?;
            amounts.push((class, *amount));
        }
        if !self.rows.iter().any(|row| self.in_all(row.id, &group.member_of)) {
            return Ok(None);
        }
        let both = group.required.iter().flatten().chain(&group.forbidden);
        self.trait_ids(both).map_err(Unknown::Traits)?;
        let required =
            group.required.iter().map(|any| self.trait_ids(any.iter()).unwrap()).collect();
        let forbidden = self.trait_ids(group.forbidden.iter()).unwrap();
        let tree = match group.in_tree {
            None => None,
            Some(uuid) => match self.rows.iter().find(|row| row.uuid == uuid) {
                None => return Ok(None),
                Some(row) => Some(self.root(row.id)),
            },
        };
        Ok(Some(Resolved { amounts, required, forbidden, tree }))
    }

    fn unsuffixed(&self, group: &Group, resolved: &Resolved) -> Vec<Partial> {
        let mut partials = Vec::new();
        if resolved.amounts.is_empty() {
            return partials;
        }
        for anchor in self.rows.iter().filter(|row| row.parent.is_none()).map(|row| row.id) {
            let options: Vec<Vec<(ProviderId, ClassId, i64)>> = resolved
                .amounts
                .iter()
                .map(|&(class, amount)| {
                    let supplies = self.rows.iter().map(|row| (row.id, class, amount));
                    supplies.filter(|it| self.is_option(anchor, *it, group, resolved)).collect()
                })
                .collect();
            for amounts in product(&options) {
                let providers: BTreeSet<ProviderId> = amounts.iter().map(|it| it.0).collect();
                let traits: BTreeSet<TraitId> =
                    providers.iter().flat_map(|&id| self.row(id).traits.clone()).collect();
                let required =
                    resolved.required.iter().all(|any| any.iter().any(|it| traits.contains(it)));
                if required && !resolved.forbidden.iter().any(|it| traits.contains(it)) {
                    partials.push(Partial { anchor, amounts, providers });
                }
            }
        }
        partials
    }

    fn is_option(
        &self,
        anchor: ProviderId,
        (id, class, amount): (ProviderId, ClassId, i64),
        group: &Group,
        resolved: &Resolved,
    ) -> bool {
        let near = self.root(id) == anchor && resolved.tree.is_none_or(|tree| tree == anchor);
        let shared = resolved.tree.is_none()
            && self.shares(id)
            && self.anchors(id).contains(&anchor)
            && self.in_all(id, &group.member_of);
        self.fits(id, class, amount)
            && (near || shared)
            && (self.in_all(id, &group.member_of) || self.in_all(anchor, &group.member_of))
            && !self.in_any(id, &group.not_member_of)
            && !self.in_any(anchor, &group.not_member_of)
    }

    fn suffixed(&self, group: &Group, resolved: &Resolved) -> Vec<Partial> {
        let mut partials = Vec::new();
        let without = resolved.amounts.is_empty();
        if without && resolved.required.is_empty() && group.member_of.is_empty() {
            return partials;
        }
        for row in self.rows {
            let serves = resolved
                .amounts
                .iter()
                .all(|&(class, amount)| self.fits(row.id, class, amount))
                && resolved.required.iter().all(|any| any.iter().any(|it| row.traits.contains(it)))
                && !resolved.forbidden.iter().any(|it| row.traits.contains(it))
                && self.in_all(row.id, &group.member_of)
                && !self.in_any(row.id, &group.not_member_of)
                && (without || resolved.tree.is_none_or(|tree| tree == self.root(row.id)));
            if !serves {
                continue;
            }
            let mut anchors = BTreeSet::from([self.root(row.id)]);
            if self.shares(row.id) {
                anchors.extend(self.anchors(row.id));
            }
            partials.extend(anchors.into_iter().map(|anchor| Partial {
                anchor,
                amounts: resolved.amounts.iter().map(|&(class, it)| (row.id, class, it)).collect(),
                providers: BTreeSet::from([row.id]),
            }));
        }
        partials
    }

    fn merge(&self, request: &Request, choice: &[&Partial]) -> Option<Candidate> {
        let served = |suffix: &String| {
            let position = request.groups.iter().position(|group| group.suffix == *suffix)?;
            Some(&choice[position].providers)
        };
        if request.policy == Policy::Isolate {
            let suffixed = request.groups.iter().filter(|group| !group.suffix.is_empty());
            let used: Vec<_> =
                suffixed.clone().flat_map(|group| served(&group.suffix).unwrap()).collect();
            if used.iter().collect::<BTreeSet<_>>().len() != suffixed.count() {
                return None;
            }
        }
        for set in &request.same_subtree {
            let providers: BTreeSet<ProviderId> =
                set.iter().filter_map(served).flatten().copied().collect();
            let top = providers.iter().any(|&above| {
                providers.iter().all(|&below| self.is_ancestor_or_self(above, below))
            });
            if !top && !providers.is_empty() {
                return None;
            }
        }
        let mut sums: BTreeMap<(ProviderId, ClassId), i64> = BTreeMap::new();
        for &(id, class, amount) in choice.iter().flat_map(|partial| &partial.amounts) {
            *sums.entry((id, class)).or_default() += amount;
        }
        for (&(id, class), &sum) in &sums {
            let it = self.row(id).inventories.iter().find(|it| it.class == class).unwrap();
            if it.used + sum > it.terms.capacity() || sum > i64::from(it.terms.max_unit) {
                return None;
            }
        }
        if !request.nested {
            let providers: BTreeSet<ProviderId> = sums.keys().map(|(id, _)| *id).collect();
            let roots: BTreeSet<ProviderId> = providers.iter().map(|&id| self.root(id)).collect();
            if roots.len() < providers.len() {
                return None;
            }
        }
        let uuid = |id: ProviderId| self.row(id).uuid;
        Some(Candidate {
            allocations: sums
                .into_iter()
                .map(|((id, class), sum)| ((uuid(id), class), sum))
                .collect(),
            mappings: request
                .groups
                .iter()
                .zip(choice)
                .map(|(group, partial)| {
                    (group.suffix.clone(), partial.providers.iter().map(|&id| uuid(id)).collect())
                })
                .collect(),
        })
    }

    /// The providers to summarise beside these candidates.
    pub(crate) fn summarised<'c>(
        &self,
        candidates: impl Iterator<Item = &'c Candidate>,
        nested: bool,
    ) -> BTreeSet<Uuid> {
        let used: BTreeSet<Uuid> =
            candidates.flat_map(|it| it.allocations.keys().map(|(uuid, _)| *uuid)).collect();
        if !nested {
            return used;
        }
        let roots: BTreeSet<ProviderId> = self
            .rows
            .iter()
            .filter(|row| used.contains(&row.uuid))
            .map(|row| self.root(row.id))
            .collect();
        let involved = self.rows.iter().filter(|row| roots.contains(&self.root(row.id)));
        involved.map(|row| row.uuid).collect()
    }
}

/// All ways to take one of each.
fn product<T: Clone>(lists: &[Vec<T>]) -> Vec<Vec<T>> {
    let mut products = vec![Vec::new()];
    for list in lists {
        products = products
            .iter()
            .flat_map(|chosen| {
                list.iter().map(|item| {
                    let mut longer = chosen.clone();
                    longer.push(item.clone());
                    longer
                })
            })
            .collect();
    }
    products
}
