//! Finds rows of the source that Berth stores differently, or not at all.

use sqlx::PgConnection;

use super::error::Error;
use super::report::{Finding, FindingRow};
use super::staging::shown;

/// The kind of finding for rows without a timestamp, as in `findings.sql`.
pub(super) const WITHOUT_TIME: &str = "times of change that are missing or cannot be read";

/// Messages about rows that make an import impossible.
const FATAL: &str = "
    select format('the UUID of provider %s (%s) is none', p.uuid, p.name)
    from source_resource_providers p where as_uuid(p.uuid) is null
    union all
    select format('the providers %s have the same UUID', string_agg(name, ', ' order by id))
    from found_providers group by uuid having count(*) > 1
    union all
    select format('the providers %s have the same name, %s', string_agg(uuid::text, ', ' order by id), name)
    from found_providers group by name having count(*) > 1
    union all
    select format('the inventory of provider %s and class %s stands twice', provider_id, class_id)
    from found_inventories group by provider_id, class_id having count(*) > 1
    union all
    select format('%s: the rows with id %s have the same name, %s. Rename or delete all but one in the source first',
                  kind, string_agg(id::text, ', ' order by id), shown)
    from (select 'traits' as kind, id, shown from source_traits
          union all select 'resource_classes', id, shown from source_resource_classes) as named
    group by kind, shown having count(*) > 1
    union all
    select format('allocations: what consumer %s has of %s on provider %s adds up to %s, and Berth stores 64 bits. \
                   Correct `used` of these rows in the source first', a.consumer, c.name, p.uuid, a.used)
    from found_allocations a join found_providers p on p.id = a.provider_id join found_classes c on c.id = a.class_id
    where a.used > 9223372036854775807
    union all
    select format('allocations: what all consumers have of %s on provider %s adds up to %s, and Berth stores 64 bits. \
                   Correct `used` of these rows in the source first', c.name, p.uuid, a.used)
    from (select provider_id, class_id, sum(used) as used from found_allocations group by provider_id, class_id
          having sum(used) > 9223372036854775807 and max(used) <= 9223372036854775807) a
    join found_providers p on p.id = a.provider_id join found_classes c on c.id = a.class_id
    order by 1 limit 20";

/// Refuses rows that make an import impossible.
pub(super) async fn refuse_fatal(conn: &mut PgConnection) -> Result<(), Error> {
    let fatal: Vec<String> = sqlx::query_scalar(FATAL).fetch_all(conn).await?;
    if fatal.is_empty() { Ok(()) } else { Err(Error::Refused(shown(&fatal.join("\n")))) }
}

/// All rows that Berth stores differently, or not at all, sorted by kind.
pub(super) async fn all(conn: &mut PgConnection) -> Result<Vec<Finding>, Error> {
    let found: Vec<FindingRow> =
        sqlx::query_as(include_str!("findings.sql")).fetch_all(conn).await?;
    let finding = |(kind, row, done, about): FindingRow| {
        Finding::new((kind, shown(&row), shown(&done), about.as_deref().map(shown)))
    };
    found.into_iter().map(finding).collect()
}
