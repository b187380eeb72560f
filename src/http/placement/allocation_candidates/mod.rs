//! `/allocation_candidates`.
//!
//! What is found soon is written on the spot and sent whole; the rest of a larger answer is sent
//! while it is found.

mod request;
mod response;
mod stream;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;

pub(in crate::http) use self::request::{order, request};
use self::response::{Shape, Stopped, Writing};
use self::stream::{Failure, Pace};
use super::extract::AskedBy;
use super::microversion::{LATEST, Microversion};
use super::problem::Problem;
use super::query::Query;
use super::refused::{KeptRequest, Nothing};
use crate::fairness::turns::{Asker, Turn};
use crate::http::api::in_turn::{not_done, turn_within};
use crate::http::api::reply::Reply;
use crate::http::api::streamed::PART;
use crate::http::app::App;
use crate::http::layers::identity::Caller;
use crate::model::Refusal;
use crate::model::traits;
use crate::observe::spans::span;
use crate::search::{self, Request, Unknown};
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
    kept: KeptRequest,
    query: Query,
) -> Result<Reply, Problem> {
    let request = request(&query, asked, &app.options)?;
    let (reply, nothing) = answer(&app, asked, &caller, &request).await.inspect_err(|problem| {
        // The query was understood, so it names something that does not exist.
        if problem.status == StatusCode::BAD_REQUEST {
            kept.refused_query(&app, problem);
        }
    })?;
    if let Some(nothing) = nothing {
        kept.found_nothing(&app, nothing);
    }
    Ok(reply)
}

/// The answer to a request. If there is no candidate: also what was searched for, and where.
pub(in crate::http) async fn answer(
    app: &App,
    asked: Microversion,
    caller: &Caller,
    request: &Request,
) -> Result<(Reply, Option<Nothing>), Problem> {
    let turns_of = caller.asker();
    let pace = Pace::of(app, turns_of);
    let Begun { mut writing, mut goes_on, mut nothing } = begun(app, asked, request, &pace).await?;
    let mut seat = if goes_on { app.streams.turn_now(turns_of) } else { None };
    if goes_on && seat.is_none() {
        // Who waits for a seat keeps nothing, and begins anew with the world as it is then.
        drop(writing);
        seat = Some(seat_of(app, turns_of).await?);
        Begun { writing, goes_on, nothing } = begun(app, asked, request, &pace).await?;
    }
    let reply = match seat {
        Some(seat) if goes_on => Reply::body(stream::body(writing, pace, seat)),
        _ => Reply::body(writing.take(0).into()),
    };
    Ok((reply.modified(app.now()), nothing))
}

/// Does something beside the threads that serve requests, in a turn of a project.
///
/// # Errors
/// Too many others wait.
pub(in crate::http) async fn aside<T: Send + 'static>(
    app: &App,
    turns_of: Asker,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    Pace::of(app, turns_of).aside(work).await.map_err(failed)
}

/// A seat for an answer that is sent while it is found.
async fn seat_of(app: &App, turns_of: Asker) -> Result<Turn, Problem> {
    let late = "too many large answers are being sent; ask again, or for fewer with limit";
    turn_within(&app.streams, turns_of, app.options.stream_wait, late).await
}

/// What of an answer is found soon.
struct Begun {
    writing: Writing,
    /// Whether the answer goes on.
    goes_on: bool,
    /// If there is no candidate: what was searched for, and where.
    nothing: Option<Nothing>,
}

/// Finds what of an answer is found soon.
async fn begun(
    app: &App,
    asked: Microversion,
    request: &Request,
    pace: &Pace,
) -> Result<Begun, Problem> {
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
    if goes_on || writing.candidates() > 0 {
        return Ok(Begun { writing, goes_on, nothing: None });
    }
    let nothing = Some(Nothing { world: Arc::clone(&world), request: request.clone() });
    if tracing::enabled!(tracing::Level::DEBUG) {
        let why = move || search::funnel::funnel(&world, &request, search::budget(EXPLAINED));
        let why = pace.aside(why).await.map_err(failed)?;
        tracing::debug!("no allocation candidates: {why}");
    }
    Ok(Begun { writing, goes_on, nothing })
}

/// Leaves hosts out that a group has to itself, unless the request names their trait: then it is
/// known what is asked for.
pub(in crate::http) fn keep_out(request: &mut Request, world: &World) {
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
        Failure::Panic(error) => not_done(error),
    }
}

pub(in crate::http) fn unknown(name: Unknown) -> Problem {
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
