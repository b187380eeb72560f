//! Checks that redundant data agree: `inventories.used` with the sums of allocations, and consumers with
//! their allocations.

use sqlx::PgConnection;

use super::error::{Error, Result};
use crate::model::claim::LockedState;

/// Refuses to judge a state with an allocation from a missing inventory.
pub(super) fn check_held(state: &LockedState) -> Result<()> {
    let Some((consumer, provider, class)) = state.held_from_nothing() else { return Ok(()) };
    let key = format!("{}, {}: consumer {consumer} holds something of it", provider.0, class.0);
    Err(Error::inconsistent("inventories", "provider_id, class_id", key))
}

/// Returns all contradictions, one sentence each. Reads committed state in one statement, so it may run under
/// load.
///
/// # Errors
/// The database is unavailable.
pub async fn faults(conn: &mut PgConnection) -> Result<Vec<String>> {
    let faults = sqlx::query_scalar!(
        r#"with held as (
               select provider_id, class_id, sum(used)::bigint as used
               from allocations group by provider_id, class_id
           )
           select format('provider %s: %s used of %s is recorded, %s is allocated', p.uuid, i.used,
                         c.name, coalesce(h.used, 0)) as "fault!"
           from inventories i
           join providers p on p.id = i.provider_id
           join resource_classes c on c.id = i.class_id
           left join held h on h.provider_id = i.provider_id and h.class_id = i.class_id
           where i.used <> coalesce(h.used, 0)
           union all
           select format('consumer %s: %s of class %s is allocated from provider %s, which has none',
                         coalesce(c.uuid::text, a.consumer_id::text), a.used, a.class_id,
                         a.provider_id)
           from allocations a left join consumers c on c.id = a.consumer_id
           where not exists (select from inventories i where i.provider_id = a.provider_id
                             and i.class_id = a.class_id)
           union all
           select format('consumer with key %s does not exist, but holds something', consumer_id)
           from allocations a
           where not exists (select from consumers c where c.id = a.consumer_id)
           union all
           select format('consumer %s: its project, user or type does not exist', c.uuid)
           from consumers c
           left join projects on projects.id = c.project_id
           left join users on users.id = c.user_id
           left join consumer_types t on t.id = c.consumer_type_id
           where projects.id is null or users.id is null
              or (t.id is null and c.consumer_type_id is not null)
           union all
           select format('consumer %s holds nothing', uuid) from consumers c
           where not exists (select from allocations where consumer_id = c.id)
           union all
           select format('provider %s: its root is not the root of its parent', p.uuid)
           from providers p left join providers parent on parent.id = p.parent_id
           where p.root_id <> coalesce(parent.root_id, p.id)"#
    )
    .fetch_all(conn)
    .await?;
    Ok(faults)
}
