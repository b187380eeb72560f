//! The private PostgreSQL that `berth serve` runs if no database is configured. Other commands use it while it runs,
//! or start it temporarily; only `berth serve` creates one.
//!
//! It uses the installed server programs, creates a cluster on first use, listens on a Unix socket only, and starts
//! and stops with Berth. The server is the child of a small shell script that waits for the end of its input and then
//! stops the server, so it stops even if Berth is killed. If the server dies, it is restarted.

mod files;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use self::files::{Directory, SystemUser};
use crate::server::failure::Failure;
use crate::store::error::described;

/// Timeout for the server's start, including recovery after a crash.
const START_MAX: Duration = Duration::from_mins(2);
/// Timeout for the server's stop.
const STOP_MAX: Duration = Duration::from_mins(1);
/// Pause before the restart of a server that died.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// Environment variable with the directory of PostgreSQL's server programs. It is not an option of `serve`, because
/// every command that starts the private PostgreSQL must find the same programs; PATH would lose to the newest
/// installed version.
pub(crate) const PROGRAMS_VARIABLE: &str = "BERTH_POSTGRES_BIN";

const NAME: &str = "berth";
const LOCK: &str = "berth.lock";
const LOG: &str = "postgres.log";

/// Starts the server in the background, shuts it down when the input ends, and exits with it.
const SUPERVISOR: &str = "exec 3<&0; \"$@\" 3<&- </dev/null & server=$!; \
    { cat <&3 >/dev/null; kill -INT $server 2>/dev/null; } & exec 3<&-; wait $server";

/// A running private PostgreSQL.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    options: PgConnectOptions,
    stop: watch::Sender<bool>,
    supervisor: JoinHandle<()>,
    /// Locked while this process uses the directory.
    _lock: File,
}

/// An existing private PostgreSQL.
#[derive(Debug)]
pub enum Existing {
    /// Another process runs it; the connection options.
    Running(PgConnectOptions),
    /// It was started, and stops when this is dropped.
    Started(EmbeddedPostgres),
}

/// A PostgreSQL cluster: its files and programs, and the user who runs it.
#[derive(Clone, Debug)]
struct Cluster {
    programs: PathBuf,
    /// The data directory of PostgreSQL.
    directory: PathBuf,
    socket: PathBuf,
    data: Arc<Directory>,
    log: PathBuf,
    settings: Vec<String>,
    user: Option<SystemUser>,
}

impl EmbeddedPostgres {
    /// Starts the server over the given directory, and creates cluster and database if they do not exist.
    ///
    /// # Errors
    /// A message: the obstacle, and how to remove it.
    pub async fn start(directory: &Path) -> Result<Self, Failure> {
        Self::start_with(directory, &[]).await
    }

    /// Like [`EmbeddedPostgres::start`], with further settings of the server, as `name=value`.
    ///
    /// # Errors
    /// As for [`EmbeddedPostgres::start`].
    pub async fn start_with(directory: &Path, settings: &[&str]) -> Result<Self, Failure> {
        let directory = &std::path::absolute(directory).map_err(plain)?;
        let user = unprivileged()?;
        let data = Arc::new(Directory::open(directory, user.as_ref())?);
        check_use(directory, user.as_ref()).await?;
        let Some(lock) = lock(&data)? else {
            return Err(Failure(format!(
                "another berth uses {}: stop it, or choose another --data-dir",
                directory.display()
            )));
        };
        Self::start_locked(directory, settings, user, data, lock).await
    }

    /// Finds the server that another process runs over the directory, or starts it. Creates nothing.
    ///
    /// # Errors
    /// There is no cluster in the directory; or as for [`EmbeddedPostgres::start`].
    pub async fn existing(directory: &Path) -> Result<Existing, Failure> {
        let directory = &std::path::absolute(directory).map_err(plain)?;
        let user = match files::owner(directory) {
            Some(owner) if rustix::process::geteuid().is_root() => Some(owner),
            _ => unprivileged()?,
        };
        if files::cluster_version(&directory.join("postgres"), user.as_ref())?.is_none() {
            return Err(Failure(format!(
                "there is no private PostgreSQL in {}, and only `berth serve` creates one: set the \
                 database with --config (default: /etc/berth/berth.toml), --database-url or --data-dir",
                directory.display()
            )));
        }
        let data = Arc::new(Directory::open(directory, user.as_ref())?);
        if let Some(lock) = lock(&data)? {
            check_use(directory, user.as_ref()).await?;
            return Self::start_locked(directory, &[], user, data, lock)
                .await
                .map(Existing::Started);
        }
        let temporary = std::env::temp_dir();
        let socket = files::socket_directory(directory, &temporary, user.as_ref())?;
        Ok(Existing::Running(options(&socket)))
    }

    /// Starts the server in a directory that this process has locked.
    async fn start_locked(
        directory: &Path,
        settings: &[&str],
        user: Option<SystemUser>,
        data: Arc<Directory>,
        lock: File,
    ) -> Result<Self, Failure> {
        let temporary = std::env::temp_dir();
        let cluster_directory = directory.join("postgres");
        let version = files::cluster_version(&cluster_directory, user.as_ref())?;
        let cluster = Cluster {
            programs: programs(&cluster_directory, version).await?,
            directory: cluster_directory,
            socket: files::socket_directory(directory, &temporary, user.as_ref())?,
            data,
            log: directory.join(LOG),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            user,
        };
        if version.is_none() {
            create_cluster(&cluster).await?;
        }
        stop_leftover(&cluster).await;

        let options = options(&cluster.socket);
        let (stop, stopped) = watch::channel(false);
        let child = spawn(&cluster)?;
        let supervisor = tokio::spawn(supervise(cluster.clone(), child, stopped));
        let embedded = Self { options, stop, supervisor, _lock: lock };
        if let Err(why) = embedded.create_database().await {
            embedded.stop().await;
            return Err(Failure(format!("{}; its log is {}", why.0, cluster.log.display())));
        }
        tracing::info!(directory = %cluster.directory.display(), "the private PostgreSQL is running");
        Ok(embedded)
    }

    /// The connection options.
    pub fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// Stops the server and waits until it has stopped.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if timeout(STOP_MAX, self.supervisor).await.is_err() {
            tracing::error!("the private PostgreSQL did not stop within {STOP_MAX:?}");
        }
    }

    async fn create_database(&self) -> Result<(), Failure> {
        let began = Instant::now();
        let options = self.options.clone().database("postgres");
        let mut conn = loop {
            match PgConnection::connect_with(&options).await {
                Ok(conn) => break conn,
                Err(error) if began.elapsed() > START_MAX || self.supervisor.is_finished() => {
                    return Err(Failure(format!(
                        "the private PostgreSQL does not respond: {}",
                        described(&error)
                    )));
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        };
        let exists: bool =
            sqlx::query_scalar("select exists (select from pg_database where datname = 'berth')")
                .fetch_one(&mut conn)
                .await
                .map_err(|error| Failure(described(&error)))?;
        if !exists {
            let created = sqlx::raw_sql("create database berth").execute(&mut conn).await;
            created.map_err(|error| Failure(described(&error)))?;
        }
        Ok(())
    }
}

/// Supervises the server until it is to stop: restarts it when it dies.
async fn supervise(cluster: Cluster, mut child: Child, mut stopped: watch::Receiver<bool>) {
    loop {
        // Taken out, because waiting for a child closes its input, which would stop the server.
        let input = child.stdin.take();
        tokio::select! {
            status = child.wait() => {
                tracing::error!(?status, log = %cluster.log.display(),
                    "the private PostgreSQL has died; starting it again");
            }
            () = wait_for_stop(&mut stopped) => {
                drop(input);
                if let Err(error) = child.wait().await {
                    tracing::error!(%error, "waiting for the private PostgreSQL failed");
                }
                return;
            }
        }
        child = loop {
            sleep(RESTART_PAUSE).await;
            if *stopped.borrow() {
                return;
            }
            match spawn(&cluster) {
                Ok(child) => break child,
                Err(error) => tracing::error!(%error, "the private PostgreSQL does not start"),
            }
        };
    }
}

/// Waits until the server is to stop, or the [`EmbeddedPostgres`] was dropped.
async fn wait_for_stop(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stop| *stop).await);
}

impl Cluster {
    /// A command that is run as the owner of the cluster.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        // In a process group of its own, so that Ctrl-C reaches Berth only, which then stops the server.
        command.process_group(0).current_dir("/").env_remove("PGDATA");
        // PostgreSQL would notify systemd itself with these variables.
        for variable in
            ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS"]
        {
            command.env_remove(variable);
        }
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    async fn pg_ctl(&self, arguments: &[&str]) -> std::io::Result<std::process::Output> {
        let mut command = self.command(self.programs.join("pg_ctl"));
        command.arg("-D").arg(&self.directory).args(arguments).output().await
    }
}

fn spawn(cluster: &Cluster) -> Result<Child, Failure> {
    let log = cluster.data.file(LOG)?;
    let log_too = log.try_clone().map_err(plain)?;
    cluster
        .command("sh")
        .args(["-c", SUPERVISOR, "sh"])
        .arg(cluster.programs.join("postgres"))
        .arg("-D")
        .arg(&cluster.directory)
        .arg("-k")
        .arg(&cluster.socket)
        .args(["-c", "listen_addresses=", "-c", "unix_socket_permissions=0700"])
        .args(["-c", "logging_collector=off", "-c", "max_connections=200"])
        .args(cluster.settings.iter().flat_map(|setting| ["-c", setting]))
        .stdin(Stdio::piped())
        .stdout(log)
        .stderr(log_too)
        .spawn()
        .map_err(|error| Failure(format!("the private PostgreSQL does not start: {error}")))
}

/// Checks that the server's user can work in the directory.
async fn check_use(directory: &Path, user: Option<&SystemUser>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", directory.display()));
    let Some(user) = user else { return Ok(()) };
    let can_enter = Command::new("test")
        .arg("-w")
        .arg(directory)
        .uid(user.uid)
        .gid(user.gid)
        .status()
        .await
        .map_err(failed)?
        .success();
    if can_enter {
        return Ok(());
    }
    Err(Failure(format!(
        "PostgreSQL cannot run as root, and {} cannot be used by the user {}: choose another \
         --data-dir, or give it to that user",
        directory.display(),
        user.name
    )))
}

/// Locks the directory; `None` if another process has locked it.
fn lock(data: &Directory) -> Result<Option<File>, Failure> {
    let file = data.file(LOCK)?;
    Ok(file.try_lock().is_ok().then_some(file))
}

/// Options for connecting to the server through its socket.
fn options(socket: &Path) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass().socket(socket).username(NAME).database(NAME)
}

/// The user to run the server as; `None` if this process is not root.
fn unprivileged() -> Result<Option<SystemUser>, Failure> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd")
        .map_err(|error| Failure(format!("/etc/passwd: {error}")))?;
    ["postgres", "nobody"].into_iter().find_map(|name| user_in(&passwd, name)).map(Some).ok_or_else(
        || Failure("PostgreSQL cannot run as root, and there is no user postgres".to_owned()),
    )
}

fn user_in(passwd: &str, name: &str) -> Option<SystemUser> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(SystemUser { name: name.to_owned(), uid, gid })
}

/// The directory of the server programs: those of the cluster's version, or the newest if there is no cluster.
async fn programs(cluster: &Path, needed: Option<u32>) -> Result<PathBuf, Failure> {
    let mut found = Vec::new();
    for directory in program_directories().await {
        if let Some(version) = version_of(&directory).await {
            found.push((version, directory));
        }
    }
    found.sort();
    let chosen = match needed {
        Some(needed) => found.iter().rev().find(|(version, _)| *version == needed),
        None => found.last(),
    };
    if let Some((_, directory)) = chosen {
        return Ok(directory.clone());
    }
    let needs = needed.map(|needed| {
        let data = cluster.display();
        format!("the data in {data} needs PostgreSQL {needed}, whose server programs are not")
    });
    Err(Failure(match (needs, named_programs()) {
        (Some(needs), Some(named)) => {
            format!("{needs} in {}, which {PROGRAMS_VARIABLE} names", named.display())
        }
        (Some(needs), None) => format!("{needs} installed"),
        (None, Some(named)) => format!(
            "{PROGRAMS_VARIABLE}: the server programs of PostgreSQL (postgres, initdb, pg_ctl) are \
             not in {}, or do not run",
            named.display()
        ),
        (None, None) => {
            "no PostgreSQL server programs found: install them (Debian: apt-get install \
             postgresql; Fedora: dnf install postgresql-server), or give a --database-url"
                .to_owned()
        }
    }))
}

/// The directories with server programs: the one in [`PROGRAMS_VARIABLE`], or else those of Debian's packages, of
/// `pg_config` and of PATH.
async fn program_directories() -> Vec<PathBuf> {
    let mut directories = Vec::new();
    if let Some(named) = named_programs() {
        directories.push(named);
        directories.retain(|directory| has_programs(directory));
        return directories;
    }
    for entry in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        directories.push(entry.path().join("bin"));
    }
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output().await {
        directories.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    if let Some(path) = std::env::var_os("PATH") {
        directories.extend(std::env::split_paths(&path));
    }
    directories.retain(|directory| has_programs(directory));
    directories
}

/// The directory that the operator has set; an empty value counts as unset.
fn named_programs() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAMS_VARIABLE).filter(|named| !named.is_empty())?;
    std::path::absolute(named).ok()
}

fn has_programs(directory: &Path) -> bool {
    ["postgres", "initdb", "pg_ctl"].iter().all(|name| directory.join(name).is_file())
}

/// The major version in the output of `postgres --version`.
async fn version_of(directory: &Path) -> Option<u32> {
    let output = Command::new(directory.join("postgres")).arg("--version").output().await.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().find_map(|word| word.split('.').next()?.parse().ok())
}

/// Creates the cluster under a temporary name, and renames it when it is complete.
async fn create_cluster(cluster: &Cluster) -> Result<(), Failure> {
    let new = cluster.directory.with_extension("new");
    let failed = |error: std::io::Error| Failure(format!("{}: {error}", new.display()));
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(failed)?;
    }
    tracing::info!(directory = %cluster.directory.display(), "creating a PostgreSQL cluster");
    let output = cluster
        .command(cluster.programs.join("initdb"))
        .arg("-D")
        .arg(&new)
        .args(["-U", NAME, "-A", "trust", "--encoding=UTF8", "--locale=C"])
        .output()
        .await
        .map_err(|error| Failure(format!("initdb: {error}")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Failure(format!("initdb failed: {}", words.trim())));
    }
    std::fs::rename(&new, &cluster.directory).map_err(failed)
}

/// Waits for a server that a killed Berth has left running: its supervisor is stopping it. If it keeps running, it is
/// stopped here.
async fn stop_leftover(cluster: &Cluster) {
    let began = Instant::now();
    let mut is_logged = false;
    while began.elapsed() < STOP_MAX {
        let status = cluster.pg_ctl(&["status"]).await;
        // 3: no server is running.
        if status.is_ok_and(|output| output.status.code() == Some(3)) {
            return;
        }
        if !is_logged && began.elapsed() > Duration::from_secs(5) {
            is_logged = true;
            tracing::warn!("stopping a PostgreSQL that was left running");
            drop(cluster.pg_ctl(&["-m", "fast", "-W", "stop"]).await);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// A failure with the error's own message.
fn plain(error: impl std::fmt::Display) -> Failure {
    Failure(error.to_string())
}
