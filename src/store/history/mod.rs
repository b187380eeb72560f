//! The history of changes, with their callers and the states before and after. It is written in the transaction of
//! the change, so it has exactly the committed changes.
//!
//! [`reading`] finds the entries about an object, [`retention`] removes old ones. `history_periods` has the times
//! during which changes were recorded: a replica with the option begins a period at its start unless one is open,
//! and a replica without it ends the open one, because its changes are not recorded.

pub mod reading;
mod retention;

use std::collections::BTreeSet;

use futures_util::FutureExt;
use metrics::counter;
use sqlx::PgConnection;
use uuid::Uuid;

use super::described;
use super::effects::{Content, Effect, Kind, ObjectState, Recorder};
use super::error::Result;
use super::primary::Primary;
pub(super) use retention::{Retention, measure};

/// Stores that this replica records changes from now on, or that it does not.
///
/// # Errors
/// The database is unavailable.
pub(super) async fn begin(primary: &Primary, is_on: bool) -> Result<()> {
    primary
        .read(|conn| {
            async move {
                if is_on {
                    let begun = sqlx::query!(
                        "insert into history_periods (began) select clock_timestamp()
                         where not exists (select from history_periods where ended is null)
                         on conflict do nothing"
                    );
                    begun.execute(conn).await
                } else {
                    let ended = sqlx::query!(
                        "update history_periods set ended = clock_timestamp() where ended is null"
                    );
                    ended.execute(conn).await
                }
            }
            .boxed()
        })
        .await?;
    Ok(())
}

/// Returns whether changes are recorded at present.
///
/// # Errors
/// The database is unavailable.
pub(super) async fn is_on(conn: &mut PgConnection) -> Result<bool> {
    let is_on = sqlx::query_scalar!(
        r#"select exists (select from history_periods where ended is null) as "is_on!""#
    );
    Ok(is_on.fetch_one(conn).await?)
}

/// Adds entries for the effects of a transaction, within it.
pub(super) async fn write(conn: &mut PgConnection, effects: &[(Recorder, Effect)]) -> Result<()> {
    if effects.is_empty() {
        return Ok(());
    }
    let mut rows = Rows::default();
    for (recorder, effect) in effects {
        rows.add(recorder, effect);
    }
    // No joins: sessions of the claim writer would make them row by row.
    sqlx::query!(
        r#"with entry as materialized (
             select nextval('history_id') as id, request_id, global_request_id, user_id, project,
                    kind, object, name, generation, before, after, subjects::uuid[] as subjects
             from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
                         $7::text[], $8::bigint[], $9::text[], $10::text[], $11::text[])
                 as e (request_id, global_request_id, user_id, project, kind, object, name,
                       generation, before, after, subjects)
         ), about as (
             insert into history_subjects (subject, entry) select unnest(subjects), id from entry
         )
         insert into history (id, at, request_id, global_request_id, user_id, project, kind,
                              object, name, generation, before, after, subjects)
         select id, (select clock_timestamp()), request_id, global_request_id, user_id, project,
                kind, object, name, generation, before::jsonb, after::jsonb, subjects
         from entry"#,
        &rows.request_id as &[Option<&str>],
        &rows.global_request_id as &[Option<&str>],
        &rows.user as &[Option<&str>],
        &rows.project as &[Option<&str>],
        &rows.kind as &[&str],
        &rows.object as &[&str],
        &rows.name as &[Option<&str>],
        &rows.generation as &[Option<i64>],
        &rows.before as &[Option<String>],
        &rows.after as &[Option<String>],
        &rows.subjects
    )
    .execute(conn)
    .await?;
    counter!("berth_history_entries_total").increment(rows.kind.len() as u64);
    Ok(())
}

/// Entries, column by column.
#[derive(Default)]
struct Rows<'e> {
    request_id: Vec<Option<&'e str>>,
    global_request_id: Vec<Option<&'e str>>,
    user: Vec<Option<&'e str>>,
    project: Vec<Option<&'e str>>,
    kind: Vec<&'static str>,
    object: Vec<&'e str>,
    name: Vec<Option<&'e str>>,
    generation: Vec<Option<i64>>,
    before: Vec<Option<String>>,
    after: Vec<Option<String>>,
    /// Arrays in PostgreSQL's notation.
    subjects: Vec<String>,
}

impl<'e> Rows<'e> {
    fn add(&mut self, recorder: &'e Recorder, effect: &'e Effect) {
        let origin = recorder.origin();
        self.request_id.push(origin.map(|origin| origin.request_id.as_str()));
        self.global_request_id.push(origin.and_then(|it| it.global_request_id.as_deref()));
        self.user.push(origin.and_then(|origin| origin.user.as_deref()));
        self.project.push(origin.and_then(|origin| origin.project.as_deref()));
        self.kind.push(effect.kind.name());
        self.object.push(&effect.id);
        let state = effect.after.as_ref().or(effect.before.as_ref());
        self.name.push(state.and_then(provider_name));
        self.generation.push(state.and_then(|state| state.generation));
        let (before, after) = described::states(effect);
        self.before.push(before.map(|state| state.to_string()));
        self.after.push(after.map(|state| state.to_string()));
        let subjects: Vec<String> = subjects(effect).iter().map(Uuid::to_string).collect();
        self.subjects.push(format!("{{{}}}", subjects.join(",")));
    }
}

fn provider_name(state: &ObjectState) -> Option<&str> {
    match &state.content {
        Content::Provider { name, .. } => Some(name),
        Content::Nothing
        | Content::Named(_)
        | Content::Inventories(_)
        | Content::Names(_)
        | Content::Allocations(_)
        | Content::Described(_)
        | Content::Instance(_) => None,
    }
}

/// Returns the objects that an effect is about: the changed one, and the providers and the instance that it names.
/// Classes and traits have no UUID.
fn subjects(effect: &Effect) -> BTreeSet<Uuid> {
    let mut subjects = BTreeSet::new();
    if !matches!(effect.kind, Kind::Class | Kind::Trait) {
        subjects.extend(Uuid::parse_str(&effect.id).ok());
    }
    for state in [&effect.before, &effect.after].into_iter().flatten() {
        match &state.content {
            Content::Allocations(amounts) => {
                subjects.extend(amounts.keys().map(|(provider, _)| *provider));
            }
            Content::Instance(instance) => {
                subjects.extend(instance.as_deref().and_then(|it| Uuid::parse_str(it).ok()));
            }
            Content::Nothing
            | Content::Named(_)
            | Content::Provider { .. }
            | Content::Inventories(_)
            | Content::Names(_)
            | Content::Described(_) => {}
        }
    }
    subjects
}
