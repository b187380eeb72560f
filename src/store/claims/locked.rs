//! The rows that claims need, and their locked state.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::model::claim::{Claim, Consumer, ConsumerState, LockedState, Owner, Request};
use crate::model::{ConsumerId, Expected, Generation, ProviderId};
use crate::store::error::{Error, Result};
use crate::store::tx::Tx;

/// The locked state, with the keys needed for writing.
pub(in crate::store) struct LockedClaims {
    pub(in crate::store) state: LockedState,
    pub(super) rows: BTreeMap<Uuid, StoredConsumer>,
    /// The involvement of the planner.
    pub(in crate::store) planner_role: PlannerRole,
}

/// The involvement of the planner in the locked rows.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct PlannerRole {
    /// Some of the consumers are placements of plans, take one over, or are tenants that had one.
    pub(in crate::store) has_placements: bool,
    /// Some groups have units exclusively.
    pub(in crate::store) has_exclusive_units: bool,
}

/// A row of `consumers`. `inserted`: the row that this transaction has inserted, if the consumer did not exist.
pub(in crate::store) struct StoredConsumer {
    pub(super) id: ConsumerId,
    pub(super) inserted: Option<Consumer>,
}

/// The generation of a new consumer after its first claim, which nearly always comes with it.
pub(super) const GENERATION_INSERTED: Generation = 1;

/// The rows to lock.
#[derive(Default)]
pub(in crate::store) struct Needs<'r> {
    /// Consumers to insert if they do not exist, with their owners.
    pub(in crate::store) claiming: BTreeMap<Uuid, Owner>,
    /// All named consumers.
    pub(in crate::store) consumers: BTreeSet<Uuid>,
    /// All named providers.
    pub(in crate::store) providers: BTreeSet<Uuid>,
    /// Consumers that claim something, and so take over the holds of plans for them.
    pub(in crate::store) arriving: BTreeSet<Uuid>,
    /// Groups that may abandon units, besides those of the consumers.
    pub(in crate::store) groups: BTreeSet<Uuid>,
    /// All named classes.
    pub(in crate::store) classes: BTreeSet<&'r str>,
}

impl<'r> Needs<'r> {
    /// Collects the rows that these requests need.
    pub(in crate::store) fn of(requests: impl IntoIterator<Item = &'r Request>) -> Self {
        let mut needs = Self::default();
        for request in requests {
            match request {
                Request::Replace(claims) => needs.add_claims(claims),
                Request::Release(consumer) => {
                    needs.consumers.insert(*consumer);
                }
            }
        }
        needs
    }

    /// Adds the rows that these claims need.
    pub(in crate::store) fn add_claims(&mut self, claims: &'r [Claim]) {
        for claim in claims {
            self.consumers.insert(claim.consumer);
            if !claim.wants.is_empty() {
                self.arriving.insert(claim.consumer);
            }
            // A claim that expects a generation or gives everything up creates no consumer.
            if !claim.wants.is_empty() && !matches!(claim.expected, Expected::Is(_)) {
                self.claiming.insert(claim.consumer, claim.owner);
            }
            for (provider, class, _) in &claim.wants {
                self.providers.insert(*provider);
                self.classes.insert(class);
            }
        }
    }
}

impl LockedClaims {
    /// Checks that these holds are locked or no longer exist.
    ///
    /// # Errors
    /// [`Error::Again`] if one was reserved for its instance while the locks were taken: locking it now would
    /// be out of order.
    pub(in crate::store) async fn expect(&mut self, tx: &mut Tx<'_>, holds: &[Uuid]) -> Result<()> {
        let known = &self.state.consumers;
        let unknown: Vec<Uuid> =
            holds.iter().filter(|uuid| !known.contains_key(*uuid)).copied().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let exist = sqlx::query_scalar!(
            r#"select exists(select from consumers where uuid = any($1)) as "exist!""#,
            &unknown
        )
        .fetch_one(&mut *tx.conn)
        .await?;
        if exist {
            return Err(Error::Again("an instance got a reservation meanwhile".to_owned()));
        }
        self.state
            .consumers
            .extend(unknown.into_iter().map(|uuid| (uuid, ConsumerState::default())));
        Ok(())
    }

    /// Returns whether the provider is locked.
    pub(in crate::store) fn has(&self, provider: ProviderId) -> bool {
        self.state.providers.values().any(|it| it.id == provider)
    }
}
