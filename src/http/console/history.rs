//! The section of a page with changes from the history.

use std::collections::BTreeMap;

use axum::http::Uri;
use uuid::Uuid;

use super::context::Problem;
use crate::auth::policy::operator as rule;
use crate::http::app::App;
use crate::http::layers::identity::Caller;
use crate::http::operator::requests::query_of;
use crate::store::history::entry::HistoryEntry;
use crate::store::history::summary::summary;
use crate::world::World;

/// Maximum number of transactions on a page.
const TRANSACTIONS_MAX: u16 = 20;
/// Maximum number of parts of the history that are searched for older changes, until one has a change.
const PARTS_MAX: usize = 10;
/// Maximum number of objects whose changes are searched.
const OBJECTS_MAX: usize = 10;

/// Changes on a page.
pub(super) enum HistorySection {
    /// The caller may not see them.
    Hidden,
    /// This replica does not record them.
    NotRecorded,
    Shown {
        rows: Vec<ChangeRow>,
        /// The row of the history before which older changes are.
        older: Option<i64>,
        /// Whether later changes were left out.
        is_later_left_out: bool,
    },
}

/// A change.
pub(super) struct ChangeRow {
    pub(super) at: String,
    pub(super) kind: String,
    /// The name of the changed provider, or the identity of another object.
    pub(super) object: String,
    /// The path of the object's page below that of the console; `None`: it has no page.
    pub(super) page: Option<String>,
    pub(super) summary: String,
    pub(super) user: Option<String>,
}

/// Reads the latest changes, or those before the row `before` of the query. Without objects, the changes of all
/// objects are read, otherwise those of the first few.
pub(super) async fn read(
    app: &App,
    caller: &Caller,
    objects: &[Uuid],
    uri: &Uri,
) -> Result<HistorySection, Problem> {
    if app.policy.check(caller, rule::EVENTS, None).is_err() {
        return Ok(HistorySection::Hidden);
    }
    if !app.store.keeps_history() {
        return Ok(HistorySection::NotRecorded);
    }
    let before = query_of(uri)?.number("before", i64::MAX, 1..=i64::MAX)?;
    let objects = objects.get(..OBJECTS_MAX).unwrap_or(objects);
    let mut part = app.store.history(objects, before, TRANSACTIONS_MAX).await?;
    let is_later_left_out = before < i64::MAX;
    let parts = if is_later_left_out { PARTS_MAX } else { 1 };
    for _ in 1..parts {
        let Some(rest) = part.rest.filter(|_| part.entries.is_empty()) else { break };
        part = app.store.history(objects, rest, TRANSACTIONS_MAX).await?;
    }
    let world = app.store.known_world();
    let rows = part.entries.into_iter().map(|entry| row(&world, entry)).collect();
    Ok(HistorySection::Shown { rows, older: part.rest, is_later_left_out })
}

impl HistorySection {
    /// Returns whether there are changes, or may be in a part that is not shown.
    pub(super) fn may_have_changes(&self) -> bool {
        matches!(self, Self::Shown { rows, older, is_later_left_out }
            if !rows.is_empty() || older.is_some() || *is_later_left_out)
    }
}

fn row(world: &World, entry: HistoryEntry) -> ChangeRow {
    let name = |uuid: Uuid| world.provider(uuid).map(|it| it.name().to_owned());
    let names: BTreeMap<Uuid, String> =
        entry.subjects.iter().filter_map(|uuid| Some((*uuid, name(*uuid)?))).collect();
    let summary = summary(&entry, &names);
    let present = Uuid::parse_str(&entry.object).ok().and_then(name);
    let (object, page) = match (present, entry.name) {
        (Some(name), _) => (name, Some(format!("/providers/{}", entry.object))),
        (None, Some(name)) => (name, None),
        (None, None) if entry.kind == "allocations" => {
            let page = format!("/consumers/{}", entry.object);
            (entry.object, Some(page))
        }
        (None, None) => (entry.object, None),
    };
    ChangeRow {
        at: entry.at,
        kind: entry.kind.replace('_', " "),
        object,
        page,
        summary,
        user: entry.user,
    }
}
