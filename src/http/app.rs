//! What handlers work with: the store, the policy, the clock, and the options they obey.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::audit::AuditLog;
use crate::auth::policy::Policy;
use crate::fairness::turns::{Turns, Waiting};
use crate::fairness::watch::Watch;
use crate::http::api::large_answers::LargeAnswers;
use crate::http::api::refused::{RefusedRequests, RefusedSettings};
use crate::http::layers::cors::Cors;
use crate::http::layers::identity::Identity;
use crate::http::layers::proxy::Trusted;
use crate::planner::headroom::{Headroom, HeadroomShare};
use crate::search::{Ranking, Strategy};
use crate::store::Store;
use crate::store::planner::caps::Caps;

/// Snapshots of the database that are read at once. While one is read, which may take as long as a client
/// needs to take it in, PostgreSQL keeps rows that have been replaced since.
const SNAPSHOTS_MAX: usize = 4;
/// How many questions of operators may wait for a turn: few, because each holds a place among all requests.
const QUESTIONS_WAITING_MAX: Waiting = Waiting { of_one: 32, of_all: 128 };

/// Seconds since the Unix epoch.
pub type Clock = fn() -> i64;

/// Everything a request is answered with. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// Where everything is kept.
    pub store: Store,
    /// How requests are to be answered.
    pub options: Arc<Options>,
    /// Who may do what.
    pub policy: Arc<Policy>,
    /// How callers are known.
    pub identity: Identity,
    /// Proxies whose word counts.
    pub trusted: Arc<Trusted>,
    /// What time it is.
    pub clock: Clock,
    /// Requests are worked on at the same time, as many as this has permits.
    pub(super) requests: Arc<Semaphore>,
    /// Requests of one project that are planned at once, or wait for that.
    pub(super) planned: Turns,
    /// Turns at large searches for candidates, a part of an answer each.
    pub search_turns: Turns,
    /// Turns at questions of operators that search the whole cloud.
    pub(super) questions: Turns,
    /// Turns at finding places for plans, a whole search each.
    pub plan_turns: Turns,
    /// Turns at work that takes as long as a stored plan is large.
    pub(super) read_turns: Turns,
    /// What plans leave free.
    pub(super) headroom: Headroom,
    /// Bodies for the planner that may arrive at once.
    pub(super) arriving: Turns,
    /// Places for answers that are sent while they are found, each of which keeps a world in memory.
    pub streams: Turns,
    /// Large answers that are in memory as a whole while they are sent.
    pub large_answers: Arc<LargeAnswers>,
    /// Places for answers that read a snapshot of the database, each on a connection of its own.
    pub(super) snapshots: Turns,
    /// Places for those who follow events.
    pub(super) followers: Turns,
    /// Whether the server is about to stop.
    stopping: Arc<watch::Sender<bool>>,
    /// What deadlines of searches and plans are read from.
    pub watch: Watch,
    /// Requests that were refused or found nothing.
    pub(super) refused: RefusedRequests,
}

impl App {
    /// An application over a store, with the defaults of everything else.
    pub fn new(store: Store, options: Options) -> Self {
        Self {
            store,
            policy: Arc::new(Policy::defaults(true)),
            requests: Arc::new(Semaphore::new(options.max_requests)),
            streams: Turns::new(options.streams_max, most_of_one(options.streams_max)),
            large_answers: LargeAnswers::new(
                options.large_answers_max,
                options.stream_timeout,
                Watch::default(),
            ),
            arriving: Turns::new(options.max_requests, bodies_of_one(options.max_requests)),
            planned: planned(&options.planner),
            headroom: Headroom::of(&options.headroom),
            refused: RefusedRequests::new(options.refused, system_clock()),
            followers: Turns::new(options.events.followers, most_of_one(options.events.followers)),
            options: Arc::new(options),
            identity: Identity::default(),
            trusted: Arc::default(),
            clock: system_clock,
            search_turns: Turns::new(half_the_processors(), half_the_processors()),
            questions: Turns::bounded(
                half_the_processors(),
                most_of_one(half_the_processors()),
                QUESTIONS_WAITING_MAX,
            ),
            plan_turns: Turns::new(plans_at_once(), most_of_one(plans_at_once())),
            read_turns: Turns::new(plans_at_once() * 2, most_of_one(plans_at_once() * 2)),
            snapshots: Turns::new(SNAPSHOTS_MAX, most_of_one(SNAPSHOTS_MAX)),
            stopping: Arc::new(watch::Sender::new(false)),
            watch: Watch::default(),
        }
    }

    /// The same with deadlines read from another watch.
    #[must_use]
    pub fn timed_by(self, watch: Watch) -> Self {
        Self { watch, ..self }
    }

    /// The same with callers known in another way.
    #[must_use]
    pub fn known_by(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// The same behind proxies whose word counts.
    #[must_use]
    pub fn behind(self, trusted: Trusted) -> Self {
        Self { trusted: Arc::new(trusted), ..self }
    }

    /// The same with other rules.
    #[must_use]
    pub fn ruled_by(self, policy: Arc<Policy>) -> Self {
        Self { policy, ..self }
    }

    /// Seconds since the Unix epoch.
    pub(super) fn now(&self) -> i64 {
        (self.clock)()
    }

    /// Says that the server is about to stop: answers that would go on for long end.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Ready when the server is about to stop.
    pub(super) async fn stopped(&self) {
        // The sender is in `self`.
        drop(self.stopping.subscribe().wait_for(|stopping| *stopping).await);
    }
}

/// Which hosts come first among allocation candidates.
#[derive(Clone, Debug, PartialEq)]
pub enum CandidateOrder {
    /// They have no order that means anything.
    Stored,
    /// Each request has a random order.
    Random,
    /// By their scores.
    Ranked(Ranking),
}

/// What an operator may choose about answering requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Owner of consumers that name none (before microversion 1.8).
    pub incomplete_consumer_project_id: String,
    /// Owner of consumers that name none (before microversion 1.8).
    pub incomplete_consumer_user_id: String,
    /// Candidates generated for one request at the most; `None`: all there are.
    pub max_allocation_candidates: Option<usize>,
    /// Which hosts come first among candidates.
    pub candidate_order: CandidateOrder,
    /// In which order candidates are generated.
    pub generation_strategy: Strategy,
    /// Requests that are worked on at once.
    pub max_requests: usize,
    /// Longest body that is read, in bytes.
    pub max_body_bytes: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a search may go on without finding anything.
    pub search_timeout: Duration,
    /// Answers of candidates that are sent while they are found, at once.
    pub streams_max: usize,
    /// Bytes of large answers that are in memory as a whole while they are sent.
    pub large_answers_max: usize,
    /// How long one of them, or of those sent while they are found, may take, however slowly the client takes
    /// it in.
    pub stream_timeout: Duration,
    /// How long one waits for its place among them.
    pub stream_wait: Duration,
    /// Longest path and query that is looked at, in bytes.
    pub max_uri_bytes: usize,
    /// A path below which the API is served too, such as `/placement`; may be empty.
    pub path_prefix: String,
    /// Where it is written who has changed what.
    pub audit: Option<AuditLog>,
    /// Whether the store keeps the history of changes or the log of events, and is told who makes changes.
    pub history: bool,
    /// What pages of other origins may ask; `None`: nothing is said to them.
    pub cors: Option<Cors>,
    /// How the planner plans.
    pub planner: PlannerSettings,
    /// What plans leave free.
    pub headroom: Vec<HeadroomShare>,
    /// How much is kept of requests that were refused or found nothing.
    pub refused: RefusedSettings,
    /// Maximum number of projects in `/metrics/cloud`; 0: none.
    pub metrics_projects: u16,
    /// How events are sent.
    pub events: EventSettings,
}

/// How events are sent to those who follow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// Answers that are sent at once.
    pub followers: usize,
    /// How long one may last. Its token may have expired then.
    pub lifetime: Duration,
    /// After how long without an event the number is said again.
    pub heartbeat: Duration,
    /// How long a client may take nothing in.
    pub patience: Duration,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            followers: 32,
            lifetime: Duration::from_hours(1),
            heartbeat: Duration::from_secs(15),
            patience: Duration::from_secs(10),
        }
    }
}

/// What an operator may choose about planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannerSettings {
    /// The time a plan may take that names none.
    pub timeout: Duration,
    /// The most a plan may take, whatever it asks for.
    pub timeout_max: Duration,
    /// How long a plan waits for its turns; its own time does not run meanwhile.
    pub turn_wait: Duration,
    /// Whether racks are read from the names of hosts that no trait says a rack of.
    pub host_names: bool,
    /// The most that each project may store.
    pub caps: Caps,
    /// Requests of one project that are planned at once.
    pub at_once: usize,
    /// Further ones that wait, for `timeout_max` at the most.
    pub waiting: usize,
    /// Threads that choose hosts, for all plans together; each plan has one at the least. With more than
    /// one, plans that cost the same can differ from run to run.
    pub threads: usize,
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(2),
            timeout_max: Duration::from_secs(4),
            turn_wait: Duration::from_secs(5),
            host_names: false,
            caps: Caps::default(),
            at_once: 8,
            waiting: 32,
            threads: 1,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        let nobody = "00000000-0000-0000-0000-000000000000";
        Self {
            incomplete_consumer_project_id: nobody.to_owned(),
            incomplete_consumer_user_id: nobody.to_owned(),
            max_allocation_candidates: None,
            candidate_order: CandidateOrder::Stored,
            generation_strategy: Strategy::DepthFirst,
            max_requests: 1024,
            max_body_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            search_timeout: Duration::from_secs(10),
            streams_max: 16,
            large_answers_max: 256 * 1024 * 1024,
            stream_timeout: Duration::from_mins(5),
            stream_wait: Duration::from_secs(10),
            max_uri_bytes: 64 * 1024,
            path_prefix: String::new(),
            audit: None,
            history: false,
            cors: None,
            planner: PlannerSettings::default(),
            headroom: Vec::new(),
            refused: RefusedSettings::default(),
            metrics_projects: 1000,
            events: EventSettings::default(),
        }
    }
}

/// Each project has its own turns and its own queue, so one that asks a lot waits for itself only.
fn planned(settings: &PlannerSettings) -> Turns {
    let waiting = Waiting { of_one: settings.waiting, of_all: usize::MAX };
    Turns::bounded(usize::MAX, settings.at_once, waiting)
}

fn half_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2))
}

/// Two at the least, so that the plans of one project leave a turn to those of another.
fn plans_at_once() -> usize {
    half_the_processors().max(2)
}

/// How many bodies of one project may arrive at once, so that a project that sends them slowly leaves
/// most of the requests that are worked on to others.
fn bodies_of_one(max_requests: usize) -> usize {
    (max_requests / 8).max(1)
}

/// How many of so many turns one project may have: all but one.
fn most_of_one(turns: usize) -> usize {
    turns.saturating_sub(1).max(1)
}

fn system_clock() -> i64 {
    time::OffsetDateTime::now_utc().unix_timestamp()
}
