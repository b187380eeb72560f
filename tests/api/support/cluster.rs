//! PostgreSQL clusters of a test's own, that can be frozen, killed, copied and promoted, and a
//! forwarder in front of them.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::process::free_port;
use super::served::PATIENCE;

const NAME: &str = "berth";

/// A cluster. It is stopped and removed with this value.
pub struct Cluster {
    directory: tempfile::TempDir,
    pub port: u16,
}

impl Cluster {
    /// A running one, with a database `berth` that is migrated and empty.
    pub async fn new(settings: &[&str]) -> Self {
        let cluster = Self::empty();
        cluster.run("initdb", &["-U", NAME, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]);
        cluster.set(&["fsync=off", "max_connections=60", "listen_addresses='127.0.0.1'"]);
        cluster.set(settings);
        cluster.start();
        cluster.execute("postgres", "create database berth").await;
        let mut conn = PgConnection::connect_with(&cluster.options()).await.unwrap();
        berth::store::schema::migrate(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        cluster
    }

    /// A running standby of this one.
    pub fn standby(&self) -> Self {
        let standby = Self::empty();
        let copying = self.copy_to(&standby);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(copying));
        standby.start();
        standby
    }

    /// Copies its data while it runs. `pg_basebackup` does the same, but not all distributions of the
    /// server programs have it, and it takes no server that is newer than itself.
    async fn copy_to(&self, standby: &Self) {
        let mut conn = self.session().await;
        let version = "select current_setting('server_version_num')::int";
        let version: i32 = sqlx::query_scalar(version).fetch_one(&mut conn).await.unwrap();
        let (begin, end) = if version < 150_000 {
            ("pg_start_backup('standby', true, false)", "pg_stop_backup(false, false)")
        } else {
            ("pg_backup_start('standby', true)", "pg_backup_stop(false)")
        };
        let begin = format!("select {begin}::text");
        sqlx::query(sqlx::AssertSqlSafe(begin)).execute(&mut conn).await.unwrap();
        // Files may vanish meanwhile, and then cp fails; all needed files are replayed or streamed.
        let script = "cp -a \"$1\" \"$2\" 2>&-; cd \"$2\" && \
                      rm -rf postmaster.* pg_wal/* pg_replslot/* && touch standby.signal";
        let status = as_owner("sh")
            .args(["-c", script, "sh"])
            .args([self.data(), standby.data()])
            .status()
            .unwrap();
        assert!(status.success());
        let end = format!("select labelfile from {end}");
        let label: String =
            sqlx::query_scalar(sqlx::AssertSqlSafe(end)).fetch_one(&mut conn).await.unwrap();
        standby.append("backup_label", label.trim_end());
        let primary = format!("host=127.0.0.1 port={} user={NAME}", self.port);
        standby.set(&[&format!("primary_conninfo='{primary}'")]);
    }

    fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // As root, PostgreSQL runs as another user, who must be able to work there.
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        Self { directory, port: free_port() }
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Adds settings, which count from the next start.
    pub fn set(&self, settings: &[&str]) {
        self.append("postgresql.conf", &settings.join("\n"));
    }

    /// Adds lines to a file of its data, as its owner.
    fn append(&self, file: &str, lines: &str) {
        let path = self.data().join(file);
        let script = "printf '%s\\n' \"$1\" >> \"$2\"";
        let status = as_owner("sh").args(["-c", script, "sh", lines]).arg(path).status().unwrap();
        assert!(status.success());
    }

    pub fn start(&self) {
        self.try_start().unwrap();
    }

    /// Starts it, or says why it does not.
    pub fn try_start(&self) -> Result<(), String> {
        let options = format!("-p {} -k {}", self.port, self.directory.path().display());
        let log = self.directory.path().join("log");
        let start = ["start", "-w", "-l", log.to_str().unwrap(), "-o", &options];
        self.try_run("pg_ctl", &start)
            .map_err(|why| format!("{why}{}", std::fs::read_to_string(&log).unwrap_or_default()))
    }

    /// Stops it in order: `fast`, or as a crash would: `immediate`.
    pub fn stop(&self, how: &str) {
        self.run("pg_ctl", &["stop", "-w", "-m", how]);
    }

    /// A copy of all its files, while it is stopped.
    pub fn back_up(&self) {
        copy(&self.data(), &self.backup());
    }

    /// Puts the copy in place of its files, while it is stopped.
    pub fn restore(&self) {
        std::fs::remove_dir_all(self.data()).unwrap();
        copy(&self.backup(), &self.data());
    }

    fn backup(&self) -> PathBuf {
        self.directory.path().join("backup")
    }

    pub fn promote(&self) {
        self.run("pg_ctl", &["promote", "-w"]);
    }

    /// Stops every process of it, with all its connections.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let pid = file.lines().next().unwrap();
        // The first to stop and the last to go on is the one that makes the others.
        let script = match signal {
            "STOP" => "kill -STOP $1; for it in $(ps -o pid= --ppid $1); do kill -STOP $it; done",
            _ => "for it in $(ps -o pid= --ppid $1); do kill -CONT $it; done; kill -CONT $1",
        };
        Command::new("sh").args(["-c", script, "sh", pid]).status().unwrap();
    }

    pub fn options(&self) -> PgConnectOptions {
        at(self.port)
    }

    pub async fn session(&self) -> PgConnection {
        PgConnection::connect_with(&self.options()).await.unwrap()
    }

    pub async fn execute(&self, database: &str, statement: &str) {
        let options = self.options().database(database);
        let mut conn = PgConnection::connect_with(&options).await.unwrap();
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    /// Runs one of PostgreSQL's programs over its data, as its owner.
    fn run(&self, program: &str, options: &[&str]) {
        self.try_run(program, options).unwrap();
    }

    fn try_run(&self, program: &str, options: &[&str]) -> Result<(), String> {
        let log = self.directory.path().join(format!("{program}.out"));
        let out = std::fs::File::create(&log).unwrap();
        let status = as_owner(programs().join(program))
            .arg("-D")
            .arg(self.data())
            .args(options)
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .status()
            .unwrap();
        let words = || std::fs::read_to_string(&log).unwrap();
        if status.success() { Ok(()) } else { Err(format!("{program} {options:?}: {}", words())) }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() {
            self.thaw();
            let stop = as_owner(programs().join("pg_ctl"))
                .args(["stop", "-w", "-m", "immediate", "-D"])
                .arg(self.data())
                .output();
            drop(stop);
        }
    }
}

/// Connecting to a cluster, or to a forwarder, on this port.
pub fn at(port: u16) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(port)
        .username(NAME)
        .database(NAME)
}

/// Copies a directory with its owners.
fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

fn as_owner(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").env_remove("PGDATA");
    if rustix::process::geteuid().is_root() {
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        let line = users.lines().find(|line| line.starts_with("postgres:")).unwrap();
        let ids: Vec<u32> = line.split(':').skip(2).take(2).map(|id| id.parse().unwrap()).collect();
        command.uid(ids[0]).gid(ids[1]);
    }
    command
}

/// Returns the folder of PostgreSQL's programs: that of `BERTH_POSTGRES_BIN`, or the newest of Debian's, or that of
/// `pg_config`.
pub fn programs() -> PathBuf {
    if let Some(named) = std::env::var_os("BERTH_POSTGRES_BIN") {
        return named.into();
    }
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = debian
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    found.sort();
    if let Some((_, newest)) = found.pop() {
        return newest;
    }
    let message = Command::new("pg_config").arg("--bindir").output().unwrap().stdout;
    Path::new(String::from_utf8(message).unwrap().trim()).to_owned()
}

/// Leads new connections to a port that can be changed; old ones stay where they are, as they do at a
/// proxy that does not cut them.
pub struct Forwarder {
    pub port: u16,
    target: watch::Sender<u16>,
    task: JoinHandle<()>,
}

impl Forwarder {
    pub async fn new(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = watch::Sender::new(target);
        let current = target.subscribe();
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let port = *current.borrow();
                tokio::spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                        drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
                    }
                });
            }
        });
        Self { port, target, task }
    }

    pub fn lead_to(&self, port: u16) {
        self.target.send_replace(port);
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
