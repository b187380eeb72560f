//! The URL of an OpenStack Placement database, in SQLAlchemy's form as in placement.conf.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// Access mode to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads it, in one snapshot.
    Read,
    /// Fills it, in one transaction.
    Write,
}

/// SQL dialect of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// MySQL or MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
}

/// Parameters of PyMySQL and SQLAlchemy that do not affect the location.
const IGNORED: [&str; 6] =
    ["charset", "connect_timeout", "read_timeout", "write_timeout", "plugin", "use_unicode"];

/// Directory of PostgreSQL's socket on Debian, where libpq connects without a host.
const DEFAULT_SOCKET: &str = "/var/run/postgresql";

/// Parameter names of PyMySQL, and of the client used here.
const TRANSLATED: [(&str, &str); 5] = [
    ("ssl_ca", "ssl-ca"),
    ("ssl_cert", "ssl-cert"),
    ("ssl_key", "ssl-key"),
    ("ssl_mode", "ssl-mode"),
    ("unix_socket", "socket"),
];

/// Location of an OpenStack Placement database. Displayed without the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceUrl {
    pub(crate) dialect: Dialect,
    /// In the client's form.
    url: Url,
    shown: String,
}

impl FromStr for ReferenceUrl {
    type Err = String;

    /// Parses a URL of SQLAlchemy, with or without the name of a Python driver:
    /// `mysql+pymysql://user:password@host/placement`, `postgresql://...`, `sqlite:////path/of/file`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("must be a URL, as in placement.conf")?;
        let name = scheme.split_once('+').map_or(scheme, |(name, _)| name);
        let dialect = match name {
            "mysql" | "mariadb" => Dialect::MySql,
            "postgresql" | "postgres" => Dialect::Postgres,
            "sqlite" => Dialect::Sqlite,
            _ => {
                return Err(format!(
                    "must begin with mysql, mariadb, postgresql or sqlite, not {name:?}"
                ));
            }
        };
        if dialect == Dialect::Sqlite {
            return Self::of_file(rest);
        }
        let scheme = if dialect == Dialect::MySql { "mysql" } else { "postgres" };
        // The parser requires a host behind a user name; libpq uses its socket then, or the parameter `host`.
        let has_no_host = dialect == Dialect::Postgres && rest.contains("@/");
        let rest =
            if has_no_host { rest.replacen("@/", "@localhost/", 1) } else { rest.to_owned() };
        // The parser's own message does not repeat the URL, which may have a password.
        let mut url = Url::parse(&format!("{scheme}://{rest}"))
            .map_err(|error| format!("is not a valid URL: {error}"))?;
        if has_no_host && !url.query_pairs().any(|(name, _)| name == "host") {
            url.query_pairs_mut().append_pair("host", DEFAULT_SOCKET);
        }
        if url.path().trim_matches('/').is_empty() {
            return Err("must name the database, behind the host: .../placement".to_owned());
        }
        if dialect == Dialect::MySql {
            use_own_parameters(&mut url)?;
        }
        let mut shown = url.clone();
        shown.set_query(None);
        if shown.password().is_some() && shown.set_password(None).is_err() {
            return Err("has a password, but no host".to_owned());
        }
        Ok(Self { dialect, url, shown: shown.to_string() })
    }
}

impl ReferenceUrl {
    /// The URL for a connection.
    pub(crate) fn to(&self, access: Access) -> Url {
        let mut url = self.url.clone();
        if self.dialect == Dialect::Sqlite {
            // Without a mode, a missing file would be created.
            url.set_query(Some(if access == Access::Read { "mode=ro" } else { "mode=rw" }));
        }
        url
    }

    /// Parses the URL of a file: `/relative` or `//absolute`, after `sqlite://`.
    fn of_file(rest: &str) -> Result<Self, String> {
        let path = rest.split_once('?').map_or(rest, |(path, _)| path);
        let path = path.strip_prefix('/').filter(|path| !path.is_empty());
        let path =
            path.ok_or("must name a file: sqlite:////absolute/path or sqlite:///relative")?;
        let mut url = Url::parse("sqlite://").map_err(|error| error.to_string())?;
        let absolute = std::path::absolute(path).map_err(|error| error.to_string())?;
        let absolute = absolute.to_str().ok_or("must be a path in UTF-8")?;
        url.set_path(absolute);
        Ok(Self { dialect: Dialect::Sqlite, url, shown: format!("sqlite:///{absolute}") })
    }
}

/// Translates PyMySQL's parameters. Unknown ones are refused, since they may concern security.
fn use_own_parameters(url: &mut Url) -> Result<(), String> {
    let mut kept: Vec<(String, String)> = Vec::new();
    for (name, value) in url.query_pairs() {
        if IGNORED.contains(&&*name) {
            continue;
        }
        let own = TRANSLATED.iter().find(|(theirs, ours)| *theirs == name || *ours == name);
        let Some((_, ours)) = own else {
            let known = TRANSLATED.map(|(theirs, _)| theirs).join(", ");
            return Err(format!(
                "has the parameter {name:?}, which Berth does not know (it knows {known})"
            ));
        };
        kept.push(((*ours).to_owned(), value.into_owned()));
    }
    let names_ca = kept.iter().any(|(name, _)| name == "ssl-ca");
    if names_ca && !kept.iter().any(|(name, _)| name == "ssl-mode") {
        // PyMySQL verifies the server's certificate whenever it is given a CA.
        kept.push(("ssl-mode".to_owned(), "VERIFY_CA".to_owned()));
    }
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
    Ok(())
}

impl fmt::Display for ReferenceUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::{Dialect, ReferenceUrl};

    fn read(text: &str) -> Result<ReferenceUrl, String> {
        text.parse()
    }

    #[test]
    fn urls_of_sqlalchemy_are_understood() {
        let mysql = read("mysql+pymysql://p:secret@db:3307/placement?charset=utf8").unwrap();
        assert_eq!(mysql.dialect, Dialect::MySql);
        assert_eq!(mysql.url.as_str(), "mysql://p:secret@db:3307/placement");
        assert_eq!(mysql.to_string(), "mysql://p@db:3307/placement");
        let postgres = read("postgresql+psycopg2://p@db/placement?sslmode=verify-full").unwrap();
        assert_eq!(postgres.dialect, Dialect::Postgres);
        assert_eq!(postgres.url.as_str(), "postgres://p@db/placement?sslmode=verify-full");
        let local = read("postgresql://p@/placement").unwrap().url;
        assert_eq!(
            local.as_str(),
            "postgres://p@localhost/placement?host=%2Fvar%2Frun%2Fpostgresql"
        );
        let sqlite = read("sqlite:////var/lib/placement.db").unwrap();
        assert_eq!(sqlite.dialect, Dialect::Sqlite);
        assert_eq!(sqlite.to_string(), "sqlite:////var/lib/placement.db");
    }

    #[test]
    fn a_certificate_authority_is_used_to_verify() {
        let url = read("mysql://p@db/placement?ssl_ca=/etc/ca.pem").unwrap().url;
        assert_eq!(url.query(), Some("ssl-ca=%2Fetc%2Fca.pem&ssl-mode=VERIFY_CA"));
    }

    #[test]
    fn faults_are_named() {
        for (text, named) in [
            ("placement", "must be a URL"),
            ("oracle://db/placement", "\"oracle\""),
            ("mysql://db", "must name the database"),
            ("mysql://db/placement?ssl_verify_cert=true", "\"ssl_verify_cert\""),
            ("sqlite://", "must name a file"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(named), "{text}: {why}");
        }
    }
}
