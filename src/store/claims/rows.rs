//! Locks and reads the rows of claims.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::PgConnection;
use uuid::Uuid;

use super::locked::{GENERATION_INSERTED, Needs, PlannerRole, StoredConsumer};
use crate::model::claim::{
    Consumer, ConsumerState, InventoryUsage, LockedProvider, LockedState, Owner,
};
use crate::model::{ClassId, ConsumerId, Inventory, ProviderId};
use crate::store::error::Result;
use crate::store::resource_classes;

/// Inserts the missing consumers, and returns them with those among them that plans expect as instances. A
/// transaction that inserts the same consumer at the same time waits here.
pub(super) async fn insert_consumers(
    conn: &mut PgConnection,
    claiming: &BTreeMap<Uuid, Owner>,
) -> Result<(BTreeMap<Uuid, StoredConsumer>, Vec<Uuid>)> {
    if claiming.is_empty() {
        return Ok(Default::default());
    }
    let uuids: Vec<Uuid> = claiming.keys().copied().collect();
    let projects: Vec<i64> = claiming.values().map(|owner| owner.project).collect();
    let users: Vec<i64> = claiming.values().map(|owner| owner.user).collect();
    let types: Vec<Option<i64>> = claiming.values().map(|owner| owner.consumer_type).collect();
    let rows = sqlx::query!(
        r#"insert into consumers (uuid, project_id, user_id, consumer_type_id, generation)
           select *, $5::bigint from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[])
           on conflict (uuid) do nothing
           returning uuid, id,
                     exists(select from placements where ticket = consumers.uuid) as "expected!""#,
        &uuids,
        &projects,
        &users,
        &types as &[Option<i64>],
        GENERATION_INSERTED
    )
    .fetch_all(conn)
    .await?;
    let expected = rows.iter().filter(|row| row.expected).map(|row| row.uuid).collect();
    let inserted = rows
        .into_iter()
        .map(|row| {
            let inserted = claiming.get(&row.uuid).map(|owner| Consumer {
                owner: *owner,
                generation: GENERATION_INSERTED,
                holds: BTreeMap::new(),
            });
            (row.uuid, StoredConsumer { id: ConsumerId(row.id), inserted })
        })
        .collect();
    Ok((inserted, expected))
}

/// Locks the consumers that existed before, and returns the state of all. If consumers claim something, the
/// holds that plans keep for them, or for the newly inserted `expected` ones, are locked as well, because the
/// claims take them over. An inserted consumer is locked already.
pub(super) async fn lock_consumers(
    conn: &mut PgConnection,
    needs: &Needs<'_>,
    expected: Vec<Uuid>,
    rows: &mut BTreeMap<Uuid, StoredConsumer>,
) -> Result<BTreeMap<Uuid, ConsumerState>> {
    let mut consumers: BTreeMap<Uuid, ConsumerState> =
        needs.consumers.iter().map(|uuid| (*uuid, ConsumerState::default())).collect();
    let is_old = |uuid: &&Uuid| !rows.contains_key(*uuid);
    let uuids: Vec<Uuid> = needs.consumers.iter().filter(is_old).copied().collect();
    let mut arriving = expected;
    arriving.extend(needs.arriving.iter().filter(is_old));
    if uuids.is_empty() && arriving.is_empty() {
        return Ok(consumers);
    }
    let locked = sqlx::query!(
        "select id, uuid, generation, project_id, user_id, consumer_type_id from consumers
         where uuid = any($1::uuid[] || array(select id from placements where ticket = any($2)))
         order by uuid for update",
        &uuids,
        &arriving
    )
    .fetch_all(conn)
    .await?;
    for row in locked {
        rows.insert(row.uuid, StoredConsumer { id: ConsumerId(row.id), inserted: None });
        let consumer = Consumer {
            owner: Owner {
                project: row.project_id,
                user: row.user_id,
                consumer_type: row.consumer_type_id,
            },
            generation: row.generation,
            holds: BTreeMap::new(),
        };
        let consumer = ConsumerState { before: Some(consumer.clone()), now: Some(consumer) };
        consumers.insert(row.uuid, consumer);
    }
    Ok(consumers)
}

/// Reads the allocations of the consumers, and returns their providers.
pub(super) async fn read_held(
    conn: &mut PgConnection,
    consumers: &mut BTreeMap<Uuid, ConsumerState>,
    rows: &BTreeMap<Uuid, StoredConsumer>,
) -> Result<BTreeSet<i64>> {
    let uuid_of: HashMap<i64, Uuid> = rows
        .iter()
        .filter(|(_, row)| row.inserted.is_none())
        .map(|(uuid, row)| (row.id.0, *uuid))
        .collect();
    let mut providers = BTreeSet::new();
    if uuid_of.is_empty() {
        return Ok(providers);
    }
    let ids: Vec<i64> = uuid_of.keys().copied().collect();
    let held = sqlx::query!(
        "select consumer_id, provider_id, class_ids, used from allocation_sets
         where consumer_id = any($1)",
        &ids
    )
    .fetch_all(conn)
    .await?;
    for row in held {
        providers.insert(row.provider_id);
        let consumer = uuid_of.get(&row.consumer_id).and_then(|uuid| consumers.get_mut(uuid));
        let Some(ConsumerState { before: Some(before), now: Some(now) }) = consumer else {
            continue;
        };
        for (class, used) in row.class_ids.into_iter().zip(row.used) {
            let place = (ProviderId(row.provider_id), ClassId(class));
            before.holds.insert(place, used);
            now.holds.insert(place, used);
        }
    }
    Ok(providers)
}

/// Locks the providers that are named or used by the consumers, and the roots of all exclusive units of the
/// consumers' groups: when a unit is abandoned, the generations of its hosts move.
pub(super) async fn lock_providers(
    conn: &mut PgConnection,
    needs: &Needs<'_>,
    held: &BTreeSet<i64>,
    consumers: &[Uuid],
) -> Result<HashMap<Uuid, LockedProvider>> {
    let uuids: Vec<Uuid> = needs.providers.iter().copied().collect();
    let ids: Vec<i64> = held.iter().copied().collect();
    let groups: Vec<Uuid> = needs.groups.iter().copied().collect();
    let rows = sqlx::query!(
        "select id, uuid, generation from providers
         where uuid = any($1) or id = any($2::bigint[] || array(
             select root_id from exclusive_units where group_id = any($3)
             union all
             select e.root_id from placements p
             join placement_groups g on g.placement_id = p.id
             join exclusive_units e on e.group_id = g.group_id
             where p.consumer = any($4) and exists (select from exclusive_units)
             union all
             select e.root_id from placement_groups g
             join exclusive_units e on e.group_id = g.group_id
             where g.placement_id = any($4) and exists (select from exclusive_units)
             union all
             select e.root_id from exclusive_tenants t
             join exclusive_units e on e.group_id = t.group_id
             where t.consumer = any($4)))
         order by id for no key update",
        &uuids,
        &ids,
        &groups,
        consumers
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            (row.uuid, LockedProvider { id: ProviderId(row.id), generation: row.generation })
        })
        .collect())
}

/// Reads the inventories of the providers with the names of their classes, and the involvement of the planner:
/// in the same statement, because it begins after everything is locked.
pub(super) async fn read_inventories(
    conn: &mut PgConnection,
    state: &mut LockedState,
) -> Result<PlannerRole> {
    let ids: Vec<i64> = state.providers.values().map(|provider| provider.id.0).collect();
    let consumers: Vec<Uuid> = state.consumers.keys().copied().collect();
    let rows = sqlx::query!(
        r#"select provider_id, class_id, name, total, reserved, min_unit, max_unit, step_size,
                  allocation_ratio, used,
                  (select exists(select from placements where consumer = any($2)))
                  or (select exists(select from placements where ticket = any($2)))
                  or (select exists(select from exclusive_tenants where consumer = any($2)))
                      as "has_placements!",
                  (select exists(select from exclusive_units)) as "has_exclusive_units!"
           from inventories join resource_classes on id = class_id where provider_id = any($1)"#,
        &ids,
        &consumers
    )
    .fetch_all(conn)
    .await?;
    let mut planner_role = PlannerRole::default();
    for row in rows {
        planner_role = PlannerRole {
            has_placements: row.has_placements,
            has_exclusive_units: row.has_exclusive_units,
        };
        state.classes.entry(row.name).or_insert(ClassId(row.class_id));
        let terms = Inventory {
            total: row.total,
            reserved: row.reserved,
            min_unit: row.min_unit,
            max_unit: row.max_unit,
            step_size: row.step_size,
            allocation_ratio: row.allocation_ratio,
        };
        let place = (ProviderId(row.provider_id), ClassId(row.class_id));
        state
            .inventories
            .insert(place, InventoryUsage { terms, used_before: row.used, used: row.used });
    }
    Ok(planner_role)
}

/// Adds the named classes of which no locked provider has inventory.
pub(super) async fn read_classes(
    conn: &mut PgConnection,
    needs: &Needs<'_>,
    classes: &mut HashMap<String, ClassId>,
) -> Result<()> {
    let names: Vec<&str> =
        needs.classes.iter().filter(|name| !classes.contains_key(**name)).copied().collect();
    if names.is_empty() {
        return Ok(());
    }
    classes.extend(resource_classes::ids(conn, &names).await?);
    Ok(())
}
