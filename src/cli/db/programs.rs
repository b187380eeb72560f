//! PostgreSQL's client programs: their paths and environment, and `berth db shell`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use clap::Args;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::db_options::DbOptions;
use crate::server::database::{CONNECT_MAX, Database};
use crate::server::embedded_postgres::PROGRAMS_VARIABLE;
use crate::server::failure::Failure;

/// Directory in which Debian's packages install the programs of each major version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Variables of libpq that would lead to another server than Berth's.
const MISLEADING: [&str; 4] = ["PGSERVICE", "PGSERVICEFILE", "PGHOSTADDR", "PGTARGETSESSIONATTRS"];

/// Options of `db shell`.
#[derive(Args, Clone, Debug)]
pub struct ShellOptions {
    /// The database.
    #[command(flatten)]
    pub db: DbOptions,

    /// Arguments for psql, after `--`.
    #[arg(last = true, value_name = "ARGUMENT")]
    pub arguments: Vec<OsString>,
}

/// Runs `berth db shell`: psql in the terminal, until it ends.
///
/// # Errors
/// psql is not installed, or the primary cannot be found.
pub async fn shell(options: &ShellOptions, database: &Database) -> Result<ExitCode, Failure> {
    // psql handles Ctrl-C: it cancels a query.
    let interrupts = signal(SignalKind::interrupt());
    let _interrupts = interrupts.map_err(|error| Failure(error.to_string()))?;
    let mut psql = client("psql", database).await?;
    let status = psql.args(&options.arguments).status().await;
    Ok(exit_code(status.map_err(|error| Failure(format!("psql: {error}")))?))
}

/// The exit code of a finished program: its own, or 1 if a signal ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// A command for one of PostgreSQL's client programs, with the environment for connecting to the primary. Passwords
/// are in the environment, because other users can read arguments.
///
/// # Errors
/// The program is not installed, or the primary cannot be found.
pub(super) async fn client(name: &str, database: &Database) -> Result<Command, Failure> {
    let mut command = Command::new(find(name)?);
    for variable in MISLEADING {
        command.env_remove(variable);
    }
    command.envs(environment(&database.primary().await?)).kill_on_drop(true);
    Ok(command)
}

/// Variables of libpq for these options.
fn environment(options: &PgConnectOptions) -> Vec<(&'static str, String)> {
    let socket = options.get_socket().map(|path| path.display().to_string());
    let user = options.get_username().to_owned();
    let mut variables = vec![
        ("PGCONNECT_TIMEOUT", CONNECT_MAX.as_secs().to_string()),
        ("PGHOST", socket.unwrap_or_else(|| options.get_host().to_owned())),
        ("PGPORT", options.get_port().to_string()),
        ("PGDATABASE", options.get_database().map_or_else(|| user.clone(), str::to_owned)),
        ("PGUSER", user),
    ];
    if let Some(settings) = options.get_options() {
        variables.push(("PGOPTIONS", settings.to_owned()));
    }
    // Only the URL gives access to the password and the files.
    let url = options.to_url_lossy();
    if let Some(password) = url.password() {
        let password = percent_encoding::percent_decode_str(password).decode_utf8_lossy();
        variables.push(("PGPASSWORD", password.into_owned()));
    }
    for (key, value) in url.query_pairs() {
        let variable = match key.as_ref() {
            "sslmode" => "PGSSLMODE",
            "sslrootcert" => "PGSSLROOTCERT",
            "sslcert" => "PGSSLCERT",
            "sslkey" => "PGSSLKEY",
            _ => continue,
        };
        // sqlx puts the kind of a certificate before the path.
        let value = value.strip_prefix("file: ").unwrap_or(&value);
        variables.push((variable, value.to_owned()));
    }
    variables
}

/// The path of a program: in the directory that the operator has set, else in the newest of Debian's packages, else
/// in PATH. An older `pg_dump` refuses a newer server.
fn find(name: &str) -> Result<PathBuf, Failure> {
    let named = std::env::var_os(PROGRAMS_VARIABLE).filter(|named| !named.is_empty());
    let mut directories: Vec<PathBuf> = named.map(PathBuf::from).into_iter().collect();
    directories.extend(debian(Path::new(DEBIAN)));
    if let Some(path) = std::env::var_os("PATH") {
        directories.extend(std::env::split_paths(&path));
    }
    let programs = directories.into_iter().map(|directory| directory.join(name));
    programs.into_iter().find(|program| program.is_file()).ok_or_else(|| {
        Failure(format!(
            "there is no {name}: install PostgreSQL's client programs (Debian: apt-get install \
             postgresql-client), or name their directory in {PROGRAMS_VARIABLE}"
        ))
    })
}

/// The directories of Debian's packages, the newest version first.
fn debian(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, directory)| directory).collect()
}

#[cfg(test)]
mod tests {
    use super::{debian, environment};
    use crate::config::database_url;

    #[test]
    fn programs_get_all_parts_of_a_url() {
        let url = "postgres://ber%74h:s%3A3%25@db.example.org:5433/%62erth?sslmode=verify-full\
                   &sslrootcert=/etc/ca%20s.pem&options=-c%20jit%3Doff";
        let read = database_url::read(url).unwrap();
        let variables = environment(read.first().unwrap());
        let value = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(value("PGCONNECT_TIMEOUT"), Some("10"));
        assert_eq!(value("PGHOST"), Some("db.example.org"));
        assert_eq!(value("PGPORT"), Some("5433"));
        assert_eq!(value("PGUSER"), Some("berth"));
        assert_eq!(value("PGDATABASE"), Some("berth"));
        assert_eq!(value("PGPASSWORD"), Some("s:3%"));
        assert_eq!(value("PGSSLMODE"), Some("verify-full"));
        assert_eq!(value("PGSSLROOTCERT"), Some("/etc/ca s.pem"));
        assert_eq!(value("PGOPTIONS"), Some("-c jit=off"));
    }

    #[test]
    fn the_newest_version_comes_first() {
        let directory = tempfile::tempdir().unwrap();
        for version in ["9", "15", "14", "none"] {
            std::fs::create_dir(directory.path().join(version)).unwrap();
        }
        let found = debian(directory.path());
        let expected = ["15", "14", "9"].map(|it| directory.path().join(it).join("bin"));
        assert_eq!(found, expected);
    }
}
