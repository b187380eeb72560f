//! The subjects of a comparison.

use clap::ValueEnum;
use serde::Serialize;

/// A subject of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The names of resource classes.
    ResourceClasses,
    /// The names of traits.
    Traits,
    /// Providers: name, generation, place in the tree.
    Providers,
    /// Inventories of providers.
    Inventories,
    /// Usages of providers.
    Usages,
    /// Aggregates of providers.
    Aggregates,
    /// Traits of providers.
    ProviderTraits,
    /// Allocations of providers.
    ProviderAllocations,
    /// Consumers: their allocations, project, user, type and generation.
    Consumers,
    /// Usages of projects.
    ProjectUsages,
    /// Allocation candidates.
    Candidates,
}

/// All subjects, in the order in which they are compared.
pub(super) const SUBJECTS: [Subject; 11] = [
    Subject::ResourceClasses,
    Subject::Traits,
    Subject::Providers,
    Subject::Inventories,
    Subject::Usages,
    Subject::Aggregates,
    Subject::ProviderTraits,
    Subject::ProviderAllocations,
    Subject::Consumers,
    Subject::ProjectUsages,
    Subject::Candidates,
];

impl Subject {
    /// The name in text output.
    pub fn words(self) -> &'static str {
        match self {
            Self::ResourceClasses => "resource classes",
            Self::Traits => "traits",
            Self::Providers => "providers and trees",
            Self::Inventories => "inventories",
            Self::Usages => "usages",
            Self::Aggregates => "aggregates",
            Self::ProviderTraits => "traits of providers",
            Self::ProviderAllocations => "allocations of providers",
            Self::Consumers => "consumers",
            Self::ProjectUsages => "usages of projects",
            Self::Candidates => "candidates",
        }
    }

    /// The subject whose responses yield this subject's objects or requests.
    pub(super) fn found_in(self) -> Option<Self> {
        match self {
            Self::Consumers => Some(Self::ProviderAllocations),
            Self::ProjectUsages => Some(Self::Consumers),
            Self::Candidates => Some(Self::Inventories),
            Self::ResourceClasses
            | Self::Traits
            | Self::Providers
            | Self::Inventories
            | Self::Usages
            | Self::Aggregates
            | Self::ProviderTraits
            | Self::ProviderAllocations => None,
        }
    }

    /// Returns whether its responses have the time of the last change rather than that of the request.
    pub(super) fn has_times(self) -> bool {
        match self {
            Self::Providers | Self::Inventories | Self::ProviderAllocations | Self::Consumers => {
                true
            }
            Self::ResourceClasses
            | Self::Traits
            | Self::Usages
            | Self::Aggregates
            | Self::ProviderTraits
            | Self::ProjectUsages
            | Self::Candidates => false,
        }
    }
}
