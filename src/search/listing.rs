//! Listing providers by filters (`GET /resource_providers`).

use uuid::Uuid;

use super::Unknown;
use crate::world::{Provider, World};

/// All given filters must be met.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Exactly this name.
    pub name: Option<String>,
    /// Exactly this provider.
    pub uuid: Option<Uuid>,
    /// In the same tree as this provider.
    pub in_tree: Option<Uuid>,
    /// In any aggregate of each clause, itself.
    pub member_of: Vec<Vec<Uuid>>,
    /// In none of these aggregates, itself.
    pub not_member_of: Vec<Uuid>,
    /// Any trait of each clause.
    pub required: Vec<Vec<String>>,
    /// None of these traits.
    pub forbidden: Vec<String>,
    /// Room for each amount on its own.
    pub resources: Vec<(String, i64)>,
}

/// The providers that pass, ascending by key.
///
/// # Errors
/// An unknown class or trait.
pub fn list<'w>(world: &'w World, filter: &Filter) -> Result<Vec<Provider<'w>>, Unknown> {
    let _ = (world, filter);
    todo!()
}
