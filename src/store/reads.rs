//! Reads of the consumer side: plain indexed SQL, committed state only.

use uuid::Uuid;

use super::{Result, Store};
use crate::model::{ClassId, Generation, ProviderId};

/// Everything one consumer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerAllocations {
    /// Owner.
    pub project: String,
    /// Owner.
    pub user: String,
    /// Consumer type, `None` if it was never said.
    pub consumer_type: Option<String>,
    /// The consumer's generation.
    pub generation: Generation,
    /// By provider (in order of first allocation): identity, generation, amounts by class name.
    pub providers: Vec<(Uuid, Generation, Vec<(String, i64)>)>,
    /// Last change, seconds since the Unix epoch.
    pub updated_at: i64,
}

/// What one consumer holds on one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldByConsumer {
    /// The consumer.
    pub consumer: Uuid,
    /// Its generation.
    pub generation: Generation,
    /// Amounts by class, ascending by class.
    pub resources: Vec<(ClassId, i64)>,
}

/// Which usages to sum up, for `GET /usages`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageFilter {
    /// Owner.
    pub project: String,
    /// Owner, if it matters.
    pub user: Option<String>,
    /// Only consumers of this type.
    pub consumer_type: TypeFilter,
}

/// A choice of consumer types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeFilter {
    /// Every type, together.
    All,
    /// Every type, each on its own (microversion 1.38 without `consumer_type`).
    Each,
    /// Consumers whose type was never said.
    Unknown,
    /// This type.
    Named(String),
}

/// Usage of the consumers of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageOfType {
    /// The type; `None` if it was never said, or for all types together.
    pub consumer_type: Option<String>,
    /// Distinct consumers.
    pub consumers: i64,
    /// Sums by class name, in class order.
    pub resources: Vec<(String, i64)>,
}

impl Store {
    /// What a consumer holds; `None` if it holds nothing.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn consumer_allocations(
        &self,
        consumer: Uuid,
    ) -> Result<Option<ConsumerAllocations>> {
        let _ = consumer;
        todo!()
    }

    /// What is held on a provider, consumers in order of first allocation, and the time of the
    /// last change if there is any.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn provider_allocations(
        &self,
        provider: ProviderId,
    ) -> Result<(Vec<HeldByConsumer>, Option<i64>)> {
        let _ = provider;
        todo!()
    }

    /// Usage of a project's consumers. Types without usage are left out.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn usages(&self, filter: UsageFilter) -> Result<Vec<UsageOfType>> {
        let _ = filter;
        todo!()
    }
}
