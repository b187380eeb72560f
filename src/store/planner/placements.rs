//! The rows of placements and of the groups that their servers are in. Each table takes a fixed number of
//! statements, however many placements a plan has.
//!
//! No two placements of a project have the same instance: neither its resource id, nor the consumer that
//! holds the capacity, nor the consumer that is to take it over.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::model::Refusal;
use crate::planner::booking::PlacementWrite;
use crate::planner::plan::Placement;
use crate::store::error::{Error, Result, refuse_on};
use crate::store::tx::Tx;

/// Inserts new placements. An [`update`] sets their tickets, if the instances are still to come.
///
/// # Errors
/// `ResourceTaken`, for the first placement whose instance has another one; `PlanChanged` if a group is
/// gone.
pub(super) async fn insert(tx: &mut Tx<'_>, placements: &[PlacementWrite]) -> Result<()> {
    let Some(PlacementWrite { new: Placement { plan, project, .. }, .. }) = placements.first()
    else {
        return Ok(());
    };
    let rows = Columns::of(placements);
    let inserted = sqlx::query_scalar!(
        "insert into placements (id, plan_id, position, orchestration_id, orchestration_key, name,
                                 resource_id, resource_key, reserved, consumer, metadata, project,
                                 planned_on)
         select id, $1::uuid, position, orchestration_id, orchestration_key, name,
                resource_id, resource_key, reserved, consumer, metadata, $2::text, planned_on
         from unnest($3::uuid[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::text[],
                     $9::text[], $10::boolean[], $11::uuid[], $12::text[], $13::bigint[])
              with ordinality
              as new (id, position, orchestration_id, orchestration_key, name, resource_id,
                      resource_key, reserved, consumer, metadata, planned_on, nth)
         order by nth
         on conflict do nothing returning id",
        plan,
        project,
        &rows.id,
        &rows.position,
        &rows.orchestration_id as &[&str],
        &rows.orchestration_key as &[&str],
        &rows.name as &[&str],
        &rows.resource_id as &[Option<&str>],
        &rows.resource_key as &[Option<&str>],
        &rows.reserved as &[Option<bool>],
        &rows.consumer,
        &rows.metadata as &[&str],
        &rows.planned_on as &[Option<i64>]
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let inserted: HashSet<Uuid> = inserted.into_iter().collect();
    if let Some(refused) = placements.iter().find(|it| !inserted.contains(&it.new.id)) {
        return Err(taken(refused));
    }
    join(tx, placements).await
}

/// Locks placements that change or are removed, and all of a deleted plan, in the order in which arriving
/// instances lock them.
///
/// # Errors
/// `PlanChanged` if an instance came or went since a placement was read.
pub(super) async fn lock(
    tx: &mut Tx<'_>,
    change: &[PlacementWrite],
    removed: &[Uuid],
    deleted_plan: Option<Uuid>,
) -> Result<()> {
    let ids: Vec<Uuid> = change.iter().map(|it| it.new.id).chain(removed.iter().copied()).collect();
    if ids.is_empty() && deleted_plan.is_none() {
        return Ok(());
    }
    let rows = sqlx::query!(
        "select id, consumer, ticket from placements where id = any($1) or plan_id = $2
         order by id for update",
        &ids,
        deleted_plan
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let found: HashMap<Uuid, (Uuid, Option<Uuid>)> =
        rows.into_iter().map(|row| (row.id, (row.consumer, row.ticket))).collect();
    let is_as_seen =
        |it: &PlacementWrite| it.seen.is_none() || it.seen.as_ref() == found.get(&it.new.id);
    if change.iter().all(is_as_seen) { Ok(()) } else { Err(Refusal::PlanChanged.into()) }
}

/// Writes placements that change. They have been [locked](lock).
///
/// # Errors
/// `ResourceTaken`, for the first placement whose instance has another one; `PlanChanged` if a group is
/// gone.
pub(super) async fn update(tx: &mut Tx<'_>, placements: &[PlacementWrite]) -> Result<()> {
    if placements.is_empty() {
        return Ok(());
    }
    let rows = Columns::of(placements);
    refuse_taken(tx, placements, &rows).await?;
    // A unique key is checked row by row, so an instance is taken from one placement before it is given
    // to another.
    sqlx::query!(
        "update placements p set consumer = p.id, ticket = null, resource_key = null
         from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[])
              as new (id, consumer, ticket, resource_key)
         where p.id = new.id and (p.consumer, p.ticket, p.resource_key)
               is distinct from (new.consumer, new.ticket, new.resource_key)",
        &rows.id,
        &rows.consumer,
        &rows.ticket as &[Option<Uuid>],
        &rows.resource_key as &[Option<&str>]
    )
    .execute(&mut *tx.conn)
    .await?;
    let written = sqlx::query!(
        "update placements p set position = new.position, name = new.name,
                resource_id = new.resource_id, resource_key = new.resource_key,
                reserved = new.reserved, consumer = new.consumer, ticket = new.ticket,
                metadata = new.metadata, leaving = new.leaving, planned_on = new.planned_on,
                expired_at = null
         from unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::boolean[],
                     $7::uuid[], $8::uuid[], $9::text[], $10::boolean[], $11::bigint[])
              as new (id, position, name, resource_id, resource_key, reserved, consumer, ticket,
                      metadata, leaving, planned_on)
         where p.id = new.id",
        &rows.id,
        &rows.position,
        &rows.name as &[&str],
        &rows.resource_id as &[Option<&str>],
        &rows.resource_key as &[Option<&str>],
        &rows.reserved as &[Option<bool>],
        &rows.consumer,
        &rows.ticket as &[Option<Uuid>],
        &rows.metadata as &[&str],
        &rows.leaving,
        &rows.planned_on as &[Option<i64>]
    )
    .execute(&mut *tx.conn)
    .await?;
    if usize::try_from(written.rows_affected()) != Ok(placements.len()) {
        return Err(Refusal::PlanChanged.into());
    }
    sqlx::query!("delete from placement_groups where placement_id = any($1)", &rows.id)
        .execute(&mut *tx.conn)
        .await?;
    join(tx, placements).await
}

/// Refuses the first placement whose instance has another placement of the project.
async fn refuse_taken(
    tx: &mut Tx<'_>,
    placements: &[PlacementWrite],
    rows: &Columns<'_>,
) -> Result<()> {
    let Some(PlacementWrite { new: Placement { plan, project, .. }, .. }) = placements.first()
    else {
        return Ok(());
    };
    let stored = sqlx::query!(
        "select id, consumer, ticket, resource_key, leaving from placements
         where project = $2 and (consumer = any($3) or consumer = any($4) or ticket = any($4)
             or resource_key = any($5) and (plan_id = $1
                or resource_key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'))",
        plan,
        project,
        &rows.consumer,
        &rows.ticket as &[Option<Uuid>],
        &rows.resource_key as &[Option<&str>]
    )
    .fetch_all(&mut *tx.conn)
    .await?;
    let stored = stored.iter().map(|row| {
        let instance = row.resource_key.as_deref().filter(|_| !row.leaving);
        (row.id, InstanceKeys { consumer: row.consumer, ticket: row.ticket, instance })
    });
    let new = placements.iter().map(|PlacementWrite { new: it, .. }| {
        let instance = it.resource_key.as_deref().filter(|_| !it.leaving);
        (it.id, InstanceKeys { consumer: it.consumer, ticket: it.ticket, instance })
    });
    match first_taken(stored, new).and_then(|nth| placements.get(nth)) {
        Some(placement) => Err(taken(placement)),
        None => Ok(()),
    }
}

/// Keys that no two placements of a project may share.
#[derive(Clone, Copy, Debug)]
struct InstanceKeys<'k> {
    /// The consumer that holds the capacity.
    consumer: Uuid,
    /// The consumer that is to take it over.
    ticket: Option<Uuid>,
    /// The id of the instance, if the placement is part of its plan.
    instance: Option<&'k str>,
}

/// One of these keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum InstanceKey<'k> {
    Consumer(Uuid),
    Ticket(Uuid),
    Instance(&'k str),
}

impl<'k> InstanceKeys<'k> {
    fn each(self) -> impl Iterator<Item = InstanceKey<'k>> {
        [
            Some(InstanceKey::Consumer(self.consumer)),
            self.ticket.map(InstanceKey::Ticket),
            self.instance.map(InstanceKey::Instance),
        ]
        .into_iter()
        .flatten()
    }
}

/// Returns the position of the first new row that, when rows are replaced one after the other, has a key of
/// another row or a ticket for a consumer that holds the capacity of another row.
fn first_taken<'k>(
    stored: impl Iterator<Item = (Uuid, InstanceKeys<'k>)>,
    mut new: impl Iterator<Item = (Uuid, InstanceKeys<'k>)>,
) -> Option<usize> {
    let mut keys: HashMap<Uuid, InstanceKeys<'k>> = HashMap::new();
    let mut owners: HashMap<InstanceKey<'k>, Uuid> = HashMap::new();
    for (id, row) in stored {
        keys.insert(id, row);
        owners.extend(row.each().map(|key| (key, id)));
    }
    new.position(|(id, row)| {
        let must_be_free = row.each().chain(row.ticket.map(InstanceKey::Consumer));
        let is_taken =
            must_be_free.into_iter().any(|key| owners.get(&key).is_some_and(|it| *it != id));
        for key in keys.insert(id, row).into_iter().flat_map(InstanceKeys::each) {
            owners.remove(&key);
        }
        owners.extend(row.each().map(|key| (key, id)));
        is_taken
    })
}

/// Returns the refusal of a placement whose instance has another one. Only placements with a resource id can collide.
fn taken(placement: &PlacementWrite) -> Error {
    match &placement.new.resource_id {
        Some(id) => Refusal::ResourceTaken(id.clone()).into(),
        None => Error::inconsistent("placements", "resource_id", placement.new.id),
    }
}

/// Writes the groups that servers are in.
async fn join(tx: &mut Tx<'_>, placements: &[PlacementWrite]) -> Result<()> {
    let members = placements.iter().map(|it| &it.new);
    let members = members.flat_map(|it| it.groups.iter().map(|group| (it.id, *group)));
    let (ids, groups): (Vec<Uuid>, Vec<Uuid>) = members.unzip();
    sqlx::query!(
        "insert into placement_groups (placement_id, group_id)
         select * from unnest($1::uuid[], $2::uuid[])",
        &ids,
        &groups
    )
    .execute(&mut *tx.conn)
    .await
    .map_err(|error| {
        refuse_on(error, [("placement_groups_group_id_fkey", Refusal::PlanChanged)])
    })?;
    Ok(())
}

/// Placements, column by column.
struct Columns<'p> {
    id: Vec<Uuid>,
    position: Vec<i32>,
    orchestration_id: Vec<&'p str>,
    orchestration_key: Vec<&'p str>,
    name: Vec<&'p str>,
    resource_id: Vec<Option<&'p str>>,
    resource_key: Vec<Option<&'p str>>,
    reserved: Vec<Option<bool>>,
    consumer: Vec<Uuid>,
    ticket: Vec<Option<Uuid>>,
    metadata: Vec<&'p str>,
    leaving: Vec<bool>,
    planned_on: Vec<Option<i64>>,
}

impl<'p> Columns<'p> {
    fn of(placements: &'p [PlacementWrite]) -> Self {
        fn column<'p, T>(
            placements: &'p [PlacementWrite],
            value: impl Fn(&'p Placement) -> T,
        ) -> Vec<T> {
            placements.iter().map(|it| value(&it.new)).collect()
        }
        Self {
            id: column(placements, |it| it.id),
            position: column(placements, |it| it.position),
            orchestration_id: column(placements, |it| it.orchestration_id.as_str()),
            orchestration_key: column(placements, |it| it.orchestration_key.as_str()),
            name: column(placements, |it| it.name.as_str()),
            resource_id: column(placements, |it| it.resource_id.as_deref()),
            resource_key: column(placements, |it| it.resource_key.as_deref()),
            reserved: column(placements, |it| it.reserved),
            consumer: column(placements, |it| it.consumer),
            ticket: column(placements, |it| it.ticket),
            metadata: column(placements, |it| it.metadata.as_str()),
            leaving: column(placements, |it| it.leaving),
            planned_on: column(placements, |it| it.planned_on.map(|root| root.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{InstanceKeys, first_taken};

    /// Makes a row: its id, its consumer, its ticket and its instance, which are 0 if there is none.
    fn row(id: u128, consumer: u128, ticket: u128, instance: &str) -> (Uuid, InstanceKeys<'_>) {
        let ticket = Some(ticket).filter(|it| *it > 0).map(Uuid::from_u128);
        let instance = Some(instance).filter(|it| !it.is_empty());
        (
            Uuid::from_u128(id),
            InstanceKeys { consumer: Uuid::from_u128(consumer), ticket, instance },
        )
    }

    #[test]
    fn no_instance_has_two_placements() {
        for (stored, new, expected) in [
            (vec![], vec![row(1, 1, 9, "i"), row(2, 2, 8, "j")], None),
            (vec![], vec![row(1, 1, 9, "i"), row(2, 2, 8, "i")], Some(1)),
            (vec![], vec![row(1, 1, 9, ""), row(2, 2, 9, "")], Some(1)),
            (vec![row(3, 9, 0, "")], vec![row(1, 1, 0, ""), row(2, 2, 9, "")], Some(1)),
            (vec![row(3, 3, 9, "")], vec![row(1, 1, 9, "")], Some(0)),
            // A placement stays as it is.
            (vec![row(1, 9, 0, "i")], vec![row(1, 9, 0, "i")], None),
            // The first gives up the key that the second takes; in the other order it would not.
            (vec![row(1, 1, 9, "i")], vec![row(1, 1, 0, ""), row(2, 2, 9, "i")], None),
            (vec![row(1, 1, 9, "i")], vec![row(2, 2, 9, "i"), row(1, 1, 0, "")], Some(0)),
        ] {
            assert_eq!(
                first_taken(stored.into_iter(), new.clone().into_iter()),
                expected,
                "{new:?}"
            );
        }
    }
}
