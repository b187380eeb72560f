//! The load that wrk cannot make: requests that differ in method and body, requests that depend on the previous
//! response, and requests at a fixed rate. Also the server that shows the limits of the machine: it always sends
//! the same bytes.
//!
//! Prints a line when its connections are open, and a JSON object when it is done. Used by `bench/measure.py`; see
//! `bench/run --help`.

#![expect(clippy::print_stdout, reason = "its answer goes there")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use bytes::Bytes;
use clap::{Args, Parser, Subcommand};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Parser)]
#[command(about = "Load for bench/run")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answers every request with the bytes of a file.
    Constant {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        body: PathBuf,
    },
    /// Sends requests from a file, one JSON object {method, path, body} a line.
    Replay {
        #[arg(long)]
        file: PathBuf,
        /// Requests begun a second; without it, each worker sends its next when it has an answer.
        #[arg(long)]
        rate: Option<f64>,
        #[command(flatten)]
        load: Load,
    },
    /// Asks for candidates and claims one of them, chosen at random, over and over.
    Boots {
        /// Path and query that give candidates.
        #[arg(long)]
        query: String,
        #[command(flatten)]
        load: Load,
    },
}

#[derive(Args, Clone)]
struct Load {
    /// Servers, taken in turn.
    #[arg(long, required = true)]
    target: Vec<SocketAddr>,
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Requests that have begun by then are waited for. Without it: until the file ends.
    #[arg(long)]
    seconds: Option<f64>,
    /// Open a connection for each request, for servers that close them.
    #[arg(long)]
    fresh: bool,
}

impl Load {
    fn ends(&self, started: Instant) -> Option<Instant> {
        self.seconds.map(|seconds| started + Duration::from_secs_f64(seconds))
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match Cli::parse().command {
        Command::Constant { listen, body } => {
            let body = Bytes::from(std::fs::read(body)?);
            let app = Router::new().fallback(move || std::future::ready(body.clone()));
            Ok(axum::serve(TcpListener::bind(listen).await?, app).await?)
        }
        Command::Replay { file, rate, load } => replay(&file, rate, load).await,
        Command::Boots { query, load } => boots(query, load).await,
    }
}

/// One request of a file.
#[derive(Deserialize)]
struct Line {
    method: String,
    path: String,
    #[serde(default)]
    body: String,
}

async fn replay(file: &PathBuf, rate: Option<f64>, load: Load) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file)?;
    let lines: Vec<Line> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let (lines, next) = (Arc::new(lines), Arc::new(AtomicUsize::new(0)));
    run(load, move |mut client, started, ends| {
        let (lines, next) = (Arc::clone(&lines), Arc::clone(&next));
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let line = match lines.get(number) {
                    Some(line) => line,
                    // For a time, a file goes round; bodies of claims would repeat, so it may not.
                    None if ends.is_some() && lines.iter().all(|line| line.body.is_empty()) => {
                        &lines[number % lines.len()]
                    }
                    None => break,
                };
                // At a fixed rate, waiting for a worker counts: a slow response delays the next.
                let mut due = Instant::now();
                if let Some(rate) = rate {
                    #[expect(clippy::cast_precision_loss, reason = "a number of requests")]
                    let after = Duration::from_secs_f64(number as f64 / rate);
                    due = started + after;
                    tokio::time::sleep_until(due.into()).await;
                }
                if ends.is_some_and(|ends| due >= ends) {
                    break;
                }
                let target = client.pick(number);
                let (status, _) = client.send(target, &line.method, &line.path, &line.body).await?;
                client.note(status, due);
            }
            Ok(client)
        }
    })
    .await
}

async fn boots(query: String, load: Load) -> Result<(), Failure> {
    let next = Arc::new(AtomicUsize::new(0));
    run(load, move |mut client, _, ends| {
        let (query, next) = (query.clone(), Arc::clone(&next));
        async move {
            while ends.is_none_or(|ends| Instant::now() < ends) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let begun = Instant::now();
                // Reading and writing meet different replicas.
                let (asked, told) = (client.pick(number), client.pick(number + 1));
                let (status, body) = client.send(asked, "GET", &query, "").await?;
                if status != 200 {
                    client.note(status, begun);
                    continue;
                }
                let consumer = uuid::Uuid::new_v4();
                let allocations = pick_candidate(&body, consumer.as_u128())
                    .ok_or("an answer without candidates")?;
                let claim = format!(
                    "{{\"allocations\":{allocations},\"consumer_generation\":null,\
                     \"project_id\":\"project\",\"user_id\":\"user\"}}"
                );
                let path = format!("/allocations/{consumer}");
                let (status, _) = client.send(told, "PUT", &path, &claim).await?;
                client.note(status, begun);
            }
            Ok(client)
        }
    })
    .await
}

/// Returns the allocations of a candidate: the first that begins after a random position of the response, which
/// is not parsed, because that would cost more than making it.
fn pick_candidate(body: &[u8], random: u128) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    let end = text.find("\"provider_summaries\"").unwrap_or(text.len());
    let requests = text.get(..end)?;
    let key = "\"allocations\":";
    let from = usize::try_from(random % u128::try_from(requests.len()).ok()?).ok()?;
    let found = requests.get(from..).and_then(|rest| rest.find(key)).map(|at| at + from);
    let at = found.or_else(|| requests.find(key))? + key.len();
    let object = requests.get(at..)?.trim_start();
    let mut depth = 0_usize;
    for (place, byte) in object.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return object.get(..=place);
        }
    }
    None
}

/// The results: the number of each status, and the durations in seconds, but of those that were shed.
#[derive(Default)]
struct Tally {
    statuses: BTreeMap<u16, usize>,
    took: Vec<f64>,
}

/// A worker's connections, one to each target.
struct Client {
    load: Load,
    connections: Vec<Option<SendRequest<Full<Bytes>>>>,
    tally: Tally,
}

impl Client {
    fn pick(&self, number: usize) -> usize {
        number % self.load.target.len()
    }

    fn note(&mut self, status: u16, begun: Instant) {
        *self.tally.statuses.entry(status).or_default() += 1;
        if status < 500 {
            self.tally.took.push(begun.elapsed().as_secs_f64());
        }
    }

    async fn send(
        &mut self,
        target: usize,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<(u16, Bytes), Failure> {
        let address = self.load.target[target];
        let mut connection = match self.connections[target].take() {
            Some(connection) => connection,
            None => connect(address).await?,
        };
        connection.ready().await?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", address.to_string())
            .header("x-auth-token", "admin")
            .header("accept", "application/json")
            .header("openstack-api-version", "placement 1.36");
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())))?;
        let answer = connection.send_request(request).await?;
        let status = answer.status().as_u16();
        let bytes = answer.into_body().collect().await?.to_bytes();
        if !self.load.fresh {
            self.connections[target] = Some(connection);
        }
        Ok((status, bytes))
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, Failure> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Runs the workers and prints what they found.
async fn run<F>(
    load: Load,
    work: impl Fn(Client, Instant, Option<Instant>) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<Client, Failure>> + Send + 'static,
{
    let mut clients = Vec::with_capacity(load.workers);
    for _ in 0..load.workers {
        let mut connections = Vec::new();
        for target in &load.target {
            connections.push(if load.fresh { None } else { Some(connect(*target).await?) });
        }
        clients.push(Client { load: load.clone(), connections, tally: Tally::default() });
    }
    println!("ready");
    let started = Instant::now();
    let ends = load.ends(started);
    let workers: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(work(client, started, ends))).collect();
    let mut all = Tally::default();
    // Closing connections would be work for the servers before the end.
    let mut open = Vec::new();
    for worker in workers {
        let mut client = worker.await??;
        for (status, count) in std::mem::take(&mut client.tally.statuses) {
            *all.statuses.entry(status).or_default() += count;
        }
        all.took.append(&mut client.tally.took);
        open.push(client);
    }
    let elapsed = started.elapsed().as_secs_f64();
    all.took.sort_by(f64::total_cmp);
    let at = |part: usize| all.took.get(all.took.len() * part / 1000).copied();
    let told = serde_json::json!({
        "seconds": elapsed,
        "statuses": all.statuses,
        "p50": at(500),
        "p99": at(990),
    });
    println!("{told}");
    Ok(())
}
