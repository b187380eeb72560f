//! `/allocation_candidates`.
//!
//! Candidates that are found quickly are written at once and sent as a complete response; the rest
//! of a larger response is streamed.

mod described;
mod request;
mod response;
mod stream;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;

pub(in crate::http) use self::described::Candidates;
pub(super) use self::request::LIST_QUERY;
pub(in crate::http) use self::request::{order, request};
use self::response::{Shape, Stopped, Writing};
use self::stream::{Failure, Pace};
use super::extract::RequestCaller;
use super::microversion::{LATEST, Microversion};
use super::problem::Problem;
use super::query::Query;
use super::refused::{EmptyResult, KeptRequest};
use crate::fairness::turns::{Requester, Turn};
use crate::http::api::in_turn::{not_done, turn_within};
use crate::http::api::reply::Reply;
use crate::http::api::streamed::PART;
use crate::http::app::App;
use crate::http::layers::identity::Caller;
use crate::model::{Refusal, traits};
use crate::observe::spans::span;
use crate::search::{self, Request, Unknown};
use crate::world::World;

/// Size that is written at once, in bytes: well under a millisecond of work.
const AT_ONCE: usize = 1024 * 1024;
/// Maximum number of groups whose search starts on the thread of the request. Every group costs a
/// lookup, even if a later one names an unknown class or trait.
const GROUPS_AT_ONCE: usize = 8;
/// Maximum work to explain an empty result in the log, in numbers read: about 100 ms.
const EXPLAINED: usize = 20_000_000;
/// Approximate size of a candidate with its summary, in bytes.
const CANDIDATE: usize = 640;

/// `GET /allocation_candidates`: ways to satisfy a request, with summaries of their providers. A
/// large response is streamed.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    microversion: Microversion,
    RequestCaller(caller): RequestCaller,
    kept: KeptRequest,
    query: Query,
) -> Result<Reply, Problem> {
    let request = request(&query, microversion, &app.options)?;
    let (reply, empty) =
        respond(&app, microversion, &caller, &request).await.inspect_err(|problem| {
            // The query is valid, so it names something that does not exist.
            if problem.status == StatusCode::BAD_REQUEST {
                kept.keep_refused_query(&app, problem);
            }
        })?;
    if let Some(empty) = empty {
        kept.keep_empty_result(&app, empty);
    }
    Ok(reply)
}

/// Returns the response to a request. If there is no candidate, also returns the request and the
/// world that was searched.
pub(in crate::http) async fn respond(
    app: &App,
    microversion: Microversion,
    caller: &Caller,
    request: &Request,
) -> Result<(Reply, Option<EmptyResult>), Problem> {
    let turns_of = caller.requester();
    let pace = Pace::of(app, turns_of);
    let FirstPart { mut writing, mut has_more, mut empty } =
        find_first_part(app, microversion, request, &pace).await?;
    let mut seat = if has_more { app.streams.turn_now(turns_of) } else { None };
    if has_more && seat.is_none() {
        // Release the world while waiting for a seat; the search restarts with the current one.
        drop(writing);
        seat = Some(seat_of(app, turns_of).await?);
        FirstPart { writing, has_more, empty } =
            find_first_part(app, microversion, request, &pace).await?;
    }
    let reply = match seat {
        Some(seat) if has_more => Reply::body(stream::body(writing, pace, seat)),
        _ => Reply::body(writing.take(0).into()),
    };
    Ok((reply.modified(app.now()), empty))
}

/// Runs work on a blocking thread, in a turn of a project.
///
/// # Errors
/// The queue is full.
pub(in crate::http) async fn aside<T: Send + 'static>(
    app: &App,
    turns_of: Requester,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    Pace::of(app, turns_of).aside(work).await.map_err(failed)
}

/// Waits for one of the places for streamed responses.
async fn seat_of(app: &App, turns_of: Requester) -> Result<Turn, Problem> {
    let late = "too many large responses are being sent; retry later, or request fewer with limit";
    turn_within(&app.streams, turns_of, app.options.stream_wait, late).await
}

/// The part of a response that is found quickly.
struct FirstPart {
    writing: Writing,
    /// Whether the response is incomplete.
    has_more: bool,
    /// The request and the world that was searched, if there is no candidate.
    empty: Option<EmptyResult>,
}

/// Finds the part of a response that is found quickly.
async fn find_first_part(
    app: &App,
    microversion: Microversion,
    request: &Request,
    pace: &Pace,
) -> Result<FirstPart, Problem> {
    let mut request = request.clone();
    let world = app.store.world().await?;
    if !app.store.report_only() {
        keep_out(&mut request, &world);
    }
    let starts_slowly =
        request.groups.len() > GROUPS_AT_ONCE || search::starts_slowly(&world, &request);
    let mut writing = if starts_slowly {
        let (request, world) = (request.clone(), Arc::clone(&world));
        pace.aside(move || start(microversion, &request, &world)).await.map_err(failed)?
    } else {
        start(microversion, &request, &world)
    }
    .map_err(unknown)?;
    let stopped = if writing.is_large() { Stopped::Paused } else { writing.write(AT_ONCE) };
    let (writing, has_more) = match stopped {
        Stopped::Done => (writing, false),
        Stopped::Full => (writing, true),
        Stopped::Paused => pace.clone().go_on(writing).await.map_err(failed)?,
    };
    if has_more || writing.candidates() > 0 {
        return Ok(FirstPart { writing, has_more, empty: None });
    }
    let empty = Some(EmptyResult { world: Arc::clone(&world), request: request.clone() });
    if tracing::enabled!(tracing::Level::DEBUG) {
        let why = move || search::funnel::funnel(&world, &request, search::budget(EXPLAINED));
        let why = pace.aside(why).await.map_err(failed)?;
        tracing::debug!("no allocation candidates: {why}");
    }
    Ok(FirstPart { writing, has_more, empty })
}

/// Excludes hosts that a group uses exclusively, unless the request names their trait, which makes
/// it explicit.
pub(in crate::http) fn keep_out(request: &mut Request, world: &World) {
    let kept = world.trait_id(traits::EXCLUSIVE).is_some_and(|id| world.trait_in_use(id));
    let required = request.groups.iter().flat_map(|group| group.required.iter().flatten());
    let mut named = required.chain(&request.root_required);
    if kept && !named.any(|name| name == traits::EXCLUSIVE) {
        request.root_forbidden.push(traits::EXCLUSIVE.to_owned());
    }
}

fn start(
    microversion: Microversion,
    request: &Request,
    world: &Arc<World>,
) -> Result<Writing, Unknown> {
    let _preparing = span!("prepare").entered();
    let search = search::find(Arc::clone(world), request)?;
    let room = request.limit.unwrap_or(usize::MAX).saturating_mul(CANDIDATE).min(AT_ONCE);
    Ok(Writing::new(search, Shape::of(microversion, request, world), room))
}

/// Writes a complete response at the newest microversion, and passes it on part by part. Benchmarks
/// measure the search and the writing without HTTP.
///
/// # Errors
/// A class or trait is unknown.
/// An unknown class or trait.
pub fn write_candidates(
    world: &Arc<World>,
    request: &Request,
    mut take: impl FnMut(Bytes),
) -> Result<(), Unknown> {
    let mut writing = start(LATEST, request, world)?;
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
