//! The standard resource classes and traits, kept in the database beside the custom ones.

use sqlx::PgConnection;

use super::error::Result;

/// The first key of custom classes and traits.
pub(super) const CUSTOM_FROM: i32 = 10_000;

const RESOURCE_CLASSES: &str = include_str!("resource_classes.txt");
const TRAITS: &str = include_str!("traits.txt");

/// Returns the standard resource classes in the order of os-resource-classes.
pub fn resource_classes() -> impl Iterator<Item = &'static str> {
    names(RESOURCE_CLASSES)
}

/// Returns the standard traits in the order of os-traits.
pub fn traits() -> impl Iterator<Item = &'static str> {
    names(TRAITS)
}

fn names(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Adds names of the lists that the database lacks. A class takes its position as its key; a newer list only
/// appends, so keys are stable. Traits take the next free key, because new ones appear in the middle of their
/// list.
pub(super) async fn sync(conn: &mut PgConnection) -> Result<()> {
    sqlx::query!("select pg_advisory_xact_lock(hashtext('berth.standard'))")
        .execute(&mut *conn)
        .await?;
    let classes: Vec<&str> = resource_classes().collect();
    let traits: Vec<&str> = traits().collect();
    let added = sqlx::query!(
        "with added_classes as (
             insert into resource_classes (id, name)
             select position - 1, name
             from unnest($1::text[]) with ordinality as listed (name, position)
             where not exists (select from resource_classes c where c.name = listed.name)
             returning id
         ), added_traits as (
             insert into traits (id, name)
             select (select coalesce(max(id), -1) from traits where id < $3)
                        + row_number() over (order by position), name
             from unnest($2::text[]) with ordinality as listed (name, position)
             where not exists (select from traits t where t.name = listed.name)
             returning id
         )
         insert into change_log (providers)
         select array[0] where exists (select from added_classes) or exists (select from added_traits)",
        &classes as &[&str],
        &traits as &[&str],
        CUSTOM_FROM
    )
    .execute(conn)
    .await?;
    if added.rows_affected() > 0 {
        tracing::info!("added standard resource classes and traits");
    }
    Ok(())
}
