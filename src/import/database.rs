//! `SQLAlchemy`'s URL of a PostgreSQL as Berth's.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::conversion::{Carried, Conversion};
use super::location::Location;
use super::remark::Level;
use super::table::{self, KnownOption};
use super::values::Value;

/// What may stand in any part of a URL as it is.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same for parameters, in which paths are often.
const ENCODED_IN_PARAMETERS: AsciiSet = ENCODED.remove(b'/');

/// Parameters that Berth understands as PostgreSQL's own programs do.
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
/// Parameters of security, and those that say where to connect, that Berth does not know. All
/// other names that begin with `ssl` belong to them.
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
/// Parameters of encryption without which it is no weaker.
const HARMLESS: [&str; 2] = ["sslcompression", "sslsni"];

/// Why a URL does not become one of Berth's.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It is of another database: its kind.
    Foreign(String),
    /// It cannot be read.
    Malformed(&'static str),
    /// It has a parameter that Berth does not know and must not drop.
    Parameter(String),
}

/// A URL of Berth.
#[derive(Debug, PartialEq, Eq)]
struct Converted {
    url: String,
    /// Parameters that were dropped.
    dropped: Vec<String>,
}

/// `connection` and `connection_parameters`, or what the operator says instead.
pub(super) fn url(conversion: &mut Conversion<'_>, known: &KnownOption) {
    let given = conversion.text(known.group, "connection");
    let parameters = conversion.text(known.group, "connection_parameters");
    if let Some(url) = conversion.overrides.database_url.clone() {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            let words = "--database-url must be postgres://USER:PASSWORD@HOST/DATABASE";
            return conversion.say(Level::Error, known, Location::Nowhere, words.to_owned());
        }
        if let Some((old, place)) = given {
            let words = format!(
                "not carried over, --database-url was said: the data of {} stays where it is",
                without_secrets(&old)
            );
            conversion.say(Level::Warning, known, place, words);
        }
        let origin = "said with --database-url".to_owned();
        let value = Value::Text(url);
        return conversion.outcome.carried.push(Carried { key: "database-url", value, origin });
    }
    let Some((old, place)) = given else {
        let words = "is not given, and the reference does not start without it; name the file that \
                     has it, too, or say where Berth's PostgreSQL is with --database-url";
        return conversion.say(Level::Error, known, Location::Nowhere, words.to_owned());
    };
    let parameters = parameters.map(|(parameters, _)| parameters).unwrap_or_default();
    match convert(&old, &parameters) {
        Ok(converted) => {
            for name in converted.dropped {
                let words = format!("its parameter {name} is not carried over: Berth has none");
                conversion.say(Level::Warning, known, place.clone(), words);
            }
            let words = "the reference's tables are in this database, and Berth's have names of \
                         theirs: make it a database of its own, write that one's name here, and \
                         run `berth db migrate`";
            conversion.say(Level::Warning, known, place.clone(), words.to_owned());
            conversion.carry("database-url", Value::Text(converted.url), known, &place);
        }
        Err(refusal) => {
            let words = match refusal {
                Refusal::Foreign(kind) => format!(
                    "Berth keeps its data in PostgreSQL and cannot use a database of {kind}; make \
                     it one, and say where with --database-url \
                     postgres://USER:PASSWORD@HOST/DATABASE. The data of the old one stays there"
                ),
                Refusal::Malformed(why) => {
                    format!("{why}; say where Berth's PostgreSQL is with --database-url")
                }
                Refusal::Parameter(name) => format!(
                    "Berth does not know its parameter {name}, and without it the connection would \
                     be another or less safe; take it out if it is not needed, or say \
                     --database-url"
                ),
            };
            conversion.say(Level::Error, known, place, words);
        }
    }
}

/// Connections that `SQLAlchemy` keeps and, beyond them, opens when they are all in use; unless said.
const POOL: (i64, i64) = (5, 50);
/// Berth's default.
const CONNECTIONS: i64 = 10;

/// `max_pool_size` and `max_overflow`. Pools there grow beyond their size and Berth's does not, so
/// a small size alone does not make it small.
pub(super) fn pool(conversion: &mut Conversion<'_>, known: &KnownOption) {
    let mut number = |name| {
        let known = table::find(known.group, name)?;
        match conversion.given(known)? {
            (Value::Integer(number), place) => Some((number, place)),
            _ => None,
        }
    };
    let (size, overflow) = (number("max_pool_size"), number("max_overflow"));
    let Some((_, place)) = size.as_ref().or(overflow.as_ref()).cloned() else { return };
    let size = size.map_or(POOL.0, |(size, _)| size);
    let overflow = overflow.map_or(POOL.1, |(overflow, _)| overflow);
    // Zero and below stand for no bound there.
    let unbounded = size < 1 || overflow < 0;
    let most = if unbounded { i64::MAX } else { size.saturating_add(overflow) };
    let connections = size.max(CONNECTIONS).min(most).min(1000);
    if connections != CONNECTIONS || size == CONNECTIONS {
        conversion.carry("database-connections", Value::Integer(connections), known, &place);
    }
}

/// A URL's kind, host and database.
fn without_secrets(url: &str) -> String {
    match Parts::read(url) {
        Some(parts) => {
            let database = parts.database.unwrap_or_default();
            format!("{}://{}/{database}", parts.kind, parts.host.unwrap_or_default())
        }
        None => "the former database".to_owned(),
    }
}

/// The parts of a URL as `SQLAlchemy` splits it, still encoded.
struct Parts<'a> {
    kind: &'a str,
    user: Option<&'a str>,
    password: Option<&'a str>,
    /// With brackets, if it is an address of IPv6.
    host: Option<&'a str>,
    port: Option<&'a str>,
    database: Option<&'a str>,
    parameters: &'a str,
}

impl<'a> Parts<'a> {
    /// A password may hold anything but `@`, also what would end other URLs.
    fn read(url: &'a str) -> Option<Self> {
        let (kind, rest) = url.split_once("://")?;
        let (user, password, rest) = credentials(rest);
        let (rest, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let (address, database) = match rest.split_once('/') {
            Some((address, database)) => (address, Some(database)),
            None => (rest, None),
        };
        let (host, port) = match address.rfind(']') {
            Some(end) => address.split_at_checked(end + 1)?,
            None => address.split_at_checked(address.find(':').unwrap_or(address.len()))?,
        };
        let port = port.strip_prefix(':').filter(|port| !port.is_empty());
        let host = Some(host).filter(|host| !host.is_empty());
        Some(Self { kind, user, password, host, port, database, parameters })
    }
}

fn credentials(rest: &str) -> (Option<&str>, Option<&str>, &str) {
    let end = rest.find([':', '/']).unwrap_or(rest.len());
    let (head, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let secret = tail.strip_prefix(':').and_then(|tail| tail.split_once('@'));
    if let Some((password, rest)) = secret {
        return (Some(head), Some(password), rest);
    }
    match head.rfind('@').and_then(|at| rest.split_at_checked(at)) {
        Some((user, rest)) => (Some(user), None, rest.strip_prefix('@').unwrap_or(rest)),
        None => (None, None, rest),
    }
}

fn convert(url: &str, more: &str) -> Result<Converted, Refusal> {
    let malformed = Refusal::Malformed("it is not a URL such as SQLAlchemy reads");
    let parts = Parts::read(url).ok_or(malformed)?;
    let family = parts.kind.split('+').next().unwrap_or_default();
    if !["postgresql", "postgres"].contains(&family) {
        return Err(Refusal::Foreign(parts.kind.to_owned()));
    }
    if parts.host.is_some_and(|host| host.contains(',')) {
        return Err(Refusal::Malformed("it names several hosts, and Berth connects to one"));
    }
    if !parts.host.is_none_or(is_host) {
        return Err(Refusal::Malformed("its host is none (an @ in a password is written %40)"));
    }
    let mut url = String::from("postgres://");
    if let Some(user) = parts.user {
        url += &encoded(user)?;
        if let Some(password) = parts.password {
            url.extend([":", &encoded(password)?]);
        }
        url.push('@');
    }
    url += parts.host.unwrap_or_default();
    if let Some(port) = parts.port {
        let port: u16 = port.parse().map_err(|_| Refusal::Malformed("its port is no number"))?;
        url.extend([":", &port.to_string()]);
    }
    url.extend(["/", &encoded(parts.database.unwrap_or_default())?]);
    let (parameters, dropped) = parameters(parts.parameters, more)?;
    if !parameters.is_empty() {
        let pairs = parameters.iter().map(|(name, value)| {
            format!("{name}={}", utf8_percent_encode(value, &ENCODED_IN_PARAMETERS))
        });
        url.extend(["?", &pairs.collect::<Vec<_>>().join("&")]);
    }
    Ok(Converted { url, dropped })
}

/// Whether every reader of URLs takes it for the same host.
fn is_host(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    address.map_or_else(
        || host.chars().all(allowed),
        |address| address.chars().all(|c| c == ':' || c == '%' || allowed(c)),
    )
}

fn encoded(part: &str) -> Result<String, Refusal> {
    let decoded = decoded(part)?;
    Ok(utf8_percent_encode(&decoded, &ENCODED).to_string())
}

fn decoded(part: &str) -> Result<String, Refusal> {
    let decoded = percent_decode_str(part).decode_utf8();
    decoded.map(Into::into).map_err(|_| Refusal::Malformed("it is not UTF-8 when decoded"))
}

type Parameters = (Vec<(String, String)>, Vec<String>);

/// Those that are kept, and the names of those that are dropped.
fn parameters(own: &str, more: &str) -> Result<Parameters, Refusal> {
    let mut kept: Vec<(String, String)> = Vec::new();
    let mut dropped = Vec::new();
    for pair in own.split('&').chain(more.split('&')) {
        let (name, value) = pair.split_once('=').unwrap_or_default();
        let (name, value) = (decoded(&name.replace('+', " "))?, decoded(&value.replace('+', " "))?);
        if value.is_empty() {
            continue;
        }
        if KEPT.contains(&name.as_str()) {
            let hosts =
                name == "host" && (value.contains(',') || kept.iter().any(|it| it.0 == name));
            if hosts {
                return Err(Refusal::Malformed(
                    "it names several hosts, and Berth connects to one",
                ));
            }
            kept.push((name, value));
        } else if HARMLESS.contains(&name.as_str()) {
            dropped.push(name);
        } else if name.starts_with("ssl") || NOT_TO_DROP.contains(&name.as_str()) {
            return Err(Refusal::Parameter(name));
        } else {
            dropped.push(name);
        }
    }
    // PostgreSQL's own programs check the certificate in this case, sqlx only when told to.
    if kept.iter().any(|(name, _)| name == "sslrootcert") {
        for (name, value) in &mut kept {
            if name == "sslmode" && value == "require" {
                "verify-ca".clone_into(value);
            }
        }
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
    fn a_given_authority_is_asked() {
        let strict = "postgres://h/d?sslmode=verify-ca&sslrootcert=/ca";
        assert_eq!(converted("postgresql://h/d?sslmode=require&sslrootcert=/ca", ""), strict);
    }

    #[test]
    fn others_are_refused() {
        for kind in ["mysql+pymysql", "sqlite", "mysql"] {
            let url = format!("{kind}://u:p@h/d");
            assert_eq!(convert(&url, ""), Err(Refusal::Foreign(kind.to_owned())));
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
