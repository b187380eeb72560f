//! Describes the changes of a transaction.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::PgConnection;

use super::event::{
    Change, ConsumerState, Inventory, NotedChanges, NotedConsumer, ProviderAllocations,
    ProviderState,
};
use crate::store::effects::Recorder;
use crate::store::error::{Error, Result};
use crate::store::owners::OwnerNames;

/// Returns the changes, each with its recorder if that is not the transaction's. In their order, the last one with
/// a provider's generation has the right one.
pub(super) async fn changes(
    conn: &mut PgConnection,
    noted: NotedChanges,
) -> Result<Vec<(Option<Recorder>, Change)>> {
    let NotedChanges { providers, gone, consumers, mut owner_names, names } = noted;
    let mut changes: Vec<(Option<Recorder>, Change)> =
        names.into_iter().map(|name| (None, name)).collect();
    owner_names.complete(conn, consumers.iter().map(|(_, consumer)| consumer.owner)).await?;
    for (recorder, consumer) in consumers {
        changes.push((Some(recorder), Change::Consumer(named(consumer, &owner_names)?)));
    }
    if !providers.is_empty() {
        let states = states(conn, &providers).await?;
        changes.extend(
            states
                .into_iter()
                .map(|it| (None, Change::Provider { uuid: it.uuid, provider: Some(it) })),
        );
    }
    changes.extend(gone.into_iter().map(|uuid| (None, Change::Provider { uuid, provider: None })));
    Ok(changes)
}

fn named(consumer: NotedConsumer, names: &OwnerNames) -> Result<ConsumerState> {
    let NotedConsumer { uuid, generation, owner, allocations, providers } = consumer;
    let (project, user, consumer_type) = names.of(owner).ok_or_else(|| {
        Error::inconsistent(
            "consumers",
            "project_id",
            format!("{uuid}: the name of {owner:?} is missing"),
        )
    })?;
    let mut left = providers;
    let allocations = allocations.into_iter().filter_map(|(provider, resources)| {
        let generation = left.remove(&provider)?;
        Some((provider, ProviderAllocations { generation, resources }))
    });
    Ok(ConsumerState {
        uuid,
        project_id: project,
        user_id: user,
        consumer_type: consumer_type.unwrap_or_else(|| "unknown".to_owned()),
        consumer_generation: generation,
        allocations: allocations.collect(),
        left,
    })
}

/// Reads the present states of those providers that exist, ascending by key.
async fn states(conn: &mut PgConnection, keys: &BTreeSet<i64>) -> Result<Vec<ProviderState>> {
    let keys: Vec<i64> = keys.iter().copied().collect();
    let rows = sqlx::query!(
        r#"select p.uuid, p.name, p.generation, parent.uuid as "parent?", root.uuid as root,
                  array(select t.name from provider_traits pt join traits t on t.id = pt.trait_id
                        where pt.provider_id = p.id order by t.id) as "traits!",
                  array(select case when a.spelling = '' then a.aggregate::text else a.spelling end
                        from provider_aggregates a where a.provider_id = p.id
                        order by a.aggregate, a.spelling) as "aggregates!",
                  c.name as "class?", i.total as "total?", i.reserved as "reserved?",
                  i.min_unit as "min_unit?", i.max_unit as "max_unit?",
                  i.step_size as "step_size?", i.allocation_ratio as "allocation_ratio?"
           from providers p
           join providers root on root.id = p.root_id
           left join providers parent on parent.id = p.parent_id
           left join inventories i on i.provider_id = p.id
           left join resource_classes c on c.id = i.class_id
           where p.id = any($1)
           order by p.id, i.class_id"#,
        &keys
    )
    .fetch_all(conn)
    .await?;
    let mut states: Vec<ProviderState> = Vec::new();
    for row in rows {
        let inventory = || {
            let terms = Inventory {
                total: row.total?,
                reserved: row.reserved?,
                min_unit: row.min_unit?,
                max_unit: row.max_unit?,
                step_size: row.step_size?,
                allocation_ratio: row.allocation_ratio?,
            };
            Some((row.class.clone()?, terms))
        };
        let inventory = inventory();
        if states.last().is_none_or(|last| last.uuid != row.uuid) {
            states.push(ProviderState {
                uuid: row.uuid,
                name: row.name,
                generation: row.generation,
                parent_provider_uuid: row.parent,
                root_provider_uuid: row.root,
                inventories: BTreeMap::new(),
                traits: row.traits,
                aggregates: row.aggregates,
            });
        }
        if let Some(state) = states.last_mut() {
            state.inventories.extend(inventory);
        }
    }
    Ok(states)
}
