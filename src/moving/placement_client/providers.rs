//! Lists of resource providers.

use serde::Deserialize;

/// A provider in a list. Before microversion 1.14, services show neither parent nor root. Identifiers are of type
/// `I`: `Uuid`, or text if a service may show invalid ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct ListedProvider<I = String> {
    /// The UUID.
    pub uuid: I,
    /// The name.
    pub name: String,
    /// The generation.
    pub generation: i64,
    /// The parent provider.
    pub parent_provider_uuid: Option<I>,
    /// The root of its tree.
    pub root_provider_uuid: Option<I>,
}

impl<I> ListedProvider<I> {
    /// The root of its tree. Before Stein, a provider may have been left without one.
    pub fn root(&self) -> &I {
        self.root_provider_uuid.as_ref().map_or(&self.uuid, |root| root)
    }
}

/// The body of a list.
#[derive(Deserialize)]
pub(super) struct ProviderList<I> {
    pub(super) resource_providers: Vec<ListedProvider<I>>,
}
