//! Looks for rows of the source that Berth stores differently, or not at all.

use sqlx::PgConnection;

use super::Error;
use super::report::Finding;

/// Rows without which nothing can be brought over: sentences.
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
    order by 1 limit 20";

/// Refuses rows that cannot be brought over at all.
pub(super) async fn refuse_fatal(conn: &mut PgConnection) -> Result<(), Error> {
    let fatal: Vec<String> = sqlx::query_scalar(FATAL).fetch_all(conn).await?;
    if fatal.is_empty() { Ok(()) } else { Err(Error::Refused(fatal.join("\n"))) }
}

/// All rows that Berth stores differently, or not at all, sorted by kind.
pub(super) async fn all(conn: &mut PgConnection) -> Result<Vec<Finding>, Error> {
    Ok(sqlx::query_as(include_str!("findings.sql")).fetch_all(conn).await?)
}
