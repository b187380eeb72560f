//! Lists of providers by filters (`GET /resource_providers`).

use uuid::Uuid;

use super::part::{self, Amount, Part, Precision, pop, range};
use super::query::{check_traits, tree_of};
use super::request::Unknown;
use crate::world::set::BLOCK;
use crate::world::{Provider, World};

/// The filters of a list. A provider must pass all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// The provider has exactly this name.
    pub name: Option<String>,
    /// The provider has this UUID.
    pub uuid: Option<Uuid>,
    /// The provider is in the same tree as this one.
    pub in_tree: Option<Uuid>,
    /// The provider itself is in at least one aggregate of each clause.
    pub member_of: Vec<Vec<Uuid>>,
    /// The provider itself is in none of these aggregates.
    pub not_member_of: Vec<Uuid>,
    /// The provider has at least one trait of each clause.
    pub required: Vec<Vec<String>>,
    /// The provider has none of these traits.
    pub forbidden: Vec<String>,
    /// The provider alone has the capacity for each amount.
    pub resources: Vec<(String, i64)>,
}

/// Lists the providers that pass, ascending by key.
///
/// Filters are evaluated in the reference's order: a tree that does not exist, required traits that no provider
/// has, and aggregates without members make the list empty before later names are resolved.
///
/// # Errors
/// The filter names an unknown class or trait.
pub fn list<'w>(world: &'w World, filter: &Filter) -> Result<Vec<Provider<'w>>, Unknown> {
    let Some(part) = resolve(world, filter)? else { return Ok(Vec::new()) };
    let (from, to) = match filter.uuid.map(|uuid| world.provider(uuid)) {
        Some(Some(provider)) => (provider.slot(), provider.slot() + 1),
        Some(None) => return Ok(Vec::new()),
        None => part.tree.unwrap_or((0, world.end())),
    };
    let named = |it: &Provider<'_>| filter.name.as_ref().is_none_or(|name| it.name() == name);
    let mut found: Vec<Provider<'w>> = Vec::new();
    for block in from / BLOCK..to.div_ceil(BLOCK) {
        let mut words = part::and(world.present(block), range(block, from, to));
        words = part.words(block, words, Precision::Exact);
        while let Some(slot) = pop(&mut words, block) {
            found.extend(world.at(slot).filter(named));
        }
    }
    found.sort_by_key(Provider::id);
    Ok(found)
}

/// Resolves the filters to conditions on a provider; `None` if no provider can pass.
fn resolve(world: &World, filter: &Filter) -> Result<Option<Part>, Unknown> {
    let mut part = Part::default();
    if let Some(uuid) = filter.in_tree {
        let Some(provider) = world.provider(uuid) else { return Ok(None) };
        part.tree = Some(tree_of(world, provider));
    }
    check_traits(world, filter.required.iter().flatten()).map_err(Unknown::Traits)?;
    part.filter.all = filter.required.iter().map(|any| part::carriers(world, any)).collect();
    if !part.filter.admits_a_provider() {
        return Ok(None);
    }
    check_traits(world, filter.forbidden.iter()).map_err(Unknown::Traits)?;
    let member_of = part::SetFilter {
        all: filter.member_of.iter().map(|any| part::members(world, any)).collect(),
        none: Vec::new(),
    };
    if !member_of.admits_a_provider() {
        return Ok(None);
    }
    part.filter.all.extend(member_of.all);
    part.filter.none = part::carriers(world, &filter.forbidden);
    part.filter.none.extend(part::members(world, &filter.not_member_of));
    for (name, amount) in &filter.resources {
        let class = world.class_id(name).ok_or_else(|| Unknown::Class(name.clone()))?;
        part.amounts.push(Amount::new(world, class, *amount));
    }
    Ok(Some(part))
}
