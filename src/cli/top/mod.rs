//! `berth top`: shows the activity of a server, and changes in the cloud.

mod cloud;
mod exposition;
mod figures;
mod screen;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use reqwest::{Method, StatusCode, Url, header};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::cloud::Cloud;
use self::exposition::Samples;
use self::figures::Figures;
use self::screen::View;
use super::providers::version;
use super::service::ServiceOptions;
use crate::http::admin::token::AdminToken;
use crate::http_client::{ClientTls, HttpClient};
use crate::moving::placement_client::{Client, Microversion};
use crate::server::failure::Failure;

/// Maximum size of `/metrics`, in bytes.
const METRICS_MAX: usize = 16 << 20;
/// Timeout for `/metrics`.
const METRICS_TIMEOUT: Duration = Duration::from_secs(10);
/// Reading the whole cloud takes at most this part of the time.
const CLOUD_SHARE: u32 = 10;
/// Interval for checking keys.
const KEYS: Duration = Duration::from_millis(200);

/// Options of `top`.
#[derive(Args, Clone, Debug)]
pub struct TopOptions {
    /// Address of --admin-listen of one replica, whose metrics are shown.
    #[arg(
        long,
        env = "BERTH_ADMIN_URL",
        default_value = "http://127.0.0.1:8779",
        value_name = "URL"
    )]
    pub admin_url: Url,

    /// File with the token for the metrics, if the replica has one.
    #[arg(long, env = "BERTH_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,

    /// Seconds between two readings.
    #[arg(long, default_value = "2", value_name = "SECONDS",
          value_parser = clap::value_parser!(u16).range(1..=3600))]
    pub interval: u16,

    /// Take two readings, print the activity in between as JSON, and exit.
    #[arg(long)]
    pub json: bool,

    /// The service, Berth or OpenStack Placement.
    #[command(flatten)]
    pub service: ServiceOptions,
}

/// Actions of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Quit,
    Pause,
    Redraw,
}

/// Runs `berth top`, and returns its final output.
///
/// # Errors
/// The service does not respond, or standard output is not a terminal.
pub async fn run(options: &TopOptions) -> Result<String, Failure> {
    let client = options.service.reader()?;
    let version = version(&client).await?;
    let url = client.url().await.map_err(|error| Failure(error.to_string()))?.to_string();
    let poller = Poller::new(client, version, options, url)?;
    if options.json {
        return once(poller).await;
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure("standard output is not a terminal: see --json".to_owned()));
    }
    let mut terminal =
        ratatui::try_init().map_err(|error| Failure(format!("the terminal fails: {error}")))?;
    let done = watch(poller, &mut terminal).await;
    ratatui::restore();
    done.map(|()| String::new())
}

/// The activity in one interval, as JSON.
async fn once(mut poller: Poller) -> Result<String, Failure> {
    poller.poll_server().await;
    poller.poll_cloud().await;
    tokio::time::sleep(Duration::from_secs(poller.view.interval.into())).await;
    poller.poll_server().await;
    poller.poll_cloud().await;
    let View { server, cloud, hottest, .. } = poller.view;
    let cloud = cloud.map_err(Failure)?;
    let classes = cloud.map(|cloud| cloud.classes);
    let (server, why) = server.map_or_else(|why| (None, Some(why)), |it| (Some(it), None));
    let all =
        json!({"server": server, "server_unknown": why, "classes": classes, "hottest": hottest});
    Ok(format!("{all:#}"))
}

/// Shows the screen until a key ends it.
async fn watch(mut poller: Poller, terminal: &mut ratatui::DefaultTerminal) -> Result<(), Failure> {
    let mut keys = keys();
    let mut ticks = tokio::time::interval(Duration::from_secs(poller.view.interval.into()));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        terminal
            .draw(|frame| screen::draw(frame, &poller.view))
            .map_err(|error| Failure(format!("the terminal fails: {error}")))?;
        tokio::select! {
            key = keys.recv() => match key {
                None | Some(Key::Quit) => return Ok(()),
                Some(Key::Pause) => poller.view.is_paused = !poller.view.is_paused,
                Some(Key::Redraw) => {}
            },
            _ = ticks.tick(), if !poller.view.is_paused => {
                poller.poll_server().await;
                if poller.cloud_is_due() {
                    poller.poll_cloud().await;
                }
            }
        }
    }
}

/// Pressed keys, read by a separate thread.
fn keys() -> mpsc::Receiver<Key> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let key = match event::poll(KEYS)
                .and_then(|is_there| is_there.then(event::read).transpose())
            {
                Ok(None) => continue,
                Ok(Some(event)) => key_of(&event),
                Err(_) => Some(Key::Quit),
            };
            let Some(key) = key else { continue };
            if sender.blocking_send(key).is_err() {
                return;
            }
        }
    });
    receiver
}

fn key_of(event: &Event) -> Option<Key> {
    if let Event::Resize(..) = event {
        return Some(Key::Redraw);
    }
    let key = event.as_key_press_event()?;
    if key.code == KeyCode::Char('p') {
        return Some(Key::Pause);
    }
    let interrupts =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let quits = interrupts || key.code == KeyCode::Char('q') || key.code == KeyCode::Esc;
    quits.then_some(Key::Quit)
}

/// Reads the server and the cloud.
struct Poller {
    client: Client,
    version: Microversion,
    http: HttpClient,
    metrics: Url,
    token: Option<AdminToken>,
    view: View,
    samples: Option<(Instant, Samples)>,
    /// Time of the next snapshot of the cloud.
    due: Instant,
}

impl Poller {
    fn new(
        client: Client,
        version: Microversion,
        options: &TopOptions,
        url: String,
    ) -> Result<Self, Failure> {
        let failure = |error: &dyn std::fmt::Display| Failure(format!("--admin-url: {error}"));
        let metrics = options.admin_url.join("/metrics").map_err(|error| failure(&error))?;
        let token = options.admin_token_file.as_deref().map(AdminToken::read).transpose();
        let http = HttpClient::new(&ClientTls::default(), "the server");
        let view = View {
            url,
            interval: options.interval,
            is_paused: false,
            server: Err("no data yet".to_owned()),
            cloud: Ok(None),
            hottest: Vec::new(),
        };
        Ok(Self {
            client,
            version,
            http: http.map_err(|why| failure(&why))?,
            metrics,
            token: token.map_err(Failure)?,
            view,
            samples: None,
            due: Instant::now(),
        })
    }

    /// Reads the metrics, and computes the activity since the previous reading.
    async fn poll_server(&mut self) {
        match self.metrics().await {
            Err(why) => {
                self.samples = None;
                self.view.server = Err(format!(
                    "{}: {why}. Start `berth serve` with --admin-listen, and name its address with \
                     --admin-url.",
                    self.metrics
                ));
            }
            Ok(now) => {
                let at = Instant::now();
                if let Some((then, before)) = &self.samples {
                    let seconds = at.duration_since(*then).as_secs_f64();
                    self.view.server = Ok(Figures::between(before, &now, seconds));
                }
                self.samples = Some((at, now));
            }
        }
    }

    async fn metrics(&self) -> Result<Samples, String> {
        let request = self.http.request(Method::GET, self.metrics.clone());
        let request = match &self.token {
            Some(token) => request.header(header::AUTHORIZATION, token.authorization()),
            None => request,
        };
        let exchange = timeout(METRICS_TIMEOUT, self.http.exchange(request, METRICS_MAX)).await;
        let late = |_| format!("no response within {} s", METRICS_TIMEOUT.as_secs());
        let response = exchange.map_err(late)?.map_err(|error| error.to_string())?;
        if response.status != StatusCode::OK {
            return Err(format!("the response is {}", response.status));
        }
        Ok(Samples::parse(&String::from_utf8_lossy(&response.body)))
    }

    fn cloud_is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    async fn poll_cloud(&mut self) {
        let began = Instant::now();
        match Cloud::read(&self.client, self.version).await {
            Err(why) => self.view.cloud = Err(why.to_string()),
            Ok(now) => {
                if let Ok(Some(before)) = &self.view.cloud {
                    self.view.hottest = now.hottest(before);
                }
                self.view.cloud = Ok(Some(now));
            }
        }
        self.due = Instant::now() + began.elapsed() * CLOUD_SHARE;
    }
}
