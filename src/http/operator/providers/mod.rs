//! `/-/v1/providers`: many resource providers with their details, in one snapshot.

mod described;
mod writing;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use futures_util::TryStreamExt;

pub(super) use self::described::{List as DescribedProviders, Provider as DescribedProvider};
use self::writing::{Form, Include, Writing};
use super::context::{Problem, RequestCaller, made_within, microversion};
use crate::fairness::turns::{Requester, Turn};
use crate::http::api::in_turn::turn_within;
use crate::http::api::json::{JSON, LINES};
use crate::http::api::operation::{Parameter, ParameterKind};
use crate::http::api::reply::Reply;
use crate::http::api::streamed::{PART, Parts};
use crate::http::app::App;
use crate::http::placement::accept::Accept;
use crate::http::placement::allocation_candidates::aside;
use crate::http::placement::query::Query;
use crate::http::placement::resource_providers::{listed_by, unknown};
use crate::search::listing::{self, Filter};
use crate::store::snapshot::Snapshot;
use crate::world::{Provider, World};

/// The parameter that selects details.
const INCLUDE: &str = "include";
/// The parameters that select a tree.
const TREE: &str = "tree";
const IN_TREE: &str = "in_tree";
/// The parameters besides the filters.
pub(super) const OWN_QUERY: [Parameter; 2] = [
    Parameter::new(
        INCLUDE,
        ParameterKind::Words(&["inventories", "usages", "traits", "aggregates", "allocations"]),
        "The details to include.",
    ),
    Parameter::new(TREE, ParameterKind::Uuid, "The same as `in_tree`."),
];
/// The parameters that must not be repeated.
const ONCE: [&str; 5] = ["name", "uuid", "resources", TREE, IN_TREE];
/// Number of providers whose allocations are read at once.
const PROVIDERS_AT_ONCE: usize = 500;
/// Number of allocations that are written at once.
const ALLOCATIONS_AT_ONCE: usize = 5000;

/// `GET /-/v1/providers`: takes the filters of `GET /resource_providers`, and the details to
/// include.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Reply, Problem> {
    let version = microversion(&headers)?;
    let form = match Accept::from_headers(&headers).best_of(&[JSON, LINES]) {
        Some(LINES) => Form::Lines,
        Some(_) => Form::Json,
        None => {
            let detail = format!("Only {JSON} and {LINES} are provided.");
            return Err(Problem::new(axum::http::StatusCode::NOT_ACCEPTABLE, detail));
        }
    };
    let query = Query::parse(uri.query().unwrap_or_default())?;
    let include = include(&query)?;
    for name in ONCE {
        query.once(name)?;
    }
    if query.last(TREE).is_some() && query.last(IN_TREE).is_some() {
        return Err(Problem::bad_request(format!("{TREE} and {IN_TREE} are synonyms: use one")));
    }
    let query = query.without(INCLUDE).renamed(TREE, IN_TREE);
    let filter = listed_by(&query, version)?;
    let turns_of = caller.requester();
    let seat = seat(&app, turns_of).await?;
    let most = app.options.stream_timeout;
    let body = made_within(most, |parts| async move {
        let (world, number, snapshot) = if include.allocations || app.store.keeps_events() {
            let snapshot = app.store.snapshot(most).await?;
            (Arc::clone(snapshot.world()), snapshot.number(), Some(snapshot))
        } else {
            (app.store.world().await?, None, None)
        };
        let slots = {
            let world = Arc::clone(&world);
            aside(&app, turns_of, move || slots(&world, &filter)).await??
        };
        let writing = Writing::new(world, slots, number, include, form);
        let work = Work { app, turns_of, parts };
        match snapshot.filter(|_| include.allocations) {
            Some(snapshot) => work.with_allocations(writing, snapshot).await?,
            None => work.alone(writing).await?,
        }
        drop(seat);
        Ok(())
    });
    let media_type = if form == Form::Lines { LINES } else { JSON };
    Ok(Reply::body(body.await?).of_type(media_type).modified(None))
}

/// Returns the details to include.
fn include(query: &Query) -> Result<Include, Problem> {
    let mut include = Include::default();
    let names = query.all(INCLUDE).flat_map(|names| names.split(','));
    for name in names.map(str::trim).filter(|name| !name.is_empty()) {
        match name {
            "inventories" => include.inventories = true,
            "usages" => include.usages = true,
            "traits" => include.traits = true,
            "aggregates" => include.aggregates = true,
            "allocations" => include.allocations = true,
            other => {
                return Err(Problem::bad_request(format!(
                    "include can name inventories, usages, traits, aggregates and allocations, \
                     not {other}"
                )));
            }
        }
    }
    Ok(include)
}

/// Waits for one of the snapshots.
async fn seat(app: &App, turns_of: Requester) -> Result<Turn, Problem> {
    let late = "too many large responses are being sent; retry later";
    turn_within(&app.snapshots, turns_of, app.options.stream_wait, late).await
}

/// Returns the matching providers, ascending by key.
fn slots(world: &World, filter: &Filter) -> Result<Vec<u32>, Problem> {
    let providers = listing::list(world, filter).map_err(unknown)?;
    Ok(providers.iter().map(Provider::slot).collect())
}

/// A response being produced.
struct Work {
    app: Arc<App>,
    turns_of: Requester,
    parts: Parts,
}

impl Work {
    /// Writes and sends providers without allocations.
    async fn alone(&self, mut writing: Writing) -> Result<(), Problem> {
        loop {
            writing = self.write(writing, |writing| writing.write(PART)).await?;
            let is_written = writing.is_written();
            if is_written {
                writing.finish();
            }
            self.parts.send(writing.take()).await?;
            if is_written {
                return Ok(());
            }
        }
    }

    /// Writes and sends providers with their allocations.
    async fn with_allocations(
        &self,
        mut writing: Writing,
        mut snapshot: Snapshot,
    ) -> Result<(), Problem> {
        while !writing.is_written() {
            let providers = writing.following(PROVIDERS_AT_ONCE);
            {
                let rows = snapshot.allocations(&providers).try_chunks(ALLOCATIONS_AT_ONCE);
                let mut rows = std::pin::pin!(rows);
                while let Some(some) = rows.try_next().await.map_err(|failed| failed.1)? {
                    writing = self.write(writing, move |writing| writing.hold(&some)).await?;
                    if writing.len() >= PART {
                        self.parts.send(writing.take()).await?;
                    }
                }
            }
            writing = self.write(writing, move |writing| writing.pass(&providers)).await?;
            if writing.len() >= PART {
                self.parts.send(writing.take()).await?;
            }
        }
        writing.finish();
        Ok(self.parts.send(writing.take()).await?)
    }

    /// Writes on a blocking thread, in a turn.
    async fn write(
        &self,
        mut writing: Writing,
        write: impl FnOnce(&mut Writing) + Send + 'static,
    ) -> Result<Writing, Problem> {
        let work = move || {
            write(&mut writing);
            writing
        };
        Ok(aside(&self.app, self.turns_of, work).await?)
    }
}
