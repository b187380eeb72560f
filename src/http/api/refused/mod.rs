//! Requests that were refused or found nothing: queries for candidates without one, and writes that were refused for
//! what is stored. They are kept for a while, in memory, for those who want to know later why (`/-/v1/refused`).
//!
//! What conditions of a query left is counted beside the threads that answer requests, one query after the
//! other. A query is not counted if others wait already, and the counting rests for four times as long as it
//! worked: however many queries find nothing, that takes at most a fifth of a processor. Writes need no
//! counting: the transaction that refuses one knows its faults.

mod ring;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ::metrics::counter;
use axum::http::Method;
use tracing::Span;

use self::ring::{Bounds, Gone, Ring};
use crate::http::api::json;
use crate::http::operator::explained;
use crate::observe::spans;
use crate::search::explain::explain;
use crate::search::{Request, budget};
use crate::world::World;

/// The longest query, path or body of a request that is kept, in bytes.
const TEXT_MAX: usize = 64 * 1024;
/// The longest sentence of an error, in bytes.
const ERROR_MAX: usize = 4096;
/// The longest id of a project or a user, in bytes.
const ID_MAX: usize = 255;
/// The largest counts or faults of a request, in bytes.
const FACTS_MAX: usize = 256 * 1024;
/// About what an entry takes besides its texts, in bytes.
const ENTRY: usize = 512;
/// Queries that wait to be counted. Each keeps a world in memory.
const WAITING_MAX: usize = 8;
/// The maximum work to count one query, in numbers read: about 100 ms.
const WORK_MAX: usize = 20_000_000;
/// How many hosts are named that lack one thing only.
const NEAR_MISSES: usize = 10;
/// How much longer than the counting its rest is.
const REST: u32 = 4;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedSettings {
    /// Requests; 0: none.
    pub requests: usize,
    /// Their size, in bytes; 0: none.
    pub bytes: usize,
    /// For how long; 0: none.
    pub age: Duration,
}

impl Default for RefusedSettings {
    fn default() -> Self {
        Self { requests: 10_000, bytes: 16 * 1024 * 1024, age: Duration::from_hours(1) }
    }
}

/// What a request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Kind {
    /// A query for allocation candidates.
    Candidates,
    /// A claim: allocations of one or several consumers, also their end.
    Claim,
    /// A request to the reshaper.
    Reshape,
    /// A provider is created, renamed, moved or deleted.
    Provider,
    /// Inventories of a provider.
    Inventories,
    /// Traits of a provider, or a trait.
    Traits,
    /// Aggregates of a provider.
    Aggregates,
    /// A resource class.
    Classes,
}

impl Kind {
    /// All kinds.
    pub(in crate::http) const ALL: [Self; 8] = [
        Self::Candidates,
        Self::Claim,
        Self::Reshape,
        Self::Provider,
        Self::Inventories,
        Self::Traits,
        Self::Aggregates,
        Self::Classes,
    ];

    /// The kind of the writes at a route of the Placement API; `None` if nothing is written there.
    pub(in crate::http) fn of_write(route: &str) -> Option<Self> {
        Some(match route {
            "/allocations" | "/allocations/{consumer}" => Self::Claim,
            "/reshaper" => Self::Reshape,
            "/resource_providers" | "/resource_providers/{uuid}" => Self::Provider,
            "/resource_providers/{uuid}/inventories"
            | "/resource_providers/{uuid}/inventories/{resource_class}" => Self::Inventories,
            "/resource_providers/{uuid}/traits" | "/traits/{name}" => Self::Traits,
            "/resource_providers/{uuid}/aggregates" => Self::Aggregates,
            "/resource_classes" | "/resource_classes/{name}" => Self::Classes,
            _ => return None,
        })
    }

    /// Its name.
    pub(in crate::http) fn name(self) -> &'static str {
        match self {
            Self::Candidates => "candidates",
            Self::Claim => "claim",
            Self::Reshape => "reshape",
            Self::Provider => "provider",
            Self::Inventories => "inventories",
            Self::Traits => "traits",
            Self::Aggregates => "aggregates",
            Self::Classes => "resource_classes",
        }
    }
}

/// A request that was refused or found nothing. Of its headers, only the ids and the microversion are kept.
#[derive(Debug)]
pub(in crate::http) struct Refused {
    /// Its id.
    pub(in crate::http) request_id: String,
    /// The id of the request on whose behalf the client has asked.
    pub(in crate::http) global_request_id: Option<String>,
    /// When it was answered, in seconds since the Unix epoch.
    pub(in crate::http) at: i64,
    /// What it was.
    pub(in crate::http) kind: Kind,
    /// Its method.
    pub(in crate::http) method: Method,
    /// Its path, with the query.
    pub(in crate::http) path: String,
    /// Its microversion.
    pub(in crate::http) microversion: String,
    /// The project of the caller.
    pub(in crate::http) project: Option<String>,
    /// The user who called.
    pub(in crate::http) user: Option<String>,
    /// The status of its answer.
    pub(in crate::http) status: u16,
    /// What the answer said, if it was an error.
    pub(in crate::http) error: Option<String>,
    /// Its body, if that is not too large.
    pub(in crate::http) body: Option<String>,
    /// The size of the body, in bytes.
    pub(in crate::http) body_bytes: usize,
    facts: OnceLock<Facts>,
}

/// What is known about the reasons: the counts of a query, or the faults of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum Facts {
    /// As JSON.
    Known(String),
    /// They are not known, for this reason.
    LeftOut(&'static str),
}

impl Facts {
    /// These facts, unless they are too large.
    pub(in crate::http) fn of(facts: &impl serde::Serialize) -> Self {
        let text = String::from_utf8(json::written(facts)).ok();
        match text.filter(|text| text.len() <= FACTS_MAX) {
            Some(text) => Self::Known(text),
            None => Self::LeftOut("too_large"),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Known(text) => text.len(),
            Self::LeftOut(_) => 0,
        }
    }
}

/// What is known of a request besides its facts.
#[derive(Clone, Debug)]
pub(in crate::http) struct Seen<'r> {
    /// Its id.
    pub(in crate::http) request_id: &'r str,
    /// The id of the request on whose behalf the client has asked.
    pub(in crate::http) global_request_id: Option<&'r str>,
    /// When it was answered, in seconds since the Unix epoch.
    pub(in crate::http) at: i64,
    /// What it was.
    pub(in crate::http) kind: Kind,
    /// Its method.
    pub(in crate::http) method: &'r Method,
    /// Its path, with the query.
    pub(in crate::http) path: &'r str,
    /// Its microversion.
    pub(in crate::http) microversion: String,
    /// The project of the caller.
    pub(in crate::http) project: Option<&'r str>,
    /// The user who called.
    pub(in crate::http) user: Option<&'r str>,
    /// The status of its answer.
    pub(in crate::http) status: u16,
    /// What the answer said, if it was an error.
    pub(in crate::http) error: Option<&'r str>,
    /// Its body.
    pub(in crate::http) body: &'r [u8],
}

impl Refused {
    fn of(seen: &Seen<'_>) -> Self {
        let body = std::str::from_utf8(seen.body).ok();
        let body = body.filter(|body| !body.is_empty() && body.len() <= TEXT_MAX);
        Self {
            request_id: cut(seen.request_id, ID_MAX),
            global_request_id: seen.global_request_id.map(|id| cut(id, ID_MAX)),
            at: seen.at,
            kind: seen.kind,
            method: seen.method.clone(),
            path: cut(seen.path, TEXT_MAX),
            microversion: seen.microversion.clone(),
            project: seen.project.map(|id| cut(id, ID_MAX)),
            user: seen.user.map(|id| cut(id, ID_MAX)),
            status: seen.status,
            error: seen.error.map(|error| cut(error, ERROR_MAX)),
            body: body.map(str::to_owned),
            body_bytes: seen.body.len(),
            facts: OnceLock::new(),
        }
    }

    /// What is known about the reasons.
    pub(in crate::http) fn facts(&self) -> Facts {
        self.facts.get().map_or(Facts::LeftOut("pending"), Clone::clone)
    }

    fn ids(&self) -> Vec<String> {
        let mut ids = vec![self.request_id.clone()];
        ids.extend(self.global_request_id.clone().filter(|id| *id != self.request_id));
        ids
    }

    fn bytes(&self) -> usize {
        let texts = [&self.global_request_id, &self.project, &self.user, &self.error, &self.body];
        let texts = texts.into_iter().flatten().chain([&self.request_id, &self.path]);
        let facts = self.facts.get().map_or(0, Facts::bytes);
        ENTRY + texts.map(String::len).sum::<usize>() + facts
    }
}

/// The beginning of a text.
fn cut(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    text.get(..end).map_or_else(String::new, str::to_owned)
}

/// The requests that are kept. Clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct RefusedRequests(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    settings: RefusedSettings,
    /// When the process began to keep them, in seconds since the Unix epoch.
    since: i64,
    ring: Mutex<Ring<Arc<Refused>>>,
    counting: Mutex<Counting>,
}

/// Queries that wait to be counted.
#[derive(Debug, Default)]
struct Counting {
    waiting: VecDeque<Uncounted>,
    is_running: bool,
    /// How many were not counted because others waited.
    left_out: u64,
}

/// A query that is to be counted.
#[derive(Debug)]
struct Uncounted {
    number: u64,
    refused: Arc<Refused>,
    world: Arc<World>,
    request: Request,
    /// The span of the request that found nothing.
    span: Span,
}

/// What is kept, in numbers.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Status {
    /// How much may be kept.
    pub(in crate::http) settings: RefusedSettings,
    /// Since when, in seconds since the Unix epoch.
    pub(in crate::http) since: i64,
    /// Requests.
    pub(in crate::http) requests: usize,
    /// Their size, in bytes.
    pub(in crate::http) bytes: usize,
    /// How many are not kept any more.
    pub(in crate::http) gone: Gone,
    /// How many queries were not counted because others waited.
    pub(in crate::http) not_counted: u64,
}

impl RefusedRequests {
    /// None are kept yet; never any if that is turned off. Times are in seconds since the Unix epoch.
    pub(in crate::http) fn new(settings: RefusedSettings, now: i64) -> Self {
        let RefusedSettings { requests: entries, bytes, age } = settings;
        let age = i64::try_from(age.as_secs()).map_or(i64::MAX, |age| age);
        if entries == 0 || bytes == 0 || age == 0 {
            return Self(None);
        }
        let ring = Mutex::new(Ring::new(Bounds { entries, bytes, age }));
        let counting = Mutex::default();
        Self(Some(Arc::new(Shared { settings, since: now, ring, counting })))
    }

    /// Whether requests are kept.
    pub(in crate::http) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps a request whose facts are known, or will never be.
    pub(in crate::http) fn keep(&self, seen: &Seen<'_>, facts: Facts) {
        let Some(shared) = &self.0 else { return };
        let refused = Refused::of(seen);
        refused.facts.get_or_init(|| facts);
        shared.push(refused);
    }

    /// Keeps a query for candidates that found none in this world, and has it counted.
    pub(in crate::http) fn keep_query(&self, seen: &Seen<'_>, world: Arc<World>, request: Request) {
        let Some(shared) = &self.0 else { return };
        let (number, refused) = shared.push(Refused::of(seen));
        let uncounted = Uncounted { number, refused, world, request, span: Span::current() };
        if let Some(left_out) = shared.enqueue(uncounted) {
            left_out.refused.facts.get_or_init(|| Facts::LeftOut("busy"));
            counter!("berth_refused_queries_not_counted_total").increment(1);
        }
    }

    /// The last requests with an id, their own or that of the request on whose behalf they were sent, the
    /// newest first; and how many have it.
    pub(in crate::http) fn with_id(
        &self,
        id: &str,
        most: usize,
        now: i64,
    ) -> (Vec<Arc<Refused>>, usize) {
        let Some(shared) = &self.0 else { return (Vec::new(), 0) };
        let mut ring = shared.ring();
        ring.expire(now);
        (ring.with_id(id).take(most).collect(), ring.count_with_id(id))
    }

    /// Up to so many requests before a number, the newest first, and the number to go on with.
    pub(in crate::http) fn before(
        &self,
        number: u64,
        count: usize,
    ) -> (Vec<Arc<Refused>>, Option<u64>) {
        let Some(shared) = &self.0 else { return (Vec::new(), None) };
        shared.ring().before(number, count)
    }

    /// What is kept; `None` if that is turned off.
    pub(in crate::http) fn status(&self, now: i64) -> Option<Status> {
        let shared = self.0.as_ref()?;
        let not_counted = shared.counting().left_out;
        let mut ring = shared.ring();
        ring.expire(now);
        let (requests, bytes, gone) = (ring.len(), ring.bytes(), ring.gone());
        let (settings, since) = (shared.settings, shared.since);
        Some(Status { settings, since, requests, bytes, gone, not_counted })
    }
}

impl Shared {
    fn ring(&self) -> MutexGuard<'_, Ring<Arc<Refused>>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counting(&self) -> MutexGuard<'_, Counting> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, refused: Refused) -> (u64, Arc<Refused>) {
        counter!("berth_refused_requests_total", "kind" => refused.kind.name()).increment(1);
        let refused = Arc::new(refused);
        let (at, ids, bytes) = (refused.at, refused.ids(), refused.bytes());
        let number = self.ring().push(at, ids, bytes, Arc::clone(&refused));
        (number, refused)
    }

    /// Has a query counted. Gives it back if too many wait.
    fn enqueue(self: &Arc<Self>, uncounted: Uncounted) -> Option<Uncounted> {
        let mut counting = self.counting();
        if counting.waiting.len() >= WAITING_MAX {
            counting.left_out += 1;
            return Some(uncounted);
        }
        counting.waiting.push_back(uncounted);
        if !counting.is_running {
            counting.is_running = true;
            tokio::spawn(count_all(Arc::clone(self)));
        }
        None
    }

    /// The next query to be counted. If there is none, the counting ends.
    fn next(&self) -> Option<Uncounted> {
        let mut counting = self.counting();
        let next = counting.waiting.pop_front();
        counting.is_running = next.is_some();
        next
    }
}

/// Counts queries until none is left.
async fn count_all(shared: Arc<Shared>) {
    while let Some(uncounted) = shared.next() {
        let began = Instant::now();
        let Uncounted { number, refused, world, request, span } = uncounted;
        let counting = span.in_scope(|| spans::spawn_blocking(move || counts(&world, &request)));
        // A panic has been logged and counted where it happened.
        let Ok(facts) = counting.await.or(Ok::<_, Infallible>(Facts::LeftOut("failed")));
        let bytes = facts.bytes();
        refused.facts.get_or_init(|| facts);
        shared.ring().grow(number, bytes);
        tokio::time::sleep(began.elapsed() * REST).await;
    }
}

/// What each condition of a request leaves.
fn counts(world: &World, request: &Request) -> Facts {
    match explain(world, request, NEAR_MISSES, budget(WORK_MAX)) {
        Ok(explanation) => Facts::of(&explained(&explanation)),
        // It has too many conditions, or the name of a class went.
        Err(_) => Facts::LeftOut("failed"),
    }
}
