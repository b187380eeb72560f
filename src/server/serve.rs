//! Assembles the server: a database, a store over it, and the APIs on top.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::audit::AuditLog;
use crate::auth::keystone::Keystone;
use crate::auth::policy;
use crate::config::sources::{self, ReadOptions, Reloading, Source};
use crate::config::{Auth, Config, GenerationStrategy, gone};
use crate::fairness::rate_limits::Rates;
use crate::http;
use crate::http::current_options::CurrentOptions;
use crate::http::edge::bounds::{Bounds, HEADER_TIMEOUT, IDLE_TIMEOUT};
use crate::http::edge::listener::{Endpoint, Listener};
use crate::http::edge::server::ServerListeners;
use crate::http::edge::tls::Tls;
use crate::http::layers::cors::Cors;
use crate::http::{Api, App, Backend, Options};
use crate::observe::telemetry::Telemetry;
use crate::observe::{metrics, version};
use crate::search::Strategy;
use crate::server::database::Database;
use crate::server::failure::Failure;
use crate::server::heartbeat::Reports;
use crate::server::parts::Parts;
use crate::server::stop::{self, Stop};
use crate::server::systemd::{self, Passed};
use crate::server::{descriptors, opening, reload};
use crate::store;
use crate::store::Store;

/// Maximum time for writing the last entries of the audit log.
const AUDIT_MAX: Duration = Duration::from_secs(2);

/// Maximum time for which requests wait until the store is open; then the response says that it is not.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// Serves both APIs until stopped. On SIGHUP, `read_options` reads the options
/// again, and they are compared with `options`.
///
/// # Errors
/// Something needed could not be set up.
pub async fn serve(
    config: &Config,
    options: &[Source],
    read_options: ReadOptions,
    telemetry: &Arc<Telemetry>,
) -> Result<(), Failure> {
    if config.network.has_admin() || config.ui {
        metrics::collect();
        count_from_zero(config);
    }
    let parts = Parts::read(config)?;
    let of_policy = parts.warnings().iter().map(|warning| format!("policy: {warning}"));
    for warning in gone::warnings(options).chain(of_policy) {
        tracing::warn!("{warning}");
    }
    let audit = config.audit.start().map_err(Failure)?;
    let current = CurrentOptions::new(gone::in_force(options));
    let reloading = Reloading { started_with: sources::digests(options), read_options, current };
    let setup = Setup { parts, audit: audit.clone(), reloading };
    let listening = Listening::begin(config).await?;
    let database = Database::open_or_create(&config.database).await?;
    let served = serve_on(listening, setup, config, &database, telemetry).await;
    let ended = {
        let telemetry = Arc::clone(telemetry);
        tokio::task::spawn_blocking(move || telemetry.end_traces())
    };
    database.close().await;
    // It has a timeout of its own.
    drop(ended.await);
    if let Some(audit) = audit {
        let log = audit.clone();
        let drained = tokio::task::spawn_blocking(move || log.drain(AUDIT_MAX)).await;
        if !matches!(drained, Ok(true)) {
            let entries = audit.unwritten();
            tracing::error!(entries, "the end of the audit log was not written");
        }
    }
    if served.is_ok() {
        tracing::info!("stopped");
    }
    served
}

/// Initialises event counters with zero, so that the first event is seen as an increase.
fn count_from_zero(config: &Config) {
    policy::count_from_zero();
    store::count_from_zero();
    if config.auth != Auth::Noauth2 {
        Keystone::count_from_zero();
    }
}

/// A message for the operator if there are too few descriptors for all connections.
pub fn descriptor_shortage(config: &Config) -> Option<String> {
    let most = descriptors::most();
    descriptors::shortage(config.max_connections, most, config.database_connections)
}

/// Maximum number of connections: the configured one, unless there are too few descriptors.
fn connections(config: &Config) -> usize {
    let descriptors = descriptors::raise();
    let (configured, database) = (config.max_connections, config.database_connections);
    if let Some(why) = descriptors::shortage(configured, descriptors, database) {
        tracing::warn!("{why}; no more are accepted");
    }
    configured.min(descriptors::room(descriptors, database))
}

/// Everything that is made from the options before the server listens.
struct Setup {
    parts: Parts,
    audit: Option<AuditLog>,
    reloading: Reloading,
}

/// All listeners.
struct Listening {
    apis: Vec<(Api, Listener)>,
    admin: Vec<Listener>,
}

impl Listening {
    /// Listens on all addresses. Sockets passed by systemd replace the addresses of their API.
    async fn begin(config: &Config) -> Result<Self, Failure> {
        let mut listening = Self::passed(config)?;
        let has = |api: Api| listening.apis.iter().any(|(passed, _)| *passed == api);
        let (has_placement, has_planner) = (has(Api::Placement), has(Api::Planner));
        let placement = config.listen.iter().map(|endpoint| (Api::Placement, endpoint));
        let planner = config.planner.endpoints().map_err(Failure)?;
        let planner = planner.into_iter().map(|endpoint| (Api::Planner, endpoint));
        for (api, endpoint) in placement.chain(planner) {
            let (option, is_passed) = match api {
                Api::Placement => ("--listen", has_placement),
                Api::Planner => ("--planner-listen", has_planner),
            };
            if !is_passed {
                listening.apis.push((api, listen(endpoint, option).await?));
            }
        }
        if listening.admin.is_empty() {
            for endpoint in config.network.admin_endpoints().map_err(Failure)? {
                listening.admin.push(listen(endpoint, "--admin-listen").await?);
            }
        }
        Ok(listening)
    }

    /// The sockets passed by systemd, by name.
    fn passed(config: &Config) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure(format!("a socket of systemd: {error}"));
        let mut listening = Self { apis: Vec::new(), admin: Vec::new() };
        for Passed { name, listener } in systemd::sockets().map_err(failed)? {
            let endpoint = listener.endpoint().map_err(failed)?;
            let api = match name.as_str() {
                "placement" => Api::Placement,
                "planner" => Api::Planner,
                "admin" => {
                    listening.admin.push(listener);
                    continue;
                }
                other => {
                    return Err(Failure(format!(
                        "the socket {endpoint} of systemd has the name {other:?}; \
                         FileDescriptorName= must be placement, planner or admin"
                    )));
                }
            };
            config.check_reach([&endpoint]).map_err(Failure)?;
            listening.apis.push((api, listener));
        }
        Ok(listening)
    }

    /// The addresses, with a description of what is served there.
    fn addresses(&self) -> Result<Vec<(&'static str, Endpoint)>, Failure> {
        let apis = self.apis.iter().map(|(api, listener)| match api {
            Api::Placement => ("the Placement API", listener),
            Api::Planner => ("the planner", listener),
        });
        let admin = self.admin.iter().map(|listener| ("health and metrics", listener));
        let failed = |error: std::io::Error| Failure(error.to_string());
        let address =
            |(what, listener): (_, &Listener)| Ok((what, listener.endpoint().map_err(failed)?));
        apis.chain(admin).map(address).collect()
    }
}

async fn listen(endpoint: &Endpoint, option: &str) -> Result<Listener, Failure> {
    let failed = |error| Failure(format!("cannot listen on {endpoint} ({option}): {error}"));
    Listener::bind(endpoint).await.map_err(failed)
}

async fn serve_on(
    listening: Listening,
    setup: Setup,
    config: &Config,
    database: &Database,
    telemetry: &Arc<Telemetry>,
) -> Result<(), Failure> {
    let grace = config.shutdown_delay + config.shutdown_grace;
    let stop = stop::listen(grace, Arc::clone(telemetry)).map_err(Failure)?;
    let served = Box::pin(serve_until(&stop, listening, setup, config, database)).await;
    stop.served();
    served
}

/// Serves until stopped. Until the store is open, requests get an error; those that arrive while it is being opened
/// wait for a short time.
async fn serve_until(
    stop: &Stop,
    listening: Listening,
    setup: Setup,
    config: &Config,
    database: &Database,
) -> Result<(), Failure> {
    let Setup { parts, audit, reloading } = setup;
    let Parts { policy, trusted, cors, tls, identity, flavors, admin_token, .. } = parts;
    let policy = Arc::new(policy);
    let opened = Arc::new(OnceLock::new());
    let current_options = reloading.current.clone();
    let tasks = Tasks::default();
    tasks.spawn(reload::follow(Arc::clone(&policy), Arc::clone(&opened), reloading));
    let addresses = listening.addresses()?;
    let options = Options { audit, admin_token, ..options(config, cors)? };
    let write_timeout = options.body_timeout;
    let backend = Arc::new(Backend::waiting(options.clone(), trusted.clone()));
    let waiting = Notify::new();
    let reports = OnceLock::new();
    let opening = async {
        let store = opening::open(database, config, &flavors, &waiting).await?;
        if config.planner.planner_hold_ttl > 0 {
            tasks.spawn(expire(store.clone(), config.planner.planner_hold_ttl));
        }
        drop(opened.set(store.clone()));
        drop(reports.set(announce(config, &store, &backend, &tasks).await));
        let app = App::new(store, options)
            .with_identity(identity)
            .with_policy(policy)
            .with_current_options(current_options)
            .with_trusted_proxies(trusted);
        tasks.spawn(http::count_flavors(app.clone(), config.network.counted_flavors()));
        backend.open(app);
        for (what, address) in addresses {
            tracing::info!(%address, version = version::line(), "serving {what}");
        }
        Ok::<(), Failure>(())
    };
    let mut opening = std::pin::pin!(opening);
    let mut is_open = tokio::select! {
        opened = &mut opening => opened.map(|()| true)?,
        () = waiting.notified() => false,
        () = tokio::time::sleep(SILENT_MAX) => false,
        () = stop.requested() => return Ok(()),
    };
    // From here on requests get a response, even if it is 503 because the database is unavailable.
    systemd::ready();
    let bounds = bounds(config, write_timeout);
    let Listening { apis: listeners, admin } = listening;
    let admin_tls = config.network.admin_tls;
    let sockets = ServerListeners { listeners, tls: tls.clone(), admin, admin_tls };
    let stopped = async {
        keep_current(tls, stop.requested()).await;
        systemd::stopping();
    };
    let mut serving =
        std::pin::pin!(http::edge::server::serve(sockets, Arc::clone(&backend), bounds, stopped));
    let mut watchdog = std::pin::pin!(systemd::watchdog());
    let mut status = Box::pin(keep_status(&backend, stop));
    loop {
        tokio::select! {
            opened = &mut opening, if !is_open => {
                opened?;
                is_open = true;
            }
            () = &mut serving => break,
            () = &mut watchdog => {}
            () = &mut status, if is_open => {}
        }
    }
    tasks.end().await;
    if let Some(reports) = reports.get() {
        reports.end().await;
    }
    Ok(())
}

/// Reports the replica to the others from now on.
async fn announce(
    config: &Config,
    store: &Store,
    backend: &Arc<Backend>,
    tasks: &Tasks,
) -> Reports {
    let reports = Box::pin(Reports::start(store.clone(), Arc::clone(backend), config)).await;
    tasks.spawn(reports.clone().run());
    reports
}

/// Keeps systemd's status line true until a stop is requested, which sets another. Never returns.
async fn keep_status(backend: &Backend, stop: &Stop) {
    tokio::select! {
        () = systemd::keep_status(async || backend.readiness().await) => {}
        () = stop.requested() => std::future::pending().await,
    }
}

/// Returns the bounds of connections.
fn bounds(config: &Config, write_timeout: Duration) -> Bounds {
    Bounds {
        connections: connections(config),
        header_timeout: HEADER_TIMEOUT,
        idle_timeout: IDLE_TIMEOUT,
        write_timeout,
        shutdown_delay: config.shutdown_delay,
        shutdown_grace: config.shutdown_grace,
    }
}

/// Tasks that use the database, and must end before it is closed.
#[derive(Default)]
struct Tasks(Mutex<JoinSet<()>>);

impl Tasks {
    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks().spawn(task);
    }

    async fn end(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks());
        tasks.shutdown().await;
    }
}

/// Ends holds `ttl` seconds after the last change of their plan. All replicas do this; it does not matter
/// which is first.
async fn expire(store: Store, ttl: u32) {
    let period = Duration::from_secs(u64::from(ttl / 4)).clamp(EXPIRY_MIN, EXPIRY_MAX);
    loop {
        match store.expire_holds(ttl).await {
            Ok(expired) if expired.is_empty() => tokio::time::sleep(period).await,
            Ok(expired) => {
                for placement in expired {
                    tracing::info!(%placement, ttl, "the hold of a placement has expired");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "ending holds failed");
                tokio::time::sleep(period).await;
            }
        }
    }
}

/// Minimum and maximum interval for checking expired holds.
const EXPIRY_MIN: Duration = Duration::from_secs(1);
const EXPIRY_MAX: Duration = Duration::from_mins(1);

/// Keeps the certificate up to date until `stop` is ready.
async fn keep_current(tls: Option<Arc<Tls>>, stop: impl Future<Output = ()>) {
    let Some(tls) = tls else { return stop.await };
    tokio::select! {
        () = stop => {}
        () = tls.keep_current() => {}
    }
}

/// The API's options.
fn options(config: &Config, cors: Option<Cors>) -> Result<Options, Failure> {
    Ok(Options {
        max_allocation_candidates: usize::try_from(config.max_allocation_candidates).ok(),
        candidate_order: config.candidate_order().map_err(Failure)?,
        generation_strategy: match config.allocation_candidates_generation_strategy {
            GenerationStrategy::DepthFirst => Strategy::DepthFirst,
            GenerationStrategy::BreadthFirst => Strategy::BreadthFirst,
        },
        max_requests: config.network.max_requests,
        path_prefix: config.path_prefix.clone().unwrap_or_default(),
        console: config.ui,
        cors,
        history: config.history.days().is_some() || config.events.events.is_some(),
        slow_request: config.traces.slow_request(),
        planner: config.planner.settings(),
        headroom: config.planner.planner_headroom.clone(),
        refused: config.refused.settings(),
        rates: Rates {
            project: config.network.rate_limit_project,
            user: config.network.rate_limit_user,
        },
        ..Options::default()
    })
}
