//! Reads the rows that claims need as [`lock`](super::lock) does, but without locks, for judging only.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::PgConnection;
use uuid::Uuid;

use super::locked::{LockedClaims, Needs, StoredConsumer};
use super::rows::{read_classes, read_held, read_inventories};
use crate::model::claim::{Consumer, ConsumerState, LockedProvider, LockedState, Owner};
use crate::model::{ConsumerId, ProviderId};
use crate::store::consistency;
use crate::store::error::Result;
use crate::store::tx::Tx;

/// Reads the needed rows without locks. The transaction must see one snapshot.
pub(in crate::store) async fn read(tx: &mut Tx<'_>, needs: &Needs<'_>) -> Result<LockedClaims> {
    let (mut consumers, rows) = consumers(tx.conn, needs).await?;
    let held = read_held(tx.conn, &mut consumers, &rows).await?;
    let providers = providers(tx.conn, needs, &held).await?;
    let mut state = LockedState { providers, consumers, ..LockedState::default() };
    let planner_role = read_inventories(tx.conn, &mut state).await?;
    read_classes(tx.conn, needs, &mut state.classes).await?;
    consistency::check_held(&state)?;
    Ok(LockedClaims { state, rows, planner_role })
}

/// Reads the named consumers, and the holds that plans keep for those that claim something.
async fn consumers(
    conn: &mut PgConnection,
    needs: &Needs<'_>,
) -> Result<(BTreeMap<Uuid, ConsumerState>, BTreeMap<Uuid, StoredConsumer>)> {
    let named: Vec<Uuid> = needs.consumers.iter().copied().collect();
    let arriving: Vec<Uuid> = needs.arriving.iter().copied().collect();
    let found = sqlx::query!(
        "select id, uuid, generation, project_id, user_id, consumer_type_id from consumers
         where uuid = any($1::uuid[] || array(select id from placements where ticket = any($2)))",
        &named,
        &arriving
    )
    .fetch_all(conn)
    .await?;
    let mut consumers: BTreeMap<Uuid, ConsumerState> =
        named.into_iter().map(|uuid| (uuid, ConsumerState::default())).collect();
    let mut rows = BTreeMap::new();
    for row in found {
        rows.insert(row.uuid, StoredConsumer { id: ConsumerId(row.id), inserted: None });
        let (project, user) = (row.project_id, row.user_id);
        let owner = Owner { project, user, consumer_type: row.consumer_type_id };
        let consumer = Consumer { owner, generation: row.generation, holds: BTreeMap::new() };
        let consumer = ConsumerState { before: Some(consumer.clone()), now: Some(consumer) };
        consumers.insert(row.uuid, consumer);
    }
    Ok((consumers, rows))
}

/// Reads the providers that are named or used by the consumers.
async fn providers(
    conn: &mut PgConnection,
    needs: &Needs<'_>,
    held: &BTreeSet<i64>,
) -> Result<HashMap<Uuid, LockedProvider>> {
    let uuids: Vec<Uuid> = needs.providers.iter().copied().collect();
    let ids: Vec<i64> = held.iter().copied().collect();
    let rows = sqlx::query!(
        "select id, uuid, generation from providers where uuid = any($1) or id = any($2::bigint[])",
        &uuids,
        &ids
    )
    .fetch_all(conn)
    .await?;
    let locked = rows.into_iter().map(|row| {
        (row.uuid, LockedProvider { id: ProviderId(row.id), generation: row.generation })
    });
    Ok(locked.collect())
}
