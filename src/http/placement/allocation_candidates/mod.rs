//! `/allocation_candidates`.
//!
//! A small answer is found and written at once. A large one is sent while it is found: a task
//! beside those that serve requests works ahead of the client by a few parts, waits when the client
//! is slow, and stops when it is gone. Such tasks take turns, so that however many there are the
//! others are served.

mod request;
mod response;

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::{Stream, stream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

use self::response::{Shape, Stopped, Writing};
use super::call::Call;
use super::microversion::{LATEST, Microversion};
use super::problem::Problem;
use super::reply::Reply;
use crate::model::Refusal;
use crate::search::{self, Request, Unknown};
use crate::world::World;

/// How many parts are written ahead of the client.
const PARTS_AHEAD: usize = 4;

/// `GET /allocation_candidates`
pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    let request = request::request(&call.query()?, call.asked, &call.app.options)?;
    let world = call.app.store.world().await?;
    let mut writing = begin(call.asked, &request, &world).map_err(unknown)?;
    let stopped = writing.write_candidates();
    let reply = if stopped == Stopped::Exhausted && writing.ends_soon() {
        if writing.candidates() == 0 {
            tell_why(&world, &request);
        }
        Reply::bytes(at_once(writing))
    } else {
        beside(writing, &call).await?
    };
    Ok(reply.modified(call.now()))
}

/// An answer of which nothing is written yet.
fn begin(asked: Microversion, request: &Request, world: &Arc<World>) -> Result<Writing, Unknown> {
    let search = search::find(Arc::clone(world), request)?;
    Ok(Writing::new(search, Shape::of(asked, request, world)))
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
    let writing = begin(LATEST, request, world)?;
    let go_on = |writing: &mut Writing| ControlFlow::Continue(writing.write_candidates());
    let ended = write(writing, go_on, |(Part::More(bytes) | Part::Last(bytes))| {
        take(bytes);
        ControlFlow::Continue(())
    });
    debug_assert!(ended.is_continue());
    Ok(())
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

/// The rest of an answer in one piece.
fn at_once(writing: Writing) -> Bytes {
    let mut text = Vec::new();
    let rest = writing.finish(|part| {
        text.extend_from_slice(&part);
        ControlFlow::Continue(())
    });
    match rest {
        ControlFlow::Continue(rest) if text.is_empty() => rest,
        ControlFlow::Continue(rest) => [text, rest.to_vec()].concat().into(),
        ControlFlow::Break(()) => text.into(),
    }
}

/// A part of an answer.
enum Part {
    More(Bytes),
    Last(Bytes),
}

/// An answer that takes its time: whole if it turns out to be small, else in parts.
async fn beside(writing: Writing, call: &Call) -> Result<Reply, Problem> {
    let (parts, mut arriving) = mpsc::channel(PARTS_AHEAD);
    let outlet = Outlet {
        parts,
        runtime: Handle::current(),
        turns: call.app.search_turns.clone(),
        patience: call.app.options.body_timeout,
    };
    let task = tokio::task::spawn_blocking(move || {
        write(writing, |writing| outlet.go_on(writing), |part| outlet.send(part))
    });
    match arriving.recv().await {
        Some(Part::Last(whole)) => Ok(Reply::bytes(whole)),
        Some(first) => Ok(Reply::body(Body::from_stream(in_parts(first, arriving)))),
        None => {
            // It can only have panicked: the panic goes on here, where panics are caught.
            if let Err(error) = task.await
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
            Err(Problem::internal("the search ended without an answer"))
        }
    }
}

/// The parts one after the other. Without a last one the answer is cut short, and must not look
/// whole.
fn in_parts(
    first: Part,
    arriving: mpsc::Receiver<Part>,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::unfold(Some((Some(first), arriving)), |state| async move {
        let (first, mut arriving) = state?;
        let part = match first {
            Some(first) => Some(first),
            None => arriving.recv().await,
        };
        Some(match part {
            Some(Part::More(bytes)) => (Ok(bytes), Some((None, arriving))),
            Some(Part::Last(bytes)) => (Ok(bytes), None),
            None => (Err(io::Error::other("the search ended early")), None),
        })
    })
}

/// Where parts go.
struct Outlet {
    parts: mpsc::Sender<Part>,
    runtime: Handle,
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl Outlet {
    /// Waits for a turn at the processor, of which those who serve requests need some, too.
    fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.runtime.block_on(self.turns.acquire()).ok()
    }

    /// Writes on when it is its turn; breaks off if nobody waits any more.
    fn go_on(&self, writing: &mut Writing) -> ControlFlow<(), Stopped> {
        let turn = self.turn();
        let stopped = writing.write_candidates();
        drop(turn);
        if stopped == Stopped::Paused && self.parts.is_closed() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(stopped)
    }

    /// Hands a part over; breaks off if the client is gone or takes nothing for too long.
    fn send(&self, part: Part) -> ControlFlow<()> {
        let sent = self.runtime.block_on(self.parts.send_timeout(part, self.patience));
        if sent.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// Writes an answer to its end, step by step, handing over one part after the other.
fn write(
    mut writing: Writing,
    mut go_on: impl FnMut(&mut Writing) -> ControlFlow<(), Stopped>,
    mut send: impl FnMut(Part) -> ControlFlow<()>,
) -> ControlFlow<()> {
    loop {
        match go_on(&mut writing)? {
            Stopped::Full => send(Part::More(writing.take()))?,
            Stopped::Paused => {}
            Stopped::Exhausted => break,
        }
    }
    let rest = writing.finish(|part| send(Part::More(part)))?;
    send(Part::Last(rest))
}
