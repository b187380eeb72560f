//! `berth shadow`: a proxy in front of a placement service that compares Berth with it.
//!
//! Clients get the service's responses unchanged ([`proxy`]). Copies of the exchanges go to the [`mirror`], through
//! queues that drop requests when they are full. On separate threads, [`reads`] are sent to Berth and the responses
//! compared ([`comparison`]), and accepted [`writes`] are repeated there. [`tally`] counts, [`summary`] formats the
//! counts, [`records`] writes differences to a file, and [`admin`] is the listener for operators.

mod admin;
mod comparison;
mod copied_body;
mod exchange;
mod headers;
mod mirror;
mod proxy;
mod reads;
mod recent_writes;
mod records;
mod route;
mod service;
mod summary;
mod tally;
mod writes;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, mpsc};

use self::admin::{Admin, AdminState};
use self::comparison::Report;
use self::mirror::{Bounds, Mirror, Queues};
use self::proxy::Proxy;
use self::reads::{Reader, SUSPECTS_MAX};
use self::records::Records;
pub use self::service::ServiceUrl;
use self::service::{PlacementService, client_tls};
use self::writes::Writer;
use crate::http::edge::bounds;
use crate::http::edge::listener::{Endpoint, Listener};
use crate::http::edge::server::serve_with;
use crate::http::edge::tls::{Files, Tls};
use crate::observe::telemetry::Telemetry;
use crate::observe::{metrics, printable, version};
use crate::server::stop::{self, Stop};
use crate::server::{descriptors, systemd};

/// Number and niceness of the threads that mirror and compare.
const THREADS: usize = 2;
const NICENESS: i32 = 10;
/// Maximum number of connections to the operators' listener.
const ADMIN_CONNECTIONS: usize = 16;
/// Maximum time for writing the last differences.
const RECORDS_MAX: Duration = Duration::from_secs(2);
/// File descriptors per client connection: its own, and one to the upstream.
const DESCRIPTORS_EACH: u32 = 2;

/// Options of `berth shadow`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The service whose responses clients get.
    pub upstream: ServiceUrl,
    /// The Berth service to compare with it.
    pub berth: ServiceUrl,
    /// Listeners for clients.
    pub listen: Vec<Endpoint>,
    /// Listeners for operators.
    pub admin_listen: Vec<Endpoint>,
    /// TLS for clients, if any.
    pub tls: Option<Files>,
    /// Certificate authorities for both services, instead of the system's: a PEM file.
    pub ca_file: Option<PathBuf>,
    /// Whether writes are repeated in Berth.
    pub mirror_writes: bool,
    /// Maximum number of requests of each kind that wait to be mirrored.
    pub queue: usize,
    /// Maximum number of reads that are mirrored at once.
    pub workers: usize,
    /// Maximum number of bytes of all bodies that wait or are compared.
    pub memory: usize,
    /// Maximum number of bytes of a body that is compared.
    pub body: usize,
    /// Number of repetitions after which a difference counts.
    pub confirmations: usize,
    /// File for differences, and its maximum size in bytes.
    pub differences: Option<(PathBuf, u64)>,
    /// Timeout until the upstream begins its response.
    pub upstream_timeout: Duration,
    /// Timeout for Berth's complete response.
    pub berth_timeout: Duration,
    /// Bounds of client connections.
    pub bounds: bounds::Bounds,
}

/// Serves until stopped. Returns the summary as text.
///
/// # Errors
/// Something needed could not be set up; the message is for the operator.
pub async fn run(options: Options, telemetry: &Arc<Telemetry>) -> Result<String, String> {
    metrics::collect_for_shadow();
    let parts = Components::new(&options)?;
    let listeners = listen(&options.listen, "--listen").await?;
    let admin = listen(&options.admin_listen, "--admin-listen").await?;
    let tls = options.tls.clone().map(Tls::new).transpose()?.map(Arc::new);
    let runtime =
        runtime().map_err(|error| format!("cannot start the mirror's threads: {error}"))?;
    let stop = stop::listen(options.bounds.shutdown_grace, Arc::clone(telemetry))?;
    let state = parts.start(&options, &runtime);
    let upkeep = tokio::spawn(metrics::keep_up());
    let signals = tokio::spawn(obey(Arc::clone(&state), Signals::new()?));
    for listener in listeners.iter().chain(&admin) {
        let address = listener.endpoint().map_err(|error| error.to_string())?;
        tracing::info!(%address, version = version::line(), "listening");
    }
    let (upstream, berth) = (&options.upstream, &options.berth);
    tracing::info!(%upstream, %berth, mirror_writes = options.mirror_writes, "shadowing");
    systemd::ready();
    let listening = ShadowListeners { listeners, admin, tls };
    serve(options.bounds, &parts, listening, &state, &stop).await;
    stop.served();
    let until = Instant::now() + options.bounds.shutdown_grace;
    if !parts.mirror.drain(until).await {
        tracing::warn!("some requests were not mirrored before the end");
    }
    signals.abort();
    upkeep.abort();
    runtime.shutdown_background();
    if let Some(records) = &parts.report.records
        && !records.end(RECORDS_MAX)
    {
        tracing::error!("the last differences were not written");
    }
    Ok(state.summary().words())
}

/// The listeners.
struct ShadowListeners {
    listeners: Vec<Listener>,
    admin: Vec<Listener>,
    tls: Option<Arc<Tls>>,
}

/// Serves clients and operators until stopped.
async fn serve(
    bounds: bounds::Bounds,
    parts: &Components,
    listening: ShadowListeners,
    state: &Arc<AdminState>,
    stop: &Stop,
) {
    let ShadowListeners { listeners, admin, tls } = listening;
    let proxy = Proxy::new(parts.upstream.clone(), Arc::clone(&parts.mirror));
    let answering = Admin(Arc::clone(state));
    let room = descriptors::room(descriptors::raise() / u64::from(DESCRIPTORS_EACH), 0);
    let bounds = bounds::Bounds { connections: bounds.connections.min(room), ..bounds };
    let of_admin = bounds::Bounds {
        connections: ADMIN_CONNECTIONS,
        shutdown_grace: Duration::from_secs(1),
        ..bounds
    };
    let certificate = tls.clone();
    let stopped = async {
        match certificate {
            Some(tls) => tokio::select! {
                () = stop.requested() => {}
                () = tls.keep_current() => {}
            },
            None => stop.requested().await,
        }
        systemd::stopping();
    };
    let clients = serve_with(listeners, tls, bounds, |_| proxy.clone(), stopped);
    let mut clients = std::pin::pin!(clients);
    // Operators are served as long as clients are.
    tokio::select! {
        () = &mut clients => {}
        () = serve_with(admin, None, of_admin, |_| answering.clone(), std::future::pending()) => {}
    }
}

/// The components of the process.
struct Components {
    upstream: PlacementService,
    berth: PlacementService,
    mirror: Arc<Mirror>,
    report: Arc<Report>,
    queues: std::sync::Mutex<Option<Queues>>,
}

impl Components {
    fn new(options: &Options) -> Result<Self, String> {
        if options.upstream == options.berth {
            return Err("--upstream and --berth are the same service".to_owned());
        }
        let service = |url: &ServiceUrl, patience| {
            let tls = client_tls(options.ca_file.as_deref(), url)?;
            Ok::<_, String>(PlacementService::new(url.clone(), tls, patience))
        };
        let records = options.differences.as_ref().map(|(path, bytes_max)| {
            Records::open(path, *bytes_max)
                .map_err(|error| format!("--differences {}: {error}", path.display()))
        });
        let tally = Arc::default();
        let report = Report { tally: Arc::clone(&tally), records: records.transpose()? };
        let bounds = Bounds {
            writes: options.mirror_writes,
            queue: options.queue,
            memory: options.memory,
            body: options.body,
        };
        let (mirror, queues) = Mirror::new(bounds, tally);
        Ok(Self {
            upstream: service(&options.upstream, options.upstream_timeout)?,
            berth: service(&options.berth, options.berth_timeout)?,
            mirror: Arc::new(mirror),
            report: Arc::new(report),
            queues: std::sync::Mutex::new(Some(queues)),
        })
    }

    /// Starts the mirror.
    fn start(&self, options: &Options, runtime: &Runtime) -> Arc<AdminState> {
        let (mirror, report) = (Arc::clone(&self.mirror), Arc::clone(&self.report));
        let queues = self.queues.lock().ok().and_then(|mut it| it.take());
        if let Some(Queues { reads, writes }) = queues {
            let (suspects, of_suspects) = mpsc::channel(SUSPECTS_MAX);
            let reader = Arc::new(Reader {
                mirror: Arc::clone(&mirror),
                upstream: self.upstream.apart(),
                berth: self.berth.clone(),
                report: Arc::clone(&report),
                suspects,
                confirmations: options.confirmations,
            });
            let queue = Arc::new(Mutex::new(reads));
            for _ in 0..options.workers {
                runtime.spawn(Arc::clone(&reader).run(Arc::clone(&queue)));
            }
            runtime.spawn(reader.confirm(of_suspects));
            let writer = Writer {
                mirror: Arc::clone(&mirror),
                berth: self.berth.clone(),
                report: Arc::clone(&report),
            };
            runtime.spawn(writer.run(writes));
        }
        Arc::new(AdminState {
            mirror,
            report,
            upstream: options.upstream.to_string(),
            berth: options.berth.to_string(),
            began: Instant::now(),
        })
    }
}

/// Starts the mirror's threads, at a lower priority than those of the proxy.
fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("mirror")
        .on_thread_start(|| {
            if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
                tracing::debug!(%error, "the mirror's threads have the usual priority");
            }
        })
        .enable_all()
        .build()
}

async fn listen(endpoints: &[Endpoint], option: &str) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    for endpoint in endpoints {
        let bound = Listener::bind(endpoint).await;
        let failed = |error| format!("cannot listen on {endpoint} ({option}): {error}");
        listeners.push(bound.map_err(failed)?);
    }
    Ok(listeners)
}

/// Signals other than those that stop the process.
struct Signals {
    summary: Signal,
    switch: Signal,
    /// Would end the process by default. With TLS, the certificate is read again.
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self, String> {
        let receive = |kind| signal(kind).map_err(|it| format!("signals cannot be received: {it}"));
        Ok(Self {
            summary: receive(SignalKind::user_defined1())?,
            switch: receive(SignalKind::user_defined2())?,
            hangup: receive(SignalKind::hangup())?,
        })
    }
}

/// SIGUSR1 prints the summary, SIGUSR2 switches the mirror off or on.
async fn obey(state: Arc<AdminState>, mut signals: Signals) {
    loop {
        tokio::select! {
            _ = signals.summary.recv() => {
                let words = state.summary().words();
                let print = move || drop(writeln!(std::io::stdout(), "{}", printable::output(&words)));
                // Standard output may block.
                tokio::task::spawn_blocking(print);
            }
            _ = signals.switch.recv() => {
                state.mirror.turn(!state.mirror.is_on());
            }
            _ = signals.hangup.recv() => tracing::info!("there is no configuration to reload"),
        }
    }
}
