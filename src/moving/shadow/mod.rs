//! `berth shadow`: a proxy in front of a placement service, which compares Berth with it.
//!
//! Clients get the service's answers, as they are ([`proxy`]). What has passed is handed over to the
//! [`mirror`], through queues that drop what they have no room for. On threads of their own, [`reads`] are
//! sent to Berth and the answers compared ([`comparison`]), and accepted [`writes`] are repeated there.
//! [`tally`] counts, [`summary`] tells, [`records`] writes differences to a file, and [`admin`] is the
//! listener for operators.

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

use self::admin::{Admin, State};
use self::comparison::Report;
use self::mirror::{Bounds, Mirror, Queues};
use self::proxy::Proxy;
use self::reads::{Reader, SUSPECTS_MAX};
use self::records::Records;
pub use self::service::ServiceUrl;
use self::service::{PlacementService, client_tls};
use self::writes::Writer;
use crate::http::edge::listener::{Endpoint, Listener};
use crate::http::edge::server::{self, serve_with};
use crate::http::edge::tls::{Files, Tls};
use crate::observe::metrics;
use crate::observe::printable;
use crate::observe::telemetry::Telemetry;
use crate::observe::version;
use crate::server::descriptors;
use crate::server::stop::{self, Stop};
use crate::server::systemd;

/// Threads that mirror and compare, and by how much they stand back behind those of the real path.
const THREADS: usize = 2;
const NICENESS: i32 = 10;
/// Connections of the listener for operators.
const ADMIN_CONNECTIONS: usize = 16;
/// How long the last differences may take to be written.
const RECORDS_MAX: Duration = Duration::from_secs(2);
/// Descriptors for each connection of a client: its own, and one to the upstream.
const DESCRIPTORS_EACH: u32 = 2;

/// What the proxy is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The service whose answers clients get.
    pub upstream: ServiceUrl,
    /// The Berth that is compared with it.
    pub berth: ServiceUrl,
    /// Where clients are listened to.
    pub listen: Vec<Endpoint>,
    /// Where operators are listened to.
    pub admin_listen: Vec<Endpoint>,
    /// TLS for clients, if they have it.
    pub tls: Option<Files>,
    /// Authorities of both services' certificates, instead of the system's: a PEM file.
    pub ca_file: Option<PathBuf>,
    /// Whether writes are repeated in Berth.
    pub mirror_writes: bool,
    /// Requests that may wait to be mirrored, of each kind.
    pub queue: usize,
    /// Reads that are mirrored at once.
    pub workers: usize,
    /// Bytes of all bodies that wait or are compared.
    pub memory: usize,
    /// Bytes of a body that is compared.
    pub body: usize,
    /// How often a difference must be seen again before it counts.
    pub confirmations: usize,
    /// Where differences are written, and how many bytes.
    pub differences: Option<(PathBuf, u64)>,
    /// The time for the upstream to begin its answer.
    pub upstream_timeout: Duration,
    /// The time for Berth's whole answer.
    pub berth_timeout: Duration,
    /// The bounds of clients' connections.
    pub bounds: server::Bounds,
}

/// Serves until told to stop. Returns the summary in words.
///
/// # Errors
/// Something that is needed could not be had: a sentence for the operator.
pub async fn run(options: Options, telemetry: &Arc<Telemetry>) -> Result<String, String> {
    metrics::collect_for_shadow();
    let parts = Parts::new(&options)?;
    let listeners = listen(&options.listen, "--listen").await?;
    let admin = listen(&options.admin_listen, "--admin-listen").await?;
    let tls = options.tls.clone().map(Tls::new).transpose()?.map(Arc::new);
    let runtime = runtime().map_err(|error| format!("no threads for the mirror: {error}"))?;
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
    let front = Front { listeners, admin, tls };
    serve(options.bounds, &parts, front, &state, &stop).await;
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

/// What is listened on.
struct Front {
    listeners: Vec<Listener>,
    admin: Vec<Listener>,
    tls: Option<Arc<Tls>>,
}

/// Serves clients and operators until told to stop.
async fn serve(
    bounds: server::Bounds,
    parts: &Parts,
    front: Front,
    state: &Arc<State>,
    stop: &Stop,
) {
    let Front { listeners, admin, tls } = front;
    let proxy = Proxy::new(parts.upstream.clone(), Arc::clone(&parts.mirror));
    let answering = Admin(Arc::clone(state));
    let room = descriptors::room(descriptors::raise() / u64::from(DESCRIPTORS_EACH), 0);
    let bounds = server::Bounds { connections: bounds.connections.min(room), ..bounds };
    let of_admin = server::Bounds {
        connections: ADMIN_CONNECTIONS,
        shutdown_grace: Duration::from_secs(1),
        ..bounds
    };
    let certificate = tls.clone();
    let told = async {
        match certificate {
            Some(tls) => tokio::select! {
                () = stop.told() => {}
                () = tls.keep_current() => {}
            },
            None => stop.told().await,
        }
        systemd::stopping();
    };
    let clients = serve_with(listeners, tls, bounds, |_| proxy.clone(), told);
    let mut clients = std::pin::pin!(clients);
    // Operators are answered as long as clients are.
    tokio::select! {
        () = &mut clients => {}
        () = serve_with(admin, None, of_admin, |_| answering.clone(), std::future::pending()) => {}
    }
}

/// What the process is made of.
struct Parts {
    upstream: PlacementService,
    berth: PlacementService,
    mirror: Arc<Mirror>,
    report: Arc<Report>,
    queues: std::sync::Mutex<Option<Queues>>,
}

impl Parts {
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

    /// Starts what mirrors.
    fn start(&self, options: &Options, runtime: &Runtime) -> Arc<State> {
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
        Arc::new(State {
            mirror,
            report,
            upstream: options.upstream.to_string(),
            berth: options.berth.to_string(),
            began: Instant::now(),
        })
    }
}

/// The threads of the mirror, which the system lets run after those of the real path.
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
        let told = |error| format!("cannot listen on {endpoint} ({option}): {error}");
        listeners.push(bound.map_err(told)?);
    }
    Ok(listeners)
}

/// The signals beside those that stop.
struct Signals {
    summary: Signal,
    switch: Signal,
    /// Would end the process. With TLS, the certificate is read again.
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

/// SIGUSR1 prints the summary, SIGUSR2 turns the mirror off, or on if it is off.
async fn obey(state: Arc<State>, mut signals: Signals) {
    loop {
        tokio::select! {
            _ = signals.summary.recv() => {
                let words = state.summary().words();
                let print = move || drop(writeln!(std::io::stdout(), "{}", printable::output(&words)));
                // Nobody may read standard output.
                tokio::task::spawn_blocking(print);
            }
            _ = signals.switch.recv() => {
                state.mirror.turn(!state.mirror.is_on());
            }
            _ = signals.hangup.recv() => tracing::info!("there is no configuration to read again"),
        }
    }
}
