//! Reads the rows of all consumers that have allocations.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use sqlx::PgConnection;

use super::error::{Error, Result};
use super::owners::OwnerNames;
use super::world_rows;
use crate::model::claim::Owner;
use crate::model::{ClassId, ConsumerId, ProviderId};
use crate::world::{ConsumerChange, ConsumerOwner, ConsumerState, Consumers};

/// Number of consumers that are added at once.
const PIECE: usize = 1000;

/// All consumers, as of one snapshot.
#[derive(Debug)]
pub(super) struct LoadedConsumers {
    /// The consumers; `None`: they need more memory than allowed.
    pub(super) consumers: Option<Consumers>,
    /// The identity of the database; see the view `database_identity`.
    pub(super) identity: String,
}

/// Reads all consumers in one snapshot, as long as they fit in this memory.
///
/// # Errors
/// Those of the database.
pub(super) async fn all(conn: &mut PgConnection, memory_max: u64) -> Result<LoadedConsumers> {
    let mut tx = world_rows::begin(conn).await?;
    sqlx::raw_sql("set local statement_timeout = 0").execute(&mut *tx).await?;
    let identity = sqlx::query_scalar!(r#"select identity as "identity!" from database_identity"#)
        .fetch_one(&mut *tx)
        .await?;
    let owners =
        sqlx::query!("select distinct project_id, user_id, consumer_type_id from consumers")
            .fetch_all(&mut *tx)
            .await?;
    let owners = owners.into_iter().map(|row| Owner {
        project: row.project_id,
        user: row.user_id,
        consumer_type: row.consumer_type_id,
    });
    let mut consumers = Consumers::default();
    consumers.add_owners(names(&mut tx, owners.collect()).await?);
    let mut rows = sqlx::query!(
        r#"select c.id, c.uuid, c.generation, c.project_id, c.user_id, c.consumer_type_id,
                  a.provider_id, a.class_ids, a.used,
                  extract(epoch from a.updated_at)::bigint as "updated_at!"
           from consumers c join allocation_sets a on a.consumer_id = c.id
           order by c.id, a.provider_id"#
    )
    .fetch(&mut *tx);
    let mut piece: Vec<ConsumerChange> = Vec::with_capacity(PIECE);
    while let Some(row) = rows.try_next().await? {
        let provider = ProviderId(row.provider_id);
        let amounts = row.class_ids.into_iter().map(ClassId).zip(row.used);
        let amounts = amounts.map(|(class, used)| (provider, class, used));
        match piece.last_mut() {
            Some(ConsumerChange { uuid, now: Some(now) }) if *uuid == row.uuid => {
                now.held.extend(amounts);
                now.updated_at = now.updated_at.max(row.updated_at);
                continue;
            }
            _ => {}
        }
        if piece.len() >= PIECE {
            consumers.apply(piece.drain(..));
            if consumers.memory() > memory_max {
                return Ok(LoadedConsumers { consumers: None, identity });
            }
        }
        let now = ConsumerState {
            id: ConsumerId(row.id),
            generation: row.generation,
            owner: Owner {
                project: row.project_id,
                user: row.user_id,
                consumer_type: row.consumer_type_id,
            },
            updated_at: row.updated_at,
            held: amounts.collect(),
        };
        piece.push(ConsumerChange { uuid: row.uuid, now: Some(now) });
    }
    drop(rows);
    consumers.apply(piece);
    tx.commit().await?;
    Ok(LoadedConsumers { consumers: Some(consumers), identity })
}

/// Reads the names of owners.
///
/// # Errors
/// Those of the database; an owner has no name.
pub(super) async fn names(
    conn: &mut PgConnection,
    owners: BTreeSet<Owner>,
) -> Result<Vec<(Owner, ConsumerOwner)>> {
    let mut names = OwnerNames::default();
    names.complete(conn, owners.iter().copied()).await?;
    let owned = |owner: Owner| {
        let nameless = || {
            Error::inconsistent("consumers", "project_id, user_id", format!("{owner:?}: no name"))
        };
        let (project, user, consumer_type) = names.of(owner).ok_or_else(nameless)?;
        Ok((owner, ConsumerOwner { project, user, consumer_type }))
    };
    owners.into_iter().map(owned).collect()
}
