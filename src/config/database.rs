//! Options of the database connection.

use std::path::PathBuf;

use clap::Args;
use sqlx::postgres::PgConnectOptions;

use super::database_url;

/// Options of the database connection.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Database")]
pub struct DatabaseOptions {
    /// URL of the PostgreSQL database, as `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// For a Unix socket, write `postgres:///DATABASE?host=/DIRECTORY`. Name several hosts,
    /// separated by commas, to follow the primary among them. Without this option, `berth serve`
    /// runs a private PostgreSQL under the data directory.
    #[arg(long, hide_env_values = true, value_name = "URL")]
    pub database_url: Option<String>,

    /// File with the password for the database, instead of a password in the URL.
    ///
    /// White space at its end is ignored. Default: the systemd credential
    /// `berth.database-password`, if there is one.
    #[arg(long, value_name = "FILE")]
    pub database_password_file: Option<PathBuf>,

    /// Directory of the private PostgreSQL.
    ///
    /// Default: /var/lib/berth for root, otherwise `berth` under the user's data home
    /// (`$XDG_DATA_HOME` or `~/.local/share`).
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
}

impl DatabaseOptions {
    /// The connection options of each host in --database-url; `None` without that option.
    ///
    /// # Errors
    /// The URL is invalid (the message does not repeat it), or the password's file cannot be read.
    pub fn hosts(&self) -> Result<Option<Vec<PgConnectOptions>>, String> {
        let Some(url) = &self.database_url else { return Ok(None) };
        let password = self.password()?;
        let hosts = database_url::read_with(url, password.as_deref());
        hosts.map(Some).map_err(|why| format!("--database-url is invalid: {why}"))
    }

    fn password(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.database_password_file else { return Ok(None) };
        let failed = |why: &dyn std::fmt::Display| {
            format!("--database-password-file {}: {why}", path.display())
        };
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        let password = text.trim_end();
        if password.is_empty() {
            return Err(failed(&"the file is empty"));
        }
        Ok(Some(password.to_owned()))
    }

    /// The directory of the private PostgreSQL.
    ///
    /// # Errors
    /// None is configured, and there is no home directory.
    pub fn directory(&self) -> Result<PathBuf, String> {
        if let Some(named) = &self.data_dir {
            return Ok(named.clone());
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        // Root's home is closed to the user the private PostgreSQL runs as.
        if home.as_deref().is_none_or(|home| home == "/root" || home == "/") {
            return Ok(PathBuf::from("/var/lib/berth"));
        }
        let data_home = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
        data_home
            .filter(|path| path.is_absolute())
            .or_else(|| home.map(|home| home.join(".local/share")))
            .map(|data_home| data_home.join("berth"))
            .ok_or_else(|| "there is no home directory: set --data-dir".to_owned())
    }

    /// The option that selects the database.
    pub fn decided_by(&self) -> &'static str {
        if self.database_url.is_some() { "database-url" } else { "data-dir" }
    }

    /// Describes the database for the operator: user, hosts and name, without the password.
    ///
    /// # Errors
    /// As [`DatabaseOptions::hosts`] and [`DatabaseOptions::directory`].
    pub fn describe(&self) -> Result<String, String> {
        let Some(hosts) = self.hosts()? else {
            return Ok(format!("the private PostgreSQL in {}", self.directory()?.display()));
        };
        let places: Vec<String> = hosts.iter().map(place).collect();
        let Some(first) = hosts.first() else { return Err("no host is named".to_owned()) };
        let user = first.get_username();
        // As in libpq: the default name is that of the user.
        let name = first.get_database().map_or(user, |name| name);
        Ok(format!("postgres://{user}@{}/{name}", places.join(",")))
    }
}

/// A host with its port, or the directory of its Unix socket.
fn place(host: &PgConnectOptions) -> String {
    if let Some(socket) = host.get_socket() {
        return format!("[socket in {}]", socket.display());
    }
    match host.get_host() {
        address if address.contains(':') => format!("[{address}]:{}", host.get_port()),
        name => format!("{name}:{}", host.get_port()),
    }
}

#[cfg(test)]
mod tests {
    use super::DatabaseOptions;

    fn options(url: &str) -> DatabaseOptions {
        DatabaseOptions {
            database_url: Some(url.to_owned()),
            database_password_file: None,
            data_dir: None,
        }
    }

    #[test]
    fn a_database_is_described_without_its_password() {
        for (url, expected) in [
            ("postgres://u:s3cret@h:5433/berth", "postgres://u@h:5433/berth"),
            ("postgres://u:s3cret@a,[::1]:1/berth", "postgres://u@a:5432,[::1]:1/berth"),
            ("postgres://u@/d?host=/run/pg", "postgres://u@[socket in /run/pg]/d"),
        ] {
            assert_eq!(options(url).describe().unwrap(), expected);
        }
    }

    #[test]
    fn the_password_is_read_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let with_file = |url: &str| DatabaseOptions {
            database_password_file: Some(path.clone()),
            ..options(url)
        };
        let why = with_file("postgres://u@h/d").hosts().unwrap_err();
        assert!(why.contains("--database-password-file"), "{why}");
        std::fs::write(&path, "s3cret/@:%\n").unwrap();
        let hosts = with_file("postgres://u@h/d").hosts().unwrap().unwrap();
        let url = sqlx::ConnectOptions::to_url_lossy(&hosts[0]);
        assert_eq!(url.password(), Some("s3cret%2F%40%3A%25"));
        let why = with_file("postgres://u:other@h/d").hosts().unwrap_err();
        assert!(why.contains("not both") && !why.contains("other"), "{why}");
        std::fs::write(&path, "\n").unwrap();
        assert!(with_file("postgres://u@h/d").hosts().unwrap_err().contains("empty"));
    }
}
