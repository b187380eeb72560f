//! Reading `--database-url` as libpq does, into options for each host that it names.
//!
//! No error contains a part of the URL that could be the password, or a piece of it that was not
//! percent-encoded: parts are named by their place.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::model::nearest::did_you_mean;

/// Maximum number of hosts in a URL.
const HOSTS_MAX: usize = 32;

/// Accepted schemes.
const SCHEMES: [&str; 2] = ["postgres", "postgresql"];

/// Values of `sslmode`.
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// Parameters that are parsed here.
const OWN: [&str; 5] =
    ["host", "hostaddr", "port", "target_session_attrs", "statement-cache-capacity"];

/// Parameters that mean to sqlx what they mean to libpq, or are sqlx's own.
const PASSED: [&str; 14] = [
    "user",
    "password",
    "dbname",
    "application_name",
    "options",
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
];

/// Parameters of libpq that are accepted and ignored: Berth has limits of its own for these.
const WITHOUT_EFFECT: [&str; 9] = [
    "connect_timeout",
    "fallback_application_name",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "load_balance_hosts",
    "tcp_user_timeout",
    "client_encoding",
];

/// Reads a URL into options for each of its hosts, in their order; there is at least one.
///
/// # Errors
/// A message, without the password.
pub fn read(url: &str) -> Result<Vec<PgConnectOptions>, String> {
    read_with(url, None)
}

/// Like [`read`], with a password from elsewhere.
///
/// # Errors
/// As for [`read`]; or the URL has a password too.
pub fn read_with(url: &str, password: Option<&str>) -> Result<Vec<PgConnectOptions>, String> {
    let mut named = Parts::read(url.trim())?;
    if let Some(password) = password {
        if named.settings.iter().any(|(key, _)| key == "password") {
            return Err(
                "the password is in the URL and in --database-password-file; it must be in \
                        one of them, not both"
                    .to_owned(),
            );
        }
        named.set("password", password);
    }
    let (hosts, ports) = (&named.hosts, &named.ports);
    if hosts.len() > HOSTS_MAX {
        return Err(format!("it names {} hosts; at most {HOSTS_MAX} are allowed", hosts.len()));
    }
    let is_list = hosts.len() > 1;
    if let Some(nth) = hosts.iter().position(String::is_empty).filter(|_| is_list) {
        return Err(format!("host {} of {} is empty", nth + 1, hosts.len()));
    }
    let ports = match ports.as_slice() {
        [one] => vec![one; hosts.len()],
        ports if ports.len() == hosts.len() => ports.iter().collect(),
        ports => {
            return Err(format!(
                "it names {} ports for {} hosts; name one port, or one for each host",
                ports.len(),
                hosts.len()
            ));
        }
    };
    hosts.iter().zip(ports).map(|(host, port)| options(&named.settings, host, *port)).collect()
}

/// The certificate files in a URL, with their parameters. Certificates inside the URL are left out.
pub fn certificate_files(url: &str) -> Vec<(&'static str, PathBuf)> {
    let Ok(named) = Parts::read(url.trim()) else { return Vec::new() };
    let files = named.settings.into_iter().filter_map(|(key, value)| {
        let parameter = match key.as_str() {
            "sslrootcert" | "ssl-root-cert" | "ssl-ca" => "sslrootcert",
            "sslcert" | "ssl-cert" => "sslcert",
            _ => return None,
        };
        (!value.starts_with("-----BEGIN")).then(|| (parameter, PathBuf::from(value)))
    });
    files.collect()
}

/// A URL without its passwords; `None` if it is invalid, because a password could be anywhere then.
pub fn redacted(url: &str) -> Option<String> {
    read(url).ok()?;
    let (scheme, rest) = url.trim().split_once("://")?;
    let (authority, tail) = split_authority(rest);
    let (path, query) = before(tail, '?');
    let who = authority.rsplit_once('@').map_or_else(
        || authority.to_owned(),
        |(caller, hosts)| format!("{}@{hosts}", before(caller, ':').0),
    );
    let is_password =
        |parameter: &&str| decoded(before(parameter, '=').0, "").is_ok_and(|key| key == "password");
    let shown: Vec<&str> =
        query.split('&').filter(|it| !it.is_empty() && !is_password(it)).collect();
    let mark = if shown.is_empty() { "" } else { "?" };
    Some(format!("{scheme}://{who}{path}{mark}{}", shown.join("&")))
}

/// Splits off the part before the database.
fn split_authority(rest: &str) -> (&str, &str) {
    rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at))
}

/// The options of one host, parsed by sqlx from an unambiguous URL.
fn options(
    settings: &[(String, String)],
    host: &str,
    port: Option<u16>,
) -> Result<PgConnectOptions, String> {
    let mut url = "postgres:///?".to_owned();
    let mut set = |key: &str, value: &str| {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        url.extend([&encode(key), "=", &encode(value), "&"]);
    };
    for (key, value) in settings {
        set(key, value);
    }
    if !host.is_empty() {
        set("host", host);
    }
    if let Some(port) = port {
        set("port", &port.to_string());
    }
    // The error of sqlx might repeat parts of the URL.
    PgConnectOptions::from_str(&url).map_err(|_| "its parameters cannot be used".to_owned())
}

/// The parts of a URL.
#[derive(Default)]
struct Parts {
    /// Parameters for all hosts; a later one overrides an earlier one with the same name.
    settings: Vec<(String, String)>,
    /// Names, addresses, and directories of Unix sockets; empty: not named.
    hosts: Vec<String>,
    /// None: not named.
    ports: Vec<Option<u16>>,
}

impl Parts {
    fn read(url: &str) -> Result<Self, String> {
        let known = |scheme: &str| SCHEMES.iter().any(|it| it.eq_ignore_ascii_case(scheme));
        let Some((_, rest)) = url.split_once("://").filter(|(scheme, _)| known(scheme)) else {
            let found = if url.is_empty() { "it is empty" } else { "it begins with neither" };
            return Err(format!(
                "it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE or postgresql://..., but \
                 {found}"
            ));
        };
        let (authority, tail) = split_authority(rest);
        let (path, query) = before(tail, '?');
        // A raw slash in a password would make its rest a part of the database's name, which is shown.
        if path.contains('@') {
            return Err(
                "it has an @ after the first / (a character such as : / ? # @ in a password, \
                        or an @ in the name of a database, is percent-encoded)"
                    .to_owned(),
            );
        }
        let mut parts = Self::default();
        parts.read_authority(authority)?;
        parts.set("dbname", &decoded(path.trim_start_matches('/'), "the name of the database")?);
        let queried = query.split('&').filter(|_| !query.is_empty());
        let mut wrong = Vec::new();
        for (nth, parameter) in queried.enumerate() {
            wrong.extend(parts.read_parameter(nth + 1, parameter).err());
        }
        if wrong.is_empty() { Ok(parts) } else { Err(wrong.join("; ")) }
    }

    /// Parses the part before the database: `user:password@host:port,host:port`.
    fn read_authority(&mut self, authority: &str) -> Result<(), String> {
        let (caller, hosts) = match authority.rsplit_once('@') {
            Some((caller, hosts)) => (Some(caller), hosts),
            None => (None, authority),
        };
        if let Some(caller) = caller {
            let (user, password) = before(caller, ':');
            self.set("user", &decoded(user, "the user's name")?);
            self.set("password", &decoded(password, "the password")?);
        }
        for (nth, entry) in hosts.split(',').enumerate() {
            let (host, port) = split_host(entry, nth + 1)?;
            self.hosts.push(host);
            self.ports.push(read_port(&decoded(port, "a port")?, nth + 1)?);
        }
        // With a user and without a host this machine is meant; with neither, what PGHOST says, or
        // the socket where PostgreSQL has it.
        if caller.is_some() && self.hosts.iter().all(String::is_empty) && self.hosts.len() == 1 {
            self.hosts = vec!["localhost".to_owned()];
        }
        Ok(())
    }

    fn read_parameter(&mut self, nth: usize, parameter: &str) -> Result<(), String> {
        let what = format!("parameter {nth} after the question mark");
        let Some((key, value)) = parameter.split_once('=') else {
            return Err(format!("{what} has no value; write NAME=VALUE"));
        };
        let (key, value) = (decoded(key, &what)?, decoded(value, &what)?);
        match key.as_str() {
            "host" => self.hosts = value.split(',').map(str::to_owned).collect(),
            "hostaddr" => self.hosts = read_addresses(&value)?,
            "port" => {
                let ports = value.split(',').enumerate();
                self.ports =
                    ports.map(|(nth, port)| read_port(port, nth + 1)).collect::<Result<_, _>>()?;
            }
            "target_session_attrs" => {
                if !["read-write", "primary"].contains(&value.as_str()) {
                    return Err("target_session_attrs: only read-write and primary can be served \
                                from; Berth needs the primary"
                        .to_owned());
                }
            }
            "statement-cache-capacity" => {
                let capacity = value.parse::<u16>();
                capacity.map_err(|_| "statement-cache-capacity is not a number".to_owned())?;
                self.set(&key, &value);
            }
            key if WITHOUT_EFFECT.contains(&key) => {
                tracing::debug!(key, "a parameter of --database-url has no effect");
            }
            key if PASSED.contains(&key) || key.starts_with("options[") => {
                if ["sslmode", "ssl-mode"].contains(&key) && value.parse::<PgSslMode>().is_err() {
                    // Offered from the modes, so that what was written is not repeated.
                    return Err(format!(
                        "sslmode must be one of {}{}",
                        SSL_MODES.join(", "),
                        did_you_mean(&value, SSL_MODES)
                    ));
                }
                self.set(key, &value);
            }
            // Its name is not repeated: it may be a piece of a password.
            unknown => {
                let known = OWN.iter().chain(&PASSED).chain(&WITHOUT_EFFECT).copied();
                let guess = did_you_mean(unknown, known);
                let guess = if guess.is_empty() {
                    let (own, passed) = (OWN.join(", "), PASSED.join(", "));
                    format!("; the parameters are {own}, {passed} and options[...]")
                } else {
                    guess
                };
                return Err(format!("{what} is unknown{guess}"));
            }
        }
        Ok(())
    }

    /// Notes a parameter, unless it is empty, which means as much as leaving it out.
    fn set(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.settings.push((key.to_owned(), value.to_owned()));
        }
    }
}

/// The parts before and after a character.
fn before(text: &str, character: char) -> (&str, &str) {
    text.split_once(character).map_or((text, ""), |parts| parts)
}

/// The host of an entry, decoded, and its port, which may be empty.
fn split_host(entry: &str, nth: usize) -> Result<(String, &str), String> {
    let Some(bracketed) = entry.strip_prefix('[') else {
        let (host, port) = before(entry, ':');
        if port.contains(':') {
            return Err(format!(
                "host {nth} has several colons: write an IPv6 address in brackets, and a \
                 character such as : / ? # @ in a password percent-encoded"
            ));
        }
        return Ok((decoded(host, &format!("host {nth}"))?, port));
    };
    let no_address = || format!("host {nth} is not an IPv6 address in brackets");
    let (address, rest) = bracketed.split_once(']').ok_or_else(no_address)?;
    let address = decoded(address, &format!("host {nth}"))?;
    // An address of a link names its interface behind a per cent sign.
    let (number, _interface) = before(&address, '%');
    number.parse::<Ipv6Addr>().map_err(|_| no_address())?;
    let port = if rest.is_empty() { Some("") } else { rest.strip_prefix(':') };
    Ok((address, port.ok_or_else(no_address)?))
}

fn read_port(port: &str, nth: usize) -> Result<Option<u16>, String> {
    match port.parse() {
        _ if port.is_empty() => Ok(None),
        Ok(0) | Err(_) => Err(format!(
            "the port of host {nth} is not a number from 1 to 65535 (a character such as : / ? # @ \
             in a password is percent-encoded)"
        )),
        Ok(port) => Ok(Some(port)),
    }
}

fn read_addresses(value: &str) -> Result<Vec<String>, String> {
    let address = |(nth, address): (usize, &str)| match address.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_string()),
        Err(_) => Err(format!("hostaddr: entry {} is not an IP address", nth + 1)),
    };
    value.split(',').enumerate().map(address).collect()
}

/// Decodes what is percent-encoded; `what` it is, if it cannot be.
fn decoded(text: &str, what: &str) -> Result<String, String> {
    let is_encoded = |after: &str| {
        after
            .get(..2)
            .is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()) && code != "00")
    };
    if !text.split('%').skip(1).all(is_encoded) {
        return Err(format!(
            "in {what} a % is not followed by two hexadecimal digits other than 00 (% itself is \
             written %25)"
        ));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| format!("{what} is not UTF-8"))?.into_owned())
}

#[cfg(test)]
mod tests {
    use sqlx::ConnectOptions;
    use sqlx::postgres::PgConnectOptions;

    use super::{read, redacted};

    /// Each host with its port, and the directory of its socket if it has one.
    fn hosts(url: &str) -> Vec<String> {
        let named = |options: &PgConnectOptions| {
            let socket = options.get_socket().map(|path| path.display().to_string());
            let host = socket.unwrap_or_else(|| options.get_host().to_owned());
            format!("{host} {}", options.get_port())
        };
        read(url).unwrap().iter().map(named).collect()
    }

    #[test]
    fn a_url_is_shown_without_its_passwords() {
        for (url, expected) in [
            (
                "postgres://u:s3cret@a,b:1/d?sslmode=verify-full",
                "postgres://u@a,b:1/d?sslmode=verify-full",
            ),
            ("postgres://h/d?pass%77ord=s3cret&user=u", "postgres://h/d?user=u"),
            (" postgresql://u:s3%40@/d?password=s3cret", "postgresql://u@/d"),
            ("postgres:///d?host=/run/pg", "postgres:///d?host=/run/pg"),
        ] {
            assert_eq!(redacted(url).as_deref(), Some(expected));
        }
        for url in ["postgres://u:s3cret@h:port/d", "postgres://u:sek@ret/x@h/db"] {
            assert_eq!(redacted(url), None);
        }
        assert_eq!(redacted("postgres://u:sek@ret@h/db").as_deref(), Some("postgres://u@h/db"));
    }

    fn refused(url: &str) -> String {
        let words = read(url).unwrap_err();
        assert!(!words.contains("s3cret"), "{words}");
        words
    }

    #[test]
    fn one_host_is_read_with_everything_beside_it() {
        let read = read(
            "postgres://ber%74h:s%3A3@db.example.org:5433/%62erth?sslmode=verify-full\
             &application_name=a+b&options=-c%20jit%3Doff&options[search_path]=here",
        );
        let [options] = &read.unwrap()[..] else { panic!("one host is named") };
        assert_eq!(options.get_host(), "db.example.org");
        assert_eq!(options.get_port(), 5433);
        assert_eq!(options.get_username(), "berth");
        assert_eq!(options.get_database(), Some("berth"));
        // As libpq has it: a plus is no space.
        assert_eq!(options.get_application_name(), Some("a+b"));
        assert_eq!(options.get_options(), Some("-c jit=off -c search_path=here"));
        let url = options.to_url_lossy();
        assert_eq!(url.password(), Some("s%3A3"));
        assert!(url.query().unwrap().contains("sslmode=verify-full"), "{url}");
    }

    #[test]
    fn several_hosts_have_their_own_ports_and_share_the_rest() {
        let url = "postgresql://u:p@a:1,b,[fe80::1%25eth0]:3,%2Frun%2Fpg/berth\
                   ?target_session_attrs=read-write";
        assert_eq!(hosts(url), ["a 1", "b 5432", "fe80::1%eth0 3", "/run/pg 5432"]);
        for options in read(url).unwrap() {
            assert_eq!(options.get_username(), "u");
            assert_eq!(options.get_database(), Some("berth"));
        }
        for (url, expected) in [
            ("postgres:///berth?host=a,b&port=1,2", ["a 1", "b 2"]),
            ("postgres:///berth?host=/run/pg,::1&port=7", ["/run/pg 7", "::1 7"]),
            ("postgres://u@/berth?host=a,b&target_session_attrs=primary", ["a 5432", "b 5432"]),
            ("postgres://x:9/?host=a,b", ["a 9", "b 9"]),
            ("postgres://a,b/?port=5,", ["a 5", "b 5432"]),
            ("postgres://a,b?hostaddr=10.0.0.1,::1", ["10.0.0.1 5432", "::1 5432"]),
        ] {
            assert_eq!(hosts(url), expected, "{url}");
        }
    }

    #[test]
    fn a_host_may_be_left_out() {
        assert_eq!(hosts("postgres://u@/berth"), ["localhost 5432"]);
        assert_eq!(hosts("postgres://u:p@:5433"), ["localhost 5433"]);
        assert_eq!(hosts("postgres:///berth?host=/run/pg"), ["/run/pg 5432"]);
        assert_eq!(read("postgres://").unwrap().len(), 1);
        assert_eq!(read("postgres:///berth").unwrap().len(), 1);
    }

    #[test]
    fn another_url_is_refused_without_repeating_it() {
        for url in [
            "",
            "  ",
            "mysql://u:s3cret@h/berth",
            "http://u:s3cret@h/berth",
            "s3cret://h",
            "host=h password=s3cret",
            "postgres:/h/s3cret",
        ] {
            let words = refused(url);
            assert!(words.contains("postgres://USER:PASSWORD@HOST:PORT/DATABASE"), "{words}");
        }
    }

    #[test]
    fn faults_are_named_without_the_password() {
        for (url, named) in [
            ("postgres://u:s3cret@a,,b/berth", "host 2 of 3 is empty"),
            ("postgres://u:s3cret@a,/berth", "host 2 of 2 is empty"),
            ("postgres:///berth?host=,b", "host 1 of 2 is empty"),
            ("postgres://u:s3cret@a:x/berth", "the port of host 1 is not a number"),
            ("postgres://u:s3cret@a,b:70000/berth", "the port of host 2 is not a number"),
            ("postgres://u:s3cret@a:0/berth", "the port of host 1 is not a number"),
            ("postgres:///berth?host=a,b&port=1,2,3", "3 ports for 2 hosts"),
            ("postgres://a:1,b:2/berth?port=1,2,3", "3 ports for 2 hosts"),
            ("postgres://u:s3cret@[::1/berth", "host 1 is not an IPv6 address"),
            ("postgres://u:s3cret@[a]/berth", "host 1 is not an IPv6 address"),
            ("postgres://u:s3cret@[::1]5/berth", "host 1 is not an IPv6 address"),
            ("postgres://u:s3cret@::1/berth", "IPv6 address in brackets"),
            ("postgres:///berth?hostaddr=localhost", "hostaddr: entry 1 is not an IP address"),
            ("postgres://u:s3cret/x@h/berth", "is percent-encoded"),
            ("postgres://u:s@s3cret/x@h/berth", "an @ after the first /"),
            ("postgres://u:%s3cret@h/berth", "in the password a %"),
            ("postgres://u:s3cret%00@h/berth", "in the password a %"),
            ("postgres://u:s3cret%ff@h/berth", "the password is not UTF-8"),
            ("postgres://h/berth?password=a&s3cret", "parameter 2 after the question mark"),
            ("postgres://h/berth?password=a&s3cret=b", "parameter 2 after the question mark"),
            ("postgres://h/berth?sslmode=s3cret", "sslmode must be one of"),
            ("postgres://u:s3cret@h/berth?sslmode=verify-ful", "did you mean \"verify-full\"?"),
            (
                "postgres://u:s3cret@h/d?sslmod=verify-full",
                "parameter 1 after the question mark is unknown; did you mean \"sslmode\"?",
            ),
            (
                "postgres://h/d?sslmod=s3cret&hots=s3cret",
                "parameter 2 after the question mark is unknown; did you mean \"host\"?",
            ),
            ("postgres://h/?statement-cache-capacity=s3cret", "statement-cache-capacity"),
            ("postgres://h/berth?target_session_attrs=any", "Berth needs the primary"),
            ("postgres://h/berth?target_session_attrs=prefer-standby", "Berth needs the primary"),
        ] {
            let words = refused(url);
            assert!(words.contains(named), "{url}: {words}");
        }
        let many = vec!["h"; 33].join(",");
        assert!(refused(&format!("postgres://{many}/berth")).contains("33 hosts"));
    }

    #[test]
    fn bounds_of_libpq_that_berth_has_itself_are_taken() {
        let url = "postgres://a,b/berth?connect_timeout=3&keepalives_idle=5&tcp_user_timeout=9";
        assert_eq!(hosts(url), ["a 5432", "b 5432"]);
    }
}
