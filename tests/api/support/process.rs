//! `berth serve` in its own process, with requests over real sockets.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};

/// Timeout for the first response of a server, including recovery after a crash.
const READY_MAX: Duration = Duration::from_mins(2);

/// A server with a private PostgreSQL under a directory of its own.
pub struct Server {
    child: Child,
    pub directory: PathBuf,
    pub address: String,
    pub client: reqwest::Client,
}

impl Server {
    /// Starts one and waits until it answers.
    pub async fn start(directory: &Path) -> Self {
        Self::start_with(directory, &[]).await
    }

    /// The same with more options.
    pub async fn start_with(directory: &Path, options: &[&str]) -> Self {
        let server = Self::spawn(directory, options);
        server.ready().await;
        server
    }

    /// Starts one, which may not answer yet, or never.
    pub fn spawn(directory: &Path, options: &[&str]) -> Self {
        Self::spawn_program(env!("CARGO_BIN_EXE_berth").as_ref(), directory, options)
    }

    /// The same with another program, such as that of an earlier release.
    pub fn spawn_program(program: &OsStr, directory: &Path, options: &[&str]) -> Self {
        Self::spawn_program_at(program, &format!("127.0.0.1:{}", free_port()), directory, options)
    }

    /// The same at an address, where another one was before.
    pub fn spawn_at(address: &str, directory: &Path, options: &[&str]) -> Self {
        let program = env!("CARGO_BIN_EXE_berth").as_ref();
        Self::spawn_program_at(program, address, directory, options)
    }

    fn spawn_program_at(
        program: &OsStr,
        address: &str,
        directory: &Path,
        options: &[&str],
    ) -> Self {
        let log =
            File::options().create(true).append(true).open(directory.join("berth.log")).unwrap();
        let plans = options.contains(&"--planner-listen");
        let without_planner: &[&str] = if plans { &[] } else { &["--planner-listen", "none"] };
        let child = Command::new(program)
            .args(["serve", "--listen", address, "--data-dir"])
            .arg(directory.join("data"))
            .args(without_planner)
            .args(options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        // Installed already, if this is not the first server.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = reqwest::Client::builder().timeout(READY_MAX).build().unwrap();
        Self { child, directory: directory.to_owned(), address: address.to_owned(), client }
    }

    /// Waits until reads of the database's state succeed.
    pub async fn ready(&self) {
        let began = Instant::now();
        loop {
            if let Ok((200, _)) = self.ask("GET", "/resource_providers", None).await {
                return;
            }
            let is_late = began.elapsed() > READY_MAX;
            assert!(!is_late, "no answer from {}: {}", self.address, self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Status and body of an answer.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, String), reqwest::Error> {
        let method = method.parse().unwrap();
        let mut request = self
            .client
            .request(method, format!("http://{}{path}", self.address))
            .header("x-auth-token", "admin")
            .header("openstack-api-version", "placement 1.39");
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        Ok((status, answer.text().await?))
    }

    /// The process id of its PostgreSQL.
    pub fn postgres(&self) -> String {
        let path = self.directory.join("data/postgres/postmaster.pid");
        std::fs::read_to_string(path).unwrap().lines().next().unwrap().to_owned()
    }

    /// A session of its PostgreSQL, as an administrator with psql has it.
    pub async fn session(&self) -> PgConnection {
        let options = PgConnectOptions::new_without_pgpass()
            .socket(self.directory.join("data"))
            .username("berth")
            .database("berth");
        PgConnection::connect_with(&options).await.unwrap()
    }

    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    /// The exit code of a server that is bound to end, and all that it has logged.
    pub async fn ended(&mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.log());
            }
            assert!(began.elapsed() < READY_MAX, "it goes on: {}", self.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// All that it has logged until now. Lines are written after the response: `logged` waits for one.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("berth.log")).unwrap()
    }

    /// Waits for a line of the log with these words, and returns the first.
    pub async fn logged(&self, words: &str) -> String {
        self.logged_times(words, 1).await.swap_remove(0)
    }

    /// Waits for a number of lines of the log with these words, and returns all.
    pub async fn logged_times(&self, words: &str, times: usize) -> Vec<String> {
        let began = Instant::now();
        loop {
            let log = self.log();
            let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let lines: Vec<_> = whole.lines().filter(|line| line.contains(words)).collect();
            if lines.len() >= times {
                return lines.into_iter().map(str::to_owned).collect();
            }
            assert!(began.elapsed() < READY_MAX, "{words}: {log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The faults that `berth db check` finds, once the server has ended.
    pub fn faults(mut self) -> String {
        signal("KILL", &self.pid());
        self.wait();
        let check = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(["db", "check", "--log", "warn", "--data-dir"])
            .arg(self.directory.join("data"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&check.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its PostgreSQL stops when it sees the process end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Sends a signal by name. No program is run for it: `kill` is not installed everywhere.
pub fn signal(name: &str, pid: &str) {
    let signal = match name {
        "HUP" => Signal::HUP,
        "KILL" => Signal::KILL,
        "TERM" => Signal::TERM,
        other => panic!("signal {other}"),
    };
    let process = Pid::from_raw(pid.parse().unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

/// Returns a free port of 127.0.0.1 that no other test on this machine is given.
///
/// The port belongs to this process until it ends: the process holds a lock on a file named after
/// it, as `tests/conformance/harness/ports.py` does. It is below Linux's ephemeral ports, so no
/// outgoing connection takes it before a server listens there, or while that server restarts.
pub fn free_port() -> u16 {
    const FIRST: u32 = 15_000;
    const COUNT: u32 = 17_000;
    static LEASES: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let user = rustix::process::getuid().as_raw();
    let directory = std::env::temp_dir().join(format!("berth-test-ports-{user}"));
    std::fs::create_dir_all(&directory).unwrap();
    let start = std::process::id() % COUNT * 97;
    for offset in 0..COUNT {
        let port = u16::try_from(FIRST + (start + offset) % COUNT).unwrap();
        let lease = File::create(directory.join(port.to_string())).unwrap();
        if lease.try_lock().is_ok() {
            LEASES.lock().unwrap().push(lease);
            if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    }
    panic!("no port is free");
}
