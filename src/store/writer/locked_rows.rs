//! Finds the rows that claims need and that other transactions have locked.

use std::collections::{HashMap, HashSet};

use sqlx::PgConnection;
use uuid::Uuid;

use super::job::Job;
use crate::store::change::look;
use crate::store::error::Result;

/// Rows that others have locked, and consumers that need one of them.
#[derive(Clone, Debug, Default)]
pub(super) struct LockedRows {
    /// Consumers that are locked themselves, for whom a locked placement is reserved, or that use a locked
    /// provider.
    pub(super) consumers: HashSet<Uuid>,
    /// Locked providers.
    pub(super) providers: HashSet<Uuid>,
}

impl LockedRows {
    /// Checks every row that the jobs need, without waiting for any.
    ///
    /// A row may be locked for a moment only; then its job is deferred and written a moment later.
    pub(super) async fn find(conn: &mut PgConnection, jobs: &[&Job]) -> Result<Self> {
        let consumers: Vec<Uuid> = jobs.iter().flat_map(|job| job.consumers()).collect();
        let named: Vec<Uuid> = jobs.iter().flat_map(|job| job.providers()).collect();
        let mut locked = Self::default();
        // Two transactions, so that consumers are not kept locked during the check of providers. Each is
        // rolled back, which releases its locks without waiting for the disk.
        let mut tx = look(conn).await?;
        locked.find_consumers(&mut tx, &consumers).await?;
        tx.rollback().await?;
        let mut tx = look(conn).await?;
        locked.find_providers(&mut tx, &consumers, named).await?;
        tx.rollback().await?;
        Ok(locked)
    }

    async fn find_consumers(&mut self, conn: &mut PgConnection, named: &[Uuid]) -> Result<()> {
        let rows = sqlx::query!(
            r#"select uuid as "row!", uuid as "named!" from consumers where uuid = any($1)
               union all
               select c.uuid, p.ticket from placements p join consumers c on c.uuid = p.id
               where p.ticket = any($1)"#,
            named
        )
        .fetch_all(&mut *conn)
        .await?;
        let wanted: Vec<Uuid> = rows.iter().map(|row| row.row).collect();
        // The last statement of its transaction, so that free rows are locked for a moment only.
        let free = sqlx::query_scalar!(
            "select uuid from consumers where uuid = any($1) for update skip locked",
            &wanted
        )
        .fetch_all(&mut *conn)
        .await?;
        let free: HashSet<Uuid> = free.into_iter().collect();
        self.consumers
            .extend(rows.iter().filter(|row| !free.contains(&row.row)).map(|row| row.named));
        Ok(())
    }

    async fn find_providers(
        &mut self,
        conn: &mut PgConnection,
        consumers: &[Uuid],
        mut wanted: Vec<Uuid>,
    ) -> Result<()> {
        let rows = sqlx::query!(
            r#"select distinct p.uuid as "provider!", c.uuid as "consumer!"
               from consumers c join allocation_sets a on a.consumer_id = c.id
               join providers p on p.id = a.provider_id where c.uuid = any($1)
               union
               select p.uuid, s.ticket
               from placements s join consumers c on c.uuid = s.id
               join allocation_sets a on a.consumer_id = c.id
               join providers p on p.id = a.provider_id where s.ticket = any($1)"#,
            consumers
        )
        .fetch_all(&mut *conn)
        .await?;
        let mut drawing: HashMap<Uuid, Vec<Uuid>> = HashMap::new();
        for row in rows {
            drawing.entry(row.provider).or_default().push(row.consumer);
        }
        wanted.extend(drawing.keys());
        // Providers that do not exist are not locked.
        let exist = sqlx::query_scalar!("select uuid from providers where uuid = any($1)", &wanted)
            .fetch_all(&mut *conn)
            .await?;
        let free = sqlx::query_scalar!(
            "select uuid from providers where uuid = any($1) for no key update skip locked",
            &wanted
        )
        .fetch_all(&mut *conn)
        .await?;
        let free: HashSet<Uuid> = free.into_iter().collect();
        self.providers = exist.into_iter().filter(|uuid| !free.contains(uuid)).collect();
        for provider in &self.providers {
            self.consumers.extend(drawing.get(provider).into_iter().flatten());
        }
        Ok(())
    }

    /// Adds the consumers of the jobs that use one of these providers.
    pub(super) async fn add_consumers_of_locked(
        &mut self,
        conn: &mut PgConnection,
        jobs: &[&Job],
    ) -> Result<()> {
        let consumers: Vec<Uuid> = jobs.iter().flat_map(|job| job.consumers()).collect();
        let providers: Vec<Uuid> = self.providers.iter().copied().collect();
        let drawing = sqlx::query_scalar!(
            "select c.uuid from consumers c join allocation_sets a on a.consumer_id = c.id
             join providers p on p.id = a.provider_id
             where c.uuid = any($1) and p.uuid = any($2)",
            &consumers,
            &providers
        )
        .fetch_all(conn)
        .await?;
        self.consumers.extend(drawing);
        Ok(())
    }

    /// Returns only those rows.
    pub(super) fn only(mut self, is_wanted: impl Fn(&Uuid) -> bool) -> Self {
        self.consumers.retain(&is_wanted);
        self.providers.retain(&is_wanted);
        self
    }

    /// Returns whether nothing is locked.
    pub(super) fn is_empty(&self) -> bool {
        self.consumers.is_empty() && self.providers.is_empty()
    }

    /// Returns whether the job needs a locked row.
    pub(super) fn blocks(&self, job: &Job) -> bool {
        job.consumers().any(|consumer| self.consumers.contains(&consumer))
            || job.providers().any(|provider| self.providers.contains(&provider))
    }

    /// Adds other locked rows.
    pub(super) fn extend(&mut self, other: Self) {
        self.consumers.extend(other.consumers);
        self.providers.extend(other.providers);
    }
}
