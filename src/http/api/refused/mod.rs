//! Keeps requests that were refused or found nothing: candidate queries without a result, and
//! writes that conflict with the stored state. They stay in memory for a while, for
//! `/-/v1/refused`.
//!
//! The conditions of a query are counted on a blocking thread, one query after the other. A query
//! is not counted if too many wait, and after each counting the thread pauses for four times as
//! long as it took, so this takes at most a fifth of a processor. Writes need no counting: the
//! transaction that refuses one returns its faults.

mod ring;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ::metrics::counter;
use axum::http::Method;

use self::ring::{Bounds, DroppedCounts, Ring};
use crate::http::api::json;
use crate::http::operator::explanation::explained;
use crate::observe::request_context::RequestScope;
use crate::observe::spans;
use crate::search::explain::explain;
use crate::search::{Request, budget};
use crate::world::World;

/// Maximum length of a query, path or body that is kept, in bytes.
const TEXT_MAX: usize = 64 * 1024;
/// Maximum length of an error, in bytes.
const ERROR_MAX: usize = 4096;
/// Maximum length of a project or user id, in bytes.
const ID_MAX: usize = 255;
/// Maximum size of the counts or faults of a request, in bytes.
const FACTS_MAX: usize = 256 * 1024;
/// Approximate size of an entry without its texts, in bytes.
const ENTRY: usize = 512;
/// Maximum number of queries waiting to be counted. Each keeps a world in memory.
const WAITING_MAX: usize = 8;
/// Maximum work to count one query, in numbers read: about 100 ms.
const WORK_MAX: usize = 20_000_000;
/// Maximum number of near misses in an explanation.
const NEAR_MISSES: usize = 10;
/// Pause after a counting, in multiples of its time.
const REST: u32 = 4;

/// Limits of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedSettings {
    /// Maximum number of requests; 0: none.
    pub requests: usize,
    /// Maximum size in bytes; 0: none.
    pub bytes: usize,
    /// Maximum age; 0: none.
    pub age: Duration,
}

impl Default for RefusedSettings {
    fn default() -> Self {
        Self { requests: 10_000, bytes: 16 * 1024 * 1024, age: Duration::from_hours(1) }
    }
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Kind {
    /// A query for allocation candidates.
    Candidates,
    /// A claim: allocations of one or several consumers, or their removal.
    Claim,
    /// A request to the reshaper.
    Reshape,
    /// A provider is created, renamed, moved or deleted.
    Provider,
    Inventories,
    /// Traits of a provider, or a trait.
    Traits,
    Aggregates,
    Classes,
}

impl Kind {
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

    /// Returns the kind of the writes at a route of the Placement API; `None` if it has none.
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

/// A request that was refused or found nothing. Of its headers, only the ids and the microversion
/// are kept.
#[derive(Debug)]
pub(in crate::http) struct Refused {
    pub(in crate::http) request_id: String,
    /// The id of the client's own request.
    pub(in crate::http) global_request_id: Option<String>,
    /// Time of the response, in seconds since the Unix epoch.
    pub(in crate::http) at: i64,
    pub(in crate::http) kind: Kind,
    pub(in crate::http) method: Method,
    /// The path, with the query.
    pub(in crate::http) path: String,
    pub(in crate::http) microversion: String,
    pub(in crate::http) project: Option<String>,
    pub(in crate::http) user: Option<String>,
    pub(in crate::http) status: u16,
    /// The detail of the response, if it was an error.
    pub(in crate::http) error: Option<String>,
    /// The body, unless it is too large.
    pub(in crate::http) body: Option<String>,
    /// The size of the body, in bytes.
    pub(in crate::http) body_bytes: usize,
    facts: OnceLock<RefusalFacts>,
}

/// The reasons: the counts of a query, or the faults of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) enum RefusalFacts {
    Known(String),
    /// Not available, for this reason.
    Omitted(&'static str),
}

impl RefusalFacts {
    /// Serializes facts, unless they are too large.
    pub(in crate::http) fn of(facts: &impl serde::Serialize) -> Self {
        let text = String::from_utf8(json::written(facts)).ok();
        match text.filter(|text| text.len() <= FACTS_MAX) {
            Some(text) => Self::Known(text),
            None => Self::Omitted("too_large"),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Known(text) => text.len(),
            Self::Omitted(_) => 0,
        }
    }
}

/// A request without its facts.
#[derive(Clone, Debug)]
pub(in crate::http) struct RequestDetails<'r> {
    pub(in crate::http) request_id: &'r str,
    /// The id of the client's own request.
    pub(in crate::http) global_request_id: Option<&'r str>,
    /// Time of the response, in seconds since the Unix epoch.
    pub(in crate::http) at: i64,
    pub(in crate::http) kind: Kind,
    pub(in crate::http) method: &'r Method,
    /// The path, with the query.
    pub(in crate::http) path: &'r str,
    pub(in crate::http) microversion: String,
    pub(in crate::http) project: Option<&'r str>,
    pub(in crate::http) user: Option<&'r str>,
    pub(in crate::http) status: u16,
    /// The detail of the response, if it was an error.
    pub(in crate::http) error: Option<&'r str>,
    pub(in crate::http) body: &'r [u8],
}

impl Refused {
    fn of(details: &RequestDetails<'_>) -> Self {
        let body = std::str::from_utf8(details.body).ok();
        let body = body.filter(|body| !body.is_empty() && body.len() <= TEXT_MAX);
        Self {
            request_id: cut(details.request_id, ID_MAX),
            global_request_id: details.global_request_id.map(|id| cut(id, ID_MAX)),
            at: details.at,
            kind: details.kind,
            method: details.method.clone(),
            path: cut(details.path, TEXT_MAX),
            microversion: details.microversion.clone(),
            project: details.project.map(|id| cut(id, ID_MAX)),
            user: details.user.map(|id| cut(id, ID_MAX)),
            status: details.status,
            error: details.error.map(|error| cut(error, ERROR_MAX)),
            body: body.map(str::to_owned),
            body_bytes: details.body.len(),
            facts: OnceLock::new(),
        }
    }

    pub(in crate::http) fn facts(&self) -> RefusalFacts {
        self.facts.get().map_or(RefusalFacts::Omitted("pending"), Clone::clone)
    }

    fn ids(&self) -> Vec<String> {
        let mut ids = vec![self.request_id.clone()];
        ids.extend(self.global_request_id.clone().filter(|id| *id != self.request_id));
        ids
    }

    fn bytes(&self) -> usize {
        let texts = [&self.global_request_id, &self.project, &self.user, &self.error, &self.body];
        let texts = texts.into_iter().flatten().chain([&self.request_id, &self.path]);
        let facts = self.facts.get().map_or(0, RefusalFacts::bytes);
        ENTRY + texts.map(String::len).sum::<usize>() + facts
    }
}

/// Truncates a text to at most `most` bytes.
fn cut(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    text.get(..end).map_or_else(String::new, str::to_owned)
}

/// The kept requests. Clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct RefusedRequests(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    settings: RefusedSettings,
    /// Start of this process, in seconds since the Unix epoch.
    since: i64,
    ring: Mutex<Ring<Arc<Refused>>>,
    counting: Mutex<CountQueue>,
}

/// Queries waiting to be counted.
#[derive(Debug, Default)]
struct CountQueue {
    waiting: VecDeque<QueuedQuery>,
    is_running: bool,
    /// Number of queries that were not counted because too many waited.
    dropped: u64,
}

/// A query to be counted.
#[derive(Debug)]
struct QueuedQuery {
    number: u64,
    refused: Arc<Refused>,
    world: Arc<World>,
    request: Request,
    /// The scope of the request.
    scope: RequestScope,
}

/// Statistics of what is kept.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Status {
    pub(in crate::http) settings: RefusedSettings,
    /// Start of this process, in seconds since the Unix epoch.
    pub(in crate::http) since: i64,
    pub(in crate::http) requests: usize,
    pub(in crate::http) bytes: usize,
    /// Numbers of requests that were dropped.
    pub(in crate::http) gone: DroppedCounts,
    /// Number of queries that were not counted because too many waited.
    pub(in crate::http) not_counted: u64,
}

impl RefusedRequests {
    /// Creates an empty list, or a disabled one. `now` is in seconds since the Unix epoch.
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

    /// Returns whether requests are kept.
    pub(in crate::http) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps a request whose facts are known or omitted.
    pub(in crate::http) fn keep(&self, details: &RequestDetails<'_>, facts: RefusalFacts) {
        let Some(shared) = &self.0 else { return };
        let refused = Refused::of(details);
        refused.facts.get_or_init(|| facts);
        shared.push(refused);
    }

    /// Keeps a query that found no candidates in this world, and queues it to be counted.
    pub(in crate::http) fn keep_query(
        &self,
        details: &RequestDetails<'_>,
        world: Arc<World>,
        request: Request,
    ) {
        let Some(shared) = &self.0 else { return };
        let (number, refused) = shared.push(Refused::of(details));
        let query = QueuedQuery { number, refused, world, request, scope: RequestScope::current() };
        if let Some(left_out) = shared.enqueue(query) {
            left_out.refused.facts.get_or_init(|| RefusalFacts::Omitted("busy"));
            counter!("berth_refused_queries_not_counted_total").increment(1);
        }
    }

    /// Returns the latest requests with an id, their own or that of the client's request, newest
    /// first; and the number of all with this id.
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

    /// Returns up to `count` requests before a number, newest first, and the number to continue
    /// with.
    pub(in crate::http) fn before(
        &self,
        number: u64,
        count: usize,
    ) -> (Vec<Arc<Refused>>, Option<u64>) {
        let Some(shared) = &self.0 else { return (Vec::new(), None) };
        shared.ring().before(number, count)
    }

    /// Returns the statistics; `None` if disabled.
    pub(in crate::http) fn status(&self, now: i64) -> Option<Status> {
        let shared = self.0.as_ref()?;
        let not_counted = shared.counting().dropped;
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

    fn counting(&self) -> MutexGuard<'_, CountQueue> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, refused: Refused) -> (u64, Arc<Refused>) {
        counter!("berth_refused_requests_total", "kind" => refused.kind.name()).increment(1);
        let refused = Arc::new(refused);
        let (at, ids, bytes) = (refused.at, refused.ids(), refused.bytes());
        let number = self.ring().push(at, ids, bytes, Arc::clone(&refused));
        (number, refused)
    }

    /// Queues a query. Returns it if too many wait.
    fn enqueue(self: &Arc<Self>, query: QueuedQuery) -> Option<QueuedQuery> {
        let mut counting = self.counting();
        if counting.waiting.len() >= WAITING_MAX {
            counting.dropped += 1;
            return Some(query);
        }
        counting.waiting.push_back(query);
        if !counting.is_running {
            counting.is_running = true;
            tokio::spawn(count_all(Arc::clone(self)));
        }
        None
    }

    /// Returns the next query. When the queue is empty, counting stops.
    fn next(&self) -> Option<QueuedQuery> {
        let mut counting = self.counting();
        let next = counting.waiting.pop_front();
        counting.is_running = next.is_some();
        next
    }
}

/// Counts queries until none is left.
async fn count_all(shared: Arc<Shared>) {
    while let Some(query) = shared.next() {
        let began = Instant::now();
        let QueuedQuery { number, refused, world, request, scope } = query;
        let counting = scope.run(|| spans::spawn_blocking(move || counts(&world, &request)));
        // A panic was logged and counted where it happened.
        let Ok(facts) = counting.await.or(Ok::<_, Infallible>(RefusalFacts::Omitted("failed")));
        let bytes = facts.bytes();
        refused.facts.get_or_init(|| facts);
        shared.ring().grow(number, bytes);
        tokio::time::sleep(began.elapsed() * REST).await;
    }
}

/// Counts the hosts that each condition of a request leaves.
fn counts(world: &World, request: &Request) -> RefusalFacts {
    match explain(world, request, NEAR_MISSES, budget(WORK_MAX)) {
        Ok(explanation) => RefusalFacts::of(&explained(&explanation)),
        // Too many conditions, or the name of a class has been deleted.
        Err(_) => RefusalFacts::Omitted("failed"),
    }
}
