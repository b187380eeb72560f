//! State shared by all handlers: the store, the policy, the clock and the options.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use crate::audit::AuditLog;
use crate::auth::policy::Policy;
use crate::fairness::rate_limits::{RateLimits, Rates};
use crate::fairness::turns::{Turns, WaitingLimits};
use crate::fairness::watch::Watch;
use crate::http::admin::token::AdminToken;
use crate::http::api::large_responses::LargeResponses;
use crate::http::api::refused::{RefusedRequests, RefusedSettings};
use crate::http::console::now::readings::Readings;
use crate::http::current_options::CurrentOptions;
use crate::http::layers::cors::Cors;
use crate::http::layers::identity::Identity;
use crate::http::layers::proxy::Trusted;
use crate::model::{Goal, PlacementPolicy};
use crate::planner::headroom::{Headroom, HeadroomShare};
use crate::search::{Ranking, Strategy};
use crate::store::Store;
use crate::store::planner::caps::Caps;

/// Maximum number of database snapshots read at once. A snapshot stays open until its client has
/// received the response, and meanwhile PostgreSQL keeps the rows that were replaced.
const SNAPSHOTS_MAX: usize = 4;
/// Maximum number of operator queries that wait for a turn. Each of them occupies one of
/// `--max-requests`.
const OPERATOR_WAITING_MAX: WaitingLimits = WaitingLimits { per_requester: 32, total: 128 };

/// Seconds since the Unix epoch.
pub type Clock = fn() -> i64;

/// The application state. Cheap to clone.
#[derive(Clone, Debug)]
pub struct App {
    /// The database.
    pub store: Store,
    /// The options of the server.
    pub options: Arc<Options>,
    /// The policy rules.
    pub policy: Arc<Policy>,
    /// The authentication method.
    pub identity: Identity,
    /// Trusted proxies.
    pub trusted: Arc<Trusted>,
    /// The options that operators have set, for operators.
    pub(super) current_options: CurrentOptions,
    /// The clock.
    pub clock: Clock,
    /// One permit for each request that is served at once.
    pub(super) requests: Arc<Semaphore>,
    /// Limits planning requests per project.
    pub(super) planned: Turns,
    /// Turns for large candidate searches; a turn covers one part of a response.
    pub search_turns: Turns,
    /// Turns for operator queries that search the whole cloud.
    pub(super) questions: Turns,
    /// Turns for planning searches; a turn covers a whole search.
    pub plan_turns: Turns,
    /// Turns for work whose time grows with the size of a stored plan.
    pub(super) read_turns: Turns,
    /// Capacity that plans leave free.
    pub(super) headroom: Headroom,
    /// Limits the planner's request bodies that are received at once.
    pub(super) arriving: Turns,
    /// Limits requests a second of each caller.
    pub(super) rate_limits: Arc<RateLimits>,
    /// Limits responses that are streamed while the search runs; each keeps a world in memory.
    pub streams: Turns,
    /// Large responses that are held in memory while they are sent.
    pub large_responses: Arc<LargeResponses>,
    /// Limits responses that read a database snapshot; each uses its own connection.
    pub(super) snapshots: Turns,
    /// Limits event followers.
    pub(super) followers: Turns,
    /// Set when the server is about to stop.
    stopping: Arc<watch::Sender<bool>>,
    /// The clock for deadlines of searches and plans.
    pub watch: Watch,
    /// Requests that were refused or found no candidates.
    pub(super) refused: RefusedRequests,
    /// Readings of the metrics, for the console.
    pub(super) readings: Arc<Readings>,
}

impl App {
    /// Creates an application over a store, with defaults for everything else.
    pub fn new(store: Store, options: Options) -> Self {
        Self {
            store,
            policy: Arc::new(Policy::defaults(true)),
            requests: Arc::new(Semaphore::new(options.max_requests)),
            rate_limits: Arc::new(RateLimits::new(options.rates)),
            streams: Turns::new(options.streams_max, most_of_one(options.streams_max)),
            large_responses: LargeResponses::new(
                options.large_responses_max,
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
            current_options: CurrentOptions::default(),
            clock: system_clock,
            search_turns: Turns::new(half_the_processors(), half_the_processors()),
            questions: Turns::bounded(
                half_the_processors(),
                most_of_one(half_the_processors()),
                OPERATOR_WAITING_MAX,
            ),
            plan_turns: Turns::new(plans_at_once(), most_of_one(plans_at_once())),
            read_turns: Turns::new(plans_at_once() * 2, most_of_one(plans_at_once() * 2)),
            snapshots: Turns::new(SNAPSHOTS_MAX, most_of_one(SNAPSHOTS_MAX)),
            readings: Arc::default(),
            stopping: Arc::new(watch::Sender::new(false)),
            watch: Watch::default(),
        }
    }

    /// Replaces the clock for deadlines.
    #[must_use]
    pub fn with_watch(self, watch: Watch) -> Self {
        Self { watch, ..self }
    }

    /// Replaces the authentication method.
    #[must_use]
    pub fn with_identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Replaces the trusted proxies.
    #[must_use]
    pub fn with_trusted_proxies(self, trusted: Trusted) -> Self {
        Self { trusted: Arc::new(trusted), ..self }
    }

    /// Replaces the options that operators see.
    #[must_use]
    pub fn with_current_options(self, current_options: CurrentOptions) -> Self {
        Self { current_options, ..self }
    }

    /// Replaces the policy.
    #[must_use]
    pub fn with_policy(self, policy: Arc<Policy>) -> Self {
        Self { policy, ..self }
    }

    /// Returns the current time, in seconds since the Unix epoch.
    pub(super) fn now(&self) -> i64 {
        (self.clock)()
    }

    /// Returns the number of requests that take one of `--max-requests`.
    pub(super) fn requests_in_progress(&self) -> usize {
        self.options.max_requests.saturating_sub(self.requests.available_permits())
    }

    /// Marks the server as stopping, which ends long-running responses.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Completes when the server is about to stop.
    pub(super) async fn stopped(&self) {
        // The sender is in `self`.
        drop(self.stopping.subscribe().wait_for(|stopping| *stopping).await);
    }
}

/// Order of hosts in allocation candidates.
#[derive(Clone, Debug, PartialEq)]
pub enum CandidateOrder {
    /// Unspecified order.
    Stored,
    /// A new random order for each request.
    Random,
    /// By score.
    Ranked(Ranking),
}

/// Options for serving requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Maximum number of candidates generated for a request; `None`: no limit.
    pub max_allocation_candidates: Option<usize>,
    /// Order of hosts in candidates.
    pub candidate_order: CandidateOrder,
    /// Order in which candidates are generated.
    pub generation_strategy: Strategy,
    /// Maximum number of requests served at once.
    pub max_requests: usize,
    /// Maximum length of a request body, in bytes.
    pub max_body_bytes: usize,
    /// Timeout for receiving a request body.
    pub body_timeout: Duration,
    /// Maximum time a search may run without finding a candidate.
    pub search_timeout: Duration,
    /// Maximum number of responses streamed while the search runs.
    pub streams_max: usize,
    /// Maximum size of all large responses held in memory, in bytes.
    pub large_responses_max: usize,
    /// Timeout for sending a large or streamed response, however slowly the client reads.
    pub stream_timeout: Duration,
    /// Maximum time a response waits to be streamed.
    pub stream_wait: Duration,
    /// Maximum length of path and query, in bytes.
    pub max_uri_bytes: usize,
    /// Additional path prefix of the API, such as `/placement`; may be empty.
    pub path_prefix: String,
    /// The audit log.
    pub audit: Option<AuditLog>,
    /// Whether the store records the history of changes or the event log, and needs the caller of
    /// each change.
    pub history: bool,
    /// Cross-origin settings; `None`: no CORS headers are sent.
    pub cors: Option<Cors>,
    /// Time after which a request is slow, which is logged; `None`: no request is.
    pub slow_request: Option<Duration>,
    /// Settings of the planner.
    pub planner: PlannerSettings,
    /// Capacity that plans leave free.
    pub headroom: Vec<HeadroomShare>,
    /// Limits of the list of refused requests.
    pub refused: RefusedSettings,
    /// Maximum number of projects in `/metrics/cloud`.
    pub metrics_projects: u16,
    /// Maximum rates of requests.
    pub rates: Rates,
    /// The token for metrics; `None`: they need none.
    pub admin_token: Option<AdminToken>,
    /// Settings of the event stream.
    pub events: EventSettings,
    /// Whether the console is served.
    pub console: bool,
}

/// Settings of the event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// Maximum number of followers.
    pub followers: usize,
    /// Maximum duration of a stream. The caller's token may expire earlier.
    pub lifetime: Duration,
    /// Interval after which the last number is repeated if there was no event.
    pub heartbeat: Duration,
    /// Maximum time a client may take to read the next part.
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

/// Settings of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannerSettings {
    /// Default solving time of a plan.
    pub timeout: Duration,
    /// Maximum solving time of a plan.
    pub timeout_max: Duration,
    /// Maximum time a plan waits for its turns. It does not count as solving time.
    pub turn_wait: Duration,
    /// Whether racks are derived from host names where no trait names one.
    pub host_names: bool,
    /// The policy for volumes.
    pub volume_policy: PlacementPolicy,
    /// Whether candidates include hosts that have room only in a hold of the requested amounts.
    pub held_hosts: bool,
    /// Seconds after the last change of a plan until its holds end; `None`: never.
    pub hold_seconds: Option<u32>,
    /// Limits of what a project may store.
    pub caps: Caps,
    /// Maximum number of requests of a project that are planned at once.
    pub at_once: usize,
    /// Maximum number of further requests that wait, each at most `timeout_max`.
    pub waiting: usize,
    /// Solver threads for all plans together; each plan has at least one. With more than one thread
    /// per plan, the result may differ between runs of equal cost.
    pub threads: usize,
}

impl Default for PlannerSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(2),
            timeout_max: Duration::from_secs(4),
            turn_wait: Duration::from_secs(5),
            host_names: false,
            volume_policy: PlacementPolicy::of_hosts(Goal::Spread),
            held_hosts: true,
            hold_seconds: Some(86_400),
            caps: Caps::default(),
            at_once: 8,
            waiting: 32,
            threads: 1,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_allocation_candidates: None,
            candidate_order: CandidateOrder::Stored,
            generation_strategy: Strategy::DepthFirst,
            max_requests: 1024,
            max_body_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            search_timeout: Duration::from_secs(10),
            streams_max: 16,
            large_responses_max: 256 * 1024 * 1024,
            stream_timeout: Duration::from_mins(5),
            stream_wait: Duration::from_secs(10),
            max_uri_bytes: 64 * 1024,
            path_prefix: String::new(),
            audit: None,
            history: false,
            cors: None,
            slow_request: None,
            planner: PlannerSettings::default(),
            headroom: Vec::new(),
            refused: RefusedSettings::default(),
            metrics_projects: 1000,
            rates: Rates::default(),
            admin_token: None,
            events: EventSettings::default(),
            console: false,
        }
    }
}

/// Each project has its own turns and its own queue, so a busy project delays only itself.
fn planned(settings: &PlannerSettings) -> Turns {
    let waiting = WaitingLimits { per_requester: settings.waiting, total: usize::MAX };
    Turns::bounded(usize::MAX, settings.at_once, waiting)
}

fn half_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().div_ceil(2))
}

/// At least two, so that the plans of one project leave a turn to other projects.
fn plans_at_once() -> usize {
    half_the_processors().max(2)
}

/// Maximum number of bodies received at once for a project, so that a project whose clients are
/// slow cannot occupy all of `--max-requests`.
fn bodies_of_one(max_requests: usize) -> usize {
    (max_requests / 8).max(1)
}

/// Maximum number of turns of one project: all but one.
fn most_of_one(turns: usize) -> usize {
    turns.saturating_sub(1).max(1)
}

fn system_clock() -> i64 {
    time::OffsetDateTime::now_utc().unix_timestamp()
}
