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

use self::response::{Shape, Stopped, Writing};
use self::stream::{Failure, PART, Pace};
use super::call::Call;
use super::microversion::{LATEST, Microversion};
use super::problem::Problem;
use super::reply::Reply;
use crate::model::Refusal;
use crate::model::exclusive::EXCLUSIVE_TRAIT;
use crate::search::{self, Request, Unknown};
use crate::world::World;

/// Up to this much is written on the spot, in bytes: well under a millisecond's work.
const AT_ONCE: usize = 1024 * 1024;
/// About as much is written for each candidate, with its summary.
const CANDIDATE: usize = 640;

/// `GET /allocation_candidates`
pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    let mut request = request::request(&call.query()?, call.asked, &call.app.options)?;
    let world = call.app.store.world().await?;
    if !call.app.options.planner.report_only {
        keep_out(&mut request, &world);
    }
    let mut writing = begin(call.asked, &request, &world).map_err(unknown)?;
    let pace = Pace::of(&call.app);
    let goes_on;
    (writing, goes_on) = match writing.write(AT_ONCE) {
        Stopped::Done => (writing, false),
        Stopped::Full => (writing, true),
        Stopped::Paused => pace.clone().go_on(writing).await.map_err(failed)?,
    };
    let reply = if goes_on {
        Reply::body(Body::from_stream(stream::parts(writing, pace)))
    } else {
        if writing.candidates() == 0 {
            tell_why(&world, &request);
        }
        Reply::bytes(writing.take(0))
    };
    Ok(reply.modified(call.now()))
}

/// Leaves hosts out that a group has to itself, unless the request names their trait: then it is
/// known what is asked for.
fn keep_out(request: &mut Request, world: &World) {
    let kept = world.trait_id(EXCLUSIVE_TRAIT).is_some_and(|id| world.trait_in_use(id));
    let required = request.groups.iter().flat_map(|group| group.required.iter().flatten());
    let mut named = required.chain(&request.root_required);
    if kept && !named.any(|name| name == EXCLUSIVE_TRAIT) {
        request.root_forbidden.push(EXCLUSIVE_TRAIT.to_owned());
    }
}

/// An answer of which nothing is written yet.
fn begin(asked: Microversion, request: &Request, world: &Arc<World>) -> Result<Writing, Unknown> {
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
        Failure::Fruitless(_) => Problem::overloaded(failure.to_string()),
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

/// Tells the log which condition left nothing, if it listens.
fn tell_why(world: &World, request: &Request) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        tracing::debug!("no allocation candidates: {}", search::why::why(world, request));
    }
}
