//! `[placement_database]`: `SQLAlchemy`'s URL as a URL of Berth, and the size of the pool.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use regex::{Captures, Regex};

use super::conversion::{Conversion, Converted};
use super::diagnostic::{Location, Severity};
use super::table::{self, KnownOption};
use super::values::Value;

/// The parts of a URL as `SQLAlchemy` splits it, still encoded. A password may contain anything but
/// `@`, even characters that end it in other URLs. The host keeps the brackets of an IPv6 address.
const URL: &str = r"(?sx) ^ (?<scheme>[^:]*) ://
    (?: (?<user>[^:/]*) (?: : (?<password>[^@]*) )? @ )?
    (?<host> \[ [^/?]* \] | [^:/?]* ) (?: : (?<port>[^/?]*) )?
    (?: / (?<database>[^?]*) )? (?: \? (?<parameters>.*) )? $";

/// The characters that any part of a URL may contain unencoded.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same for parameters, which often contain paths.
const ENCODED_IN_PARAMETERS: AsciiSet = ENCODED.remove(b'/');

/// Parameters that have the same meaning for Berth and for libpq.
const KEPT: [&str; 12] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "user",
];
/// Parameters that Berth does not support, and that determine the server or the security of the
/// connection, as do all other parameters whose names begin with `ssl`.
const NOT_TO_DROP: [&str; 8] = [
    "channel_binding",
    "gssencmode",
    "krbsrvname",
    "passfile",
    "require_auth",
    "requirepeer",
    "service",
    "target_session_attrs",
];
/// Parameters of encryption that may be dropped without weakening it.
const HARMLESS: [&str; 2] = ["sslcompression", "sslsni"];

/// Connections that `SQLAlchemy` keeps open, and how many more it opens when these are in use, by
/// default.
const SQLALCHEMY_POOL: (i64, i64) = (5, 50);
/// Berth's default number of connections.
const CONNECTIONS: i64 = 10;
/// The largest number of connections that an import sets.
const CONNECTIONS_MAX: i64 = 1000;

/// Reason why a URL cannot be converted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    /// It names another database than PostgreSQL: its scheme.
    #[error(
        "Berth keeps its data in PostgreSQL and cannot use a database of {0}; create one and pass \
         --database-url postgres://USER:PASSWORD@HOST/DATABASE. The data stays in the old database"
    )]
    OtherDatabase(String),
    /// It cannot be parsed.
    #[error("{0}; pass the URL of Berth's PostgreSQL with --database-url")]
    Malformed(&'static str),
    /// It has a parameter that Berth does not support and must not drop.
    #[error(
        "Berth does not support its parameter {0}, and without it the connection would be another or \
         less safe; remove the parameter if it is not needed, or pass --database-url"
    )]
    Parameter(String),
}

const SEVERAL_HOSTS: Refusal = Refusal::Malformed("it names several hosts, but Berth uses one");

/// A URL for Berth.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    url: String,
    /// The names of parameters that were dropped.
    dropped: Vec<String>,
}

/// `connection` and `connection_parameters`, or `--database-url` instead.
pub(super) fn url(conversion: &mut Conversion<'_>, option: &KnownOption) {
    let given = conversion.text(option.section, "connection");
    let parameters = conversion.text(option.section, "connection_parameters");
    if let Some(url) = conversion.overrides.database_url.clone() {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            let message = "--database-url must be postgres://USER:PASSWORD@HOST/DATABASE";
            return conversion.report(Severity::Error, option, &Location::Unset, message);
        }
        if let Some((old, location)) = given {
            let message = format!(
                "not converted, because --database-url replaces it: the data of {} stays there",
                without_secrets(&old)
            );
            conversion.report(Severity::Warning, option, &location, message);
        }
        let origin = "--database-url".to_owned();
        let value = Value::Text(url);
        return conversion.converted.push(Converted { key: "database-url", value, origin });
    }
    let Some((old, location)) = given else {
        let message = "is not set, and the reference does not start without it; pass the file that \
                       sets it as well, or the URL of Berth's PostgreSQL with --database-url";
        return conversion.report(Severity::Error, option, &Location::Unset, message);
    };
    let parameters = parameters.map(|(parameters, _)| parameters).unwrap_or_default();
    match convert(&old, &parameters) {
        Ok(Url { url, dropped }) => {
            for name in dropped {
                let message = format!("its parameter {name} is not converted: Berth has none");
                conversion.report(Severity::Warning, option, &location, message);
            }
            let message = "this database contains the reference's tables, and Berth's have the same \
                           names: create another database, write its name here, and run `berth db \
                           migrate`";
            conversion.report(Severity::Warning, option, &location, message);
            conversion.convert("database-url", Value::Text(url), option, &location);
        }
        Err(refusal) => {
            conversion.report(Severity::Error, option, &location, refusal.to_string());
        }
    }
}

/// `max_pool_size` and `max_overflow`. The reference's pool grows beyond its size and Berth's does
/// not, so a small size alone does not make Berth's pool small.
pub(super) fn pool(conversion: &mut Conversion<'_>, option: &KnownOption) {
    let mut number = |name| match conversion.set_value(table::find(option.section, name)?)? {
        (Value::Integer(number), location) => Some((number, location)),
        _ => None,
    };
    let (size, overflow) = (number("max_pool_size"), number("max_overflow"));
    let Some((_, location)) = size.as_ref().or(overflow.as_ref()).cloned() else { return };
    let size = size.map_or(SQLALCHEMY_POOL.0, |(size, _)| size);
    let overflow = overflow.map_or(SQLALCHEMY_POOL.1, |(overflow, _)| overflow);
    // For the reference, a size of zero or less and a negative overflow mean no limit.
    let is_unlimited = size < 1 || overflow < 0;
    let limit = if is_unlimited { i64::MAX } else { size.saturating_add(overflow) };
    let connections = size.max(CONNECTIONS).min(limit).min(CONNECTIONS_MAX);
    if connections != CONNECTIONS || size == CONNECTIONS {
        let connections = Value::Integer(connections);
        conversion.convert("database-connections", connections, option, &location);
    }
}

fn parse(url: &str) -> Option<Captures<'_>> {
    Regex::new(URL).ok()?.captures(url)
}

/// A part of a URL, unless it is missing or empty.
fn part<'a>(parts: &Captures<'a>, name: &str) -> Option<&'a str> {
    parts.name(name).map(|part| part.as_str()).filter(|part| !part.is_empty())
}

/// The scheme, host and database of a URL.
fn without_secrets(url: &str) -> String {
    let Some(parts) = parse(url) else { return "the former database".to_owned() };
    let [scheme, host, database] =
        ["scheme", "host", "database"].map(|name| part(&parts, name).unwrap_or_default());
    format!("{scheme}://{host}/{database}")
}

fn convert(url: &str, more: &str) -> Result<Url, Refusal> {
    let malformed = Refusal::Malformed("it is not a URL that SQLAlchemy can read");
    let parts = parse(url).ok_or(malformed)?;
    let part = |name| part(&parts, name);
    let scheme = part("scheme").unwrap_or_default();
    if !["postgresql", "postgres"].contains(&scheme.split('+').next().unwrap_or_default()) {
        return Err(Refusal::OtherDatabase(scheme.to_owned()));
    }
    let host = part("host").unwrap_or_default();
    if host.contains(',') {
        return Err(SEVERAL_HOSTS);
    }
    if !is_host(host) {
        return Err(Refusal::Malformed("its host is invalid (write @ in a password as %40)"));
    }
    let mut url = String::from("postgres://");
    if let Some(user) = parts.name("user") {
        url += &encoded(user.as_str())?;
        if let Some(password) = parts.name("password") {
            url.extend([":", &encoded(password.as_str())?]);
        }
        url.push('@');
    }
    url += host;
    if let Some(port) = part("port") {
        let number = port.parse::<u16>();
        let number = number.map_err(|_| Refusal::Malformed("its port is not a number"))?;
        url.extend([":", &number.to_string()]);
    }
    url.extend(["/", &encoded(part("database").unwrap_or_default())?]);
    let (parameters, dropped) = parameters(part("parameters").unwrap_or_default(), more)?;
    for (nth, (name, value)) in parameters.iter().enumerate() {
        let value = utf8_percent_encode(value, &ENCODED_IN_PARAMETERS).to_string();
        url.extend([if nth == 0 { "?" } else { "&" }, name, "=", &value]);
    }
    Ok(Url { url, dropped })
}

/// Returns whether every URL parser reads this as the same host.
fn is_host(host: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.chars().all(|c| c == ':' || c == '%' || allowed(c)),
        None => host.chars().all(allowed),
    }
}

fn encoded(part: &str) -> Result<String, Refusal> {
    Ok(utf8_percent_encode(&decoded(part)?, &ENCODED).to_string())
}

fn decoded(part: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(part).decode_utf8();
    decoded.map(Into::into).map_err(|_| Refusal::Malformed("it is not UTF-8 when decoded"))
}

type Parameters = (Vec<(String, String)>, Vec<String>);

/// The parameters that are kept, and the names of those that are dropped.
fn parameters(own: &str, more: &str) -> Result<Parameters, Refusal> {
    let mut kept: Vec<(String, String)> = Vec::new();
    let mut dropped = Vec::new();
    for pair in own.split('&').chain(more.split('&')) {
        let (name, value) = pair.split_once('=').unwrap_or_default();
        let (name, value) = (decoded(&name.replace('+', " "))?, decoded(&value.replace('+', " "))?);
        let is_in = |names: &[&str]| names.contains(&name.as_str());
        if value.is_empty() {
            continue;
        }
        if is_in(&KEPT) {
            let is_second = kept.iter().any(|(other, _)| *other == name);
            if name == "host" && (is_second || value.contains(',')) {
                return Err(SEVERAL_HOSTS);
            }
            kept.push((name, value));
        } else if is_in(&NOT_TO_DROP) || name.starts_with("ssl") && !is_in(&HARMLESS) {
            return Err(Refusal::Parameter(name));
        } else {
            dropped.push(name);
        }
    }
    // libpq then verifies the certificate, sqlx only if it is told to.
    if kept.iter().any(|(name, _)| name == "sslrootcert") {
        let modes = kept.iter_mut().filter(|(name, value)| name == "sslmode" && value == "require");
        modes.for_each(|(_, value)| "verify-ca".clone_into(value));
    }
    Ok((kept, dropped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(url: &str, more: &str) -> String {
        convert(url, more).unwrap().url
    }

    #[test]
    fn urls_of_postgresql_lose_their_driver() {
        let table = [
            ("postgresql://u:p@h/d", "postgres://u:p@h/d"),
            ("postgresql+psycopg2://u:p@h:5433/d", "postgres://u:p@h:5433/d"),
            ("postgresql+asyncpg://u@[::1]:5432/d", "postgres://u@[::1]:5432/d"),
            ("postgresql://u:a%40b%2Fc@h/d", "postgres://u:a%40b%2Fc@h/d"),
            ("postgresql://u:a/b?c#d%25:e@h/d", "postgres://u:a%2Fb%3Fc%23d%25%3Ae@h/d"),
            ("postgresql:///d?host=/run/pg", "postgres:///d?host=/run/pg"),
            ("postgresql://u@/d?host=/run/pg", "postgres://u@/d?host=/run/pg"),
            ("postgresql://h/my%20db", "postgres://h/my%20db"),
            ("postgresql://h:/d", "postgres://h/d"),
            ("postgresql://h", "postgres://h/"),
            ("postgresql://u:ä@h/d", "postgres://u:%C3%A4@h/d"),
        ];
        for (url, wanted) in table {
            assert_eq!(converted(url, ""), wanted, "{url}");
        }
    }

    #[test]
    fn parameters_are_kept_dropped_or_refused() {
        let own = "postgresql://h/d?sslmode=verify-full&sslrootcert=/a+b.pem&application_name=";
        assert_eq!(
            converted(own, "options=-c%20x%3Dy"),
            "postgres://h/d?sslmode=verify-full&sslrootcert=/a%20b.pem&options=-c%20x%3Dy"
        );
        let dropped =
            convert("postgresql://h/d?connect_timeout=5", "charset=utf8&sslsni=0").unwrap();
        assert_eq!(dropped.url, "postgres://h/d");
        assert_eq!(dropped.dropped, ["connect_timeout", "charset", "sslsni"]);
        for name in ["sslcrl", "ssl", "channel_binding", "service"] {
            let url = format!("postgresql://h/d?{name}=x");
            assert_eq!(convert(&url, ""), Err(Refusal::Parameter(name.to_owned())));
        }
    }

    #[test]
    fn a_configured_authority_is_used() {
        let strict = "postgres://h/d?sslmode=verify-ca&sslrootcert=/ca";
        assert_eq!(converted("postgresql://h/d?sslmode=require&sslrootcert=/ca", ""), strict);
    }

    #[test]
    fn others_are_refused() {
        for kind in ["mysql+pymysql", "sqlite", "mysql"] {
            let url = format!("{kind}://u:p@h/d");
            assert_eq!(convert(&url, ""), Err(Refusal::OtherDatabase(kind.to_owned())));
        }
        for url in [
            "h/d",
            "postgresql://h:port/d",
            "postgresql://a,b/d",
            "postgresql://u:p@q@h/d",
            "postgresql://u:%FF@h/d",
        ] {
            assert!(matches!(convert(url, ""), Err(Refusal::Malformed(_))), "{url}");
        }
        assert!(convert("postgresql:///d?host=a&host=b", "").is_err());
    }

    #[test]
    fn the_former_database_is_named_without_its_password() {
        assert_eq!(without_secrets("mysql+pymysql://u:s3cret@h/d?x=y"), "mysql+pymysql://h/d");
        assert_eq!(without_secrets("s3cret"), "the former database");
    }
}
