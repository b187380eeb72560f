//! Kills replicas and their database as a failing machine does, and starts them again.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, PgConnection};

use crate::dice::Dice;
use crate::site::Site;
use crate::support::app::Berth;
use crate::support::cluster::{Cluster, until};
use crate::support::process::free_port;
use crate::support::served::PATIENCE;

const REPLICAS: usize = 2;
/// Pause after each kill: the minimum, and the maximum that is added at random.
const PAUSE: [u64; 2] = [2000, 6000];

/// A cluster of PostgreSQL with replicas over it, and who kills them.
pub struct Killer {
    cluster: Cluster,
    replicas: Vec<Replica>,
    logs: tempfile::TempDir,
    dice: Dice,
    next: Instant,
    /// Number of kills of each kind of process.
    pub kills: BTreeMap<&'static str, usize>,
}

/// `berth serve` as a process of its own.
struct Replica {
    child: Child,
    /// The addresses of the Placement API and the planner.
    addresses: [String; 2],
}

impl Killer {
    /// Replicas over a cluster of their own.
    pub async fn new() -> Self {
        let cluster = Cluster::new(&["max_connections=100"]).await;
        Berth::watch_deadlocks(&cluster.options()).await;
        let logs = tempfile::tempdir().unwrap();
        let start = |_| {
            let addresses = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
            let child = spawn(&cluster, &addresses, logs.path());
            Replica { child, addresses }
        };
        let replicas = (0..REPLICAS).map(start).collect();
        let (dice, next) = (Dice(0), Instant::now());
        Self { cluster, replicas, logs, dice, next, kills: BTreeMap::new() }
    }

    /// Lets other dice say what is killed, and when.
    pub fn throws(&mut self, dice: Dice) {
        self.dice = dice;
    }

    /// The replicas, once they answer.
    pub async fn sites(&self) -> Vec<Arc<Site>> {
        let options = self.cluster.options();
        let sites = self.replicas.iter().map(|it| it.addresses.clone());
        let sites: Vec<_> =
            sites.map(|addresses| Arc::new(Site::of_process(addresses, &options))).collect();
        for site in &sites {
            site.placement().get("/resource_providers").await.expect(200);
            site.planner().get("/v1/plans").await.expect(200);
        }
        sites
    }

    /// Whether it is time to kill again.
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Kills a replica, a session of the database, or all of the database, and starts what has to be started.
    pub async fn kill(&mut self) {
        let what = match self.dice.below(10) {
            0..6 => self.kill_replica(),
            6..8 => self.kill_session().await,
            _ => self.kill_database().await,
        };
        *self.kills.entry(what).or_insert(0) += 1;
        let [least, more] = PAUSE;
        let more = u64::try_from(self.dice.below(usize::try_from(more).unwrap())).unwrap();
        self.next = Instant::now() + Duration::from_millis(least + more);
    }

    fn kill_replica(&mut self) -> &'static str {
        let nth = self.dice.below(self.replicas.len());
        let replica = &mut self.replicas[nth];
        replica.child.kill().unwrap();
        replica.child.wait().unwrap();
        replica.child = spawn(&self.cluster, &replica.addresses, self.logs.path());
        "replica"
    }

    /// The server of a session is killed. PostgreSQL then ends all others and recovers as after a crash.
    async fn kill_session(&self) -> &'static str {
        let mut session = self.session().await;
        let pid: Option<i32> = sqlx::query_scalar(
            "select pid from pg_stat_activity where backend_type = 'client backend'
               and pid <> pg_backend_pid() order by xact_start desc nulls last, random() limit 1",
        )
        .fetch_optional(&mut session)
        .await
        .unwrap();
        if let Some(pid) = pid {
            send(pid, Signal::KILL);
            until("PostgreSQL ends its sessions", async || {
                sqlx::query("select").execute(&mut session).await.is_err()
            })
            .await;
        }
        "session of PostgreSQL"
    }

    /// All processes of the database are killed at once.
    async fn kill_database(&self) -> &'static str {
        let file = self.cluster.data().join("postmaster.pid");
        let words = std::fs::read_to_string(&file).unwrap();
        let postmaster: i32 = words.lines().next().unwrap().parse().unwrap();
        // A stopped process starts no further one.
        send(postmaster, Signal::STOP);
        let mut all = children(postmaster);
        all.push(postmaster);
        for pid in all.iter().rev() {
            send(*pid, Signal::KILL);
        }
        until("the processes of PostgreSQL end", async || !all.iter().any(|pid| is_alive(*pid)))
            .await;
        // Its process may not have been reaped, and then it still has its number.
        std::fs::remove_file(file).unwrap();
        // Meanwhile the port may have been given to another connection; that does not last.
        let began = Instant::now();
        while let Err(why) = self.cluster.try_start() {
            assert!(began.elapsed() < PATIENCE, "{why}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        "PostgreSQL"
    }

    /// A session of one's own with the database, once it has recovered.
    pub async fn session(&self) -> PgConnection {
        let mut session = None;
        until("PostgreSQL recovers", async || {
            session = PgConnection::connect_with(&self.cluster.options()).await.ok();
            session.is_some()
        })
        .await;
        session.unwrap()
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        for replica in &mut self.replicas {
            drop(replica.child.kill());
            drop(replica.child.wait());
        }
    }
}

/// Starts a replica over the cluster. Its log is one file for all its lives.
fn spawn(cluster: &Cluster, addresses: &[String; 2], logs: &Path) -> Child {
    let [placement, planner] = addresses;
    let log = logs.join(placement.replace(':', "-"));
    let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
    let database = format!("postgresql://berth@127.0.0.1:{}/berth", cluster.port);
    Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["serve", "--listen", placement, "--planner-listen", planner])
        .args(["--database-url", &database, "--database-connections", "20"])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

fn send(pid: i32, signal: Signal) {
    // It may have ended on its own.
    let _gone = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// The processes that a process has started.
fn children(parent: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| field(*pid, "PPid:") == Some(parent.to_string())).collect()
}

fn is_alive(pid: i32) -> bool {
    field(pid, "State:").is_some_and(|state| !state.starts_with('Z'))
}

/// Returns a field of a process from the system; `None` if there is no such process.
fn field(pid: i32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_owned())
}
