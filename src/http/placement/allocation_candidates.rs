//! `/allocation_candidates`.
//!
//! What is found soon is written on the spot and sent whole; the rest of a larger answer is sent
//! while it is found.

mod request;
mod response;
mod stream;
mod text;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use tracing::Instrument as _;

use self::response::{Shape, Stopped, Writing};
use self::stream::{Failure, PART, Pace, parts};
use super::extract::AskedBy;
use super::microversion::{LATEST, Microversion};
use super::problem::Problem;
use super::query::Query;
use crate::http::api::reply::Reply;
use crate::http::app::App;
use crate::model::Refusal;
use crate::model::traits;
use crate::search::{self, Request, Unknown};
use crate::spans::span;
use crate::turns::{Asker, Turn};
use crate::world::World;

/// Up to this much is written on the spot, in bytes: well under a millisecond's work.
const AT_ONCE: usize = 1024 * 1024;
/// A search for up to so many groups is begun on the spot. Where a name is unknown, each group before it
/// is searched for.
const GROUPS_AT_ONCE: usize = 8;
/// The maximum work to explain in the log why there is no candidate, in numbers read: about 100 ms.
const EXPLAINED: usize = 20_000_000;
/// About as much is written for each candidate, with its summary.
const CANDIDATE: usize = 640;

/// `GET /allocation_candidates`: ways to satisfy a request, with summaries of the providers in
/// them. A large answer is sent while it is found.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    asked: Microversion,
    AskedBy(caller): AskedBy,
    query: Query,
) -> Result<Reply, Problem> {
    let request = request::request(&query, asked, &app.options)?;
    let turns_of = Asker::of(&caller);
    let pace = Pace::of(&app, turns_of);
    let (mut writing, mut goes_on) = begun(&app, asked, &request, &pace).await?;
    let mut seat = if goes_on { app.streams.turn_now(turns_of) } else { None };
    if goes_on && seat.is_none() {
        // Who waits for a seat keeps nothing, and begins anew with the world as it is then.
        drop(writing);
        seat = Some(seat_of(&app, turns_of).await?);
        (writing, goes_on) = begun(&app, asked, &request, &pace).await?;
    }
    let reply = match seat {
        Some(seat) if goes_on => Reply::body(Body::from_stream(parts(writing, pace, seat))),
        _ => Reply::body(writing.take(0).into()),
    };
    Ok(reply.modified(app.now()))
}

/// A seat for an answer that is sent while it is found.
async fn seat_of(app: &App, turns_of: Asker) -> Result<Turn, Problem> {
    let seat = app.streams.turn(turns_of).instrument(span!("queue"));
    match tokio::time::timeout(app.options.stream_wait, seat).await {
        Ok(seat) => seat.map_err(|error| failed(error.into())),
        Err(_) => Err(Problem::not_now(
            "too many large answers are being sent; ask again, or for fewer with limit",
        )),
    }
}

/// What of an answer is found soon, and whether it goes on.
async fn begun(
    app: &App,
    asked: Microversion,
    request: &Request,
    pace: &Pace,
) -> Result<(Writing, bool), Problem> {
    let mut request = request.clone();
    let world = app.store.world().await?;
    if !app.store.report_only() {
        keep_out(&mut request, &world);
    }
    let mut writing = if request.groups.len() > GROUPS_AT_ONCE {
        let (request, world) = (request.clone(), Arc::clone(&world));
        pace.aside(move || begin(asked, &request, &world)).await.map_err(failed)?
    } else {
        begin(asked, &request, &world)
    }
    .map_err(unknown)?;
    let stopped = if writing.is_large() { Stopped::Paused } else { writing.write(AT_ONCE) };
    let (writing, goes_on) = match stopped {
        Stopped::Done => (writing, false),
        Stopped::Full => (writing, true),
        Stopped::Paused => pace.clone().go_on(writing).await.map_err(failed)?,
    };
    if !goes_on && writing.candidates() == 0 && tracing::enabled!(tracing::Level::DEBUG) {
        let mut work = 0;
        let is_enough = move |more: usize| {
            work += more;
            work > EXPLAINED
        };
        let why = move || search::funnel::funnel(&world, &request, is_enough);
        let why = pace.aside(why).await.map_err(failed)?;
        tracing::debug!("no allocation candidates: {why}");
    }
    Ok((writing, goes_on))
}

/// Leaves hosts out that a group has to itself, unless the request names their trait: then it is
/// known what is asked for.
fn keep_out(request: &mut Request, world: &World) {
    let kept = world.trait_id(traits::EXCLUSIVE).is_some_and(|id| world.trait_in_use(id));
    let required = request.groups.iter().flat_map(|group| group.required.iter().flatten());
    let mut named = required.chain(&request.root_required);
    if kept && !named.any(|name| name == traits::EXCLUSIVE) {
        request.root_forbidden.push(traits::EXCLUSIVE.to_owned());
    }
}

/// An answer of which nothing is written yet.
fn begin(asked: Microversion, request: &Request, world: &Arc<World>) -> Result<Writing, Unknown> {
    let _preparing = span!("prepare").entered();
    let search = search::find(Arc::clone(world), request)?;
    let room = request.limit.unwrap_or(usize::MAX).saturating_mul(CANDIDATE).min(AT_ONCE);
    Ok(Writing::new(search, Shape::of(asked, request, world), room))
}

/// Writes the whole answer to a request as it is at the newest microversion, and hands over the
/// bytes part by part: the way from a world to a body without HTTP, to be measured.
///
/// # Errors
/// An unknown class or trait.
pub fn write_candidates(
    world: &Arc<World>,
    request: &Request,
    mut take: impl FnMut(Bytes),
) -> Result<(), Unknown> {
    let mut writing = begin(LATEST, request, world)?;
    let mut enough = AT_ONCE;
    loop {
        let stopped = writing.write(enough);
        if stopped != Stopped::Paused {
            take(writing.take(PART));
            enough = PART;
        }
        if stopped == Stopped::Done {
            return Ok(());
        }
    }
}

fn failed(failure: Failure) -> Problem {
    match failure {
        Failure::SearchTimeout(_) | Failure::QueueFull(_) => Problem::not_now(failure.to_string()),
        // It goes on here, where panics are caught.
        Failure::Panic(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Problem::internal(error.to_string()),
        },
    }
}

fn unknown(name: Unknown) -> Problem {
    Problem::bad_request(match name {
        Unknown::Class(class) => format!(
            "Invalid resource class in resources parameter: {}",
            Refusal::ClassNotFound(class)
        ),
        Unknown::Traits(traits) | Unknown::RootTraits(traits) => {
            Refusal::TraitsNotFound(traits.join(", ")).to_string()
        }
    })
}
