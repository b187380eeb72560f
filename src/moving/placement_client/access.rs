//! The location of a placement service, and the credentials for it.

use std::path::Path;

use reqwest::Url;

use super::settings::Settings;
use crate::auth::keystone::{ClientTls, Credentials, Domain, Scope, Secret, User, tokens_url};
use crate::http_client::http_url;

/// The administrator's token for a service without authentication (`auth_strategy = noauth2`).
pub const ADMIN_TOKEN: &str = "admin";

/// The domain of users and projects without a named domain, as for `openstack`.
const DEFAULT_DOMAIN: &str = "default";
/// The default interface of OpenStack's clients.
const DEFAULT_INTERFACE: &str = "public";
const SERVICE_TYPE: &str = "placement";

/// The location of a placement service, and the credentials for it.
#[derive(Clone, Debug)]
pub enum Access {
    /// A URL and a token.
    Token {
        /// The URL.
        url: Url,
        /// The token.
        token: Secret,
        /// TLS to it.
        tls: ClientTls,
    },
    /// A token from Keystone.
    Keystone {
        /// The URL of Keystone.
        auth_url: String,
        /// Credentials for which tokens are issued.
        credentials: Box<Credentials>,
        /// The catalog entry of the service.
        catalog: Catalog,
        /// The URL of the service, instead of the catalog's.
        endpoint: Option<Url>,
        /// TLS to both.
        tls: ClientTls,
    },
}

/// An endpoint in Keystone's catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// The type of the service.
    pub service_type: String,
    /// `public`, `internal` or `admin`.
    pub interface: String,
    /// The region, if it matters.
    pub region: Option<String>,
}

impl Access {
    /// Access to the service that a command names. With a token, `url` is required. Without one, the settings are
    /// used if they contain credentials, with `url` or else the catalog's endpoint; otherwise `url` as the
    /// administrator of a service without authentication.
    ///
    /// # Errors
    /// A message: what is missing, or wrong.
    pub fn of(
        url: Option<&str>,
        token: Option<&Secret>,
        settings: &Settings,
    ) -> Result<Self, String> {
        let asks_keystone = settings.get("auth_url").is_some();
        match (url, token) {
            (Some(url), Some(token)) => Self::by_url(url, Some(token), Some(settings)),
            (Some(url), None) if !asks_keystone => {
                let token = settings.get("token").map(Secret::from);
                Self::by_url(url, token.as_ref(), Some(settings))
            }
            (None, Some(_)) => Err("a token without a URL: name the service's URL, too".to_owned()),
            (url, None) => Self::by_settings(settings, url),
        }
    }

    /// Access by URL and token. Without a token, as the administrator of a service without authentication.
    ///
    /// # Errors
    /// A message: the URL or the settings are wrong.
    pub fn by_url(
        url: &str,
        token: Option<&Secret>,
        settings: Option<&Settings>,
    ) -> Result<Self, String> {
        let url = endpoint(url)?;
        let tls = settings.map(tls).transpose()?;
        let tls = tls.unwrap_or_else(ClientTls::default);
        let token = token.cloned().unwrap_or_else(|| Secret::from(ADMIN_TOKEN));
        Ok(Self::Token { url, token, tls })
    }

    /// Access with the settings of OpenStack's clients; `url` replaces the catalog's endpoint.
    ///
    /// # Errors
    /// A message: what is missing, or contradictory.
    pub fn by_settings(settings: &Settings, url: Option<&str>) -> Result<Self, String> {
        let get = |name: &str| settings.get(name);
        let kind = get("auth_type").map_or("", |it| it);
        let named = url.or_else(|| get("placement_endpoint_override")).or_else(|| {
            let direct = ["admin_token", "none", "noauth"].contains(&kind);
            get("endpoint").filter(|_| direct || get("auth_url").is_none())
        });
        let named = named.map(endpoint).transpose()?;
        let tls = tls(settings)?;
        if ["admin_token", "none", "noauth"].contains(&kind) {
            let url = named.ok_or_else(|| settings.missing("endpoint"))?;
            let token = get("token").map_or_else(|| ADMIN_TOKEN.into(), Secret::from);
            return Ok(Self::Token { url, token, tls });
        }
        let auth_url = get("auth_url").ok_or_else(|| settings.missing("auth_url"))?.to_owned();
        tokens_url(&auth_url)?;
        let first = |names: &[&str]| names.iter().find_map(|name| get(name)).map(str::to_owned);
        let interface = first(&["placement_interface", "interface", "endpoint_type"]);
        let interface = interface.unwrap_or_else(|| DEFAULT_INTERFACE.to_owned());
        let catalog = Catalog {
            service_type: first(&["placement_service_type"])
                .unwrap_or_else(|| SERVICE_TYPE.to_owned()),
            interface: interface.trim_end_matches("URL").to_owned(),
            region: first(&["placement_region_name", "region_name"]),
        };
        let credentials = Box::new(credentials(settings, kind)?);
        Ok(Self::Keystone { auth_url, credentials, catalog, endpoint: named, tls })
    }

    /// Returns whether a new token can be requested when one is refused.
    pub(super) fn can_log_in(&self) -> bool {
        matches!(self, Self::Keystone { .. })
    }

    pub(super) fn tls(&self) -> &ClientTls {
        match self {
            Self::Token { tls, .. } | Self::Keystone { tls, .. } => tls,
        }
    }
}

/// The URL of a service.
fn endpoint(text: &str) -> Result<Url, String> {
    let url = http_url(text)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("{text}: the URL of a service has no query and no fragment"));
    }
    Ok(url)
}

fn credentials(settings: &Settings, kind: &str) -> Result<Credentials, String> {
    let get = |name: &str| settings.get(name);
    let need = |name: &str| get(name).map(str::to_owned).ok_or_else(|| settings.missing(name));
    let has_application_credential = ["application_credential_id", "application_credential_name"]
        .iter()
        .any(|name| get(name).is_some());
    match kind.trim_start_matches("v3") {
        "applicationcredential" => application_credential(settings),
        "" if has_application_credential => application_credential(settings),
        "token" => Ok(token(need("token")?, settings)?),
        "" if get("password").is_none() && get("token").is_some() => {
            Ok(token(need("token")?, settings)?)
        }
        "" | "password" => Ok(Credentials::Password {
            user: user(settings)?,
            password: Secret(need("password")?),
            scope: scope(settings)?.ok_or_else(|| settings.missing("project_name"))?,
        }),
        _ => Err(format!(
            "{}: auth_type {kind} is not supported; password, token, v3applicationcredential, \
             admin_token and none are",
            settings.origin()
        )),
    }
}

fn token(token: String, settings: &Settings) -> Result<Credentials, String> {
    Ok(Credentials::Token { token: Secret(token), scope: scope(settings)? })
}

fn application_credential(settings: &Settings) -> Result<Credentials, String> {
    let get = |name: &str| settings.get(name).map(str::to_owned);
    let need = |name: &str| get(name).ok_or_else(|| settings.missing(name));
    let secret = Secret(need("application_credential_secret")?);
    if let Some(id) = get("application_credential_id") {
        return Ok(Credentials::ApplicationCredential { id, secret });
    }
    let name = need("application_credential_name")?;
    Ok(Credentials::NamedApplicationCredential { name, user: user(settings)?, secret })
}

fn user(settings: &Settings) -> Result<User, String> {
    if let Some(id) = settings.get("user_id") {
        return Ok(User::Id(id.to_owned()));
    }
    let name = settings.get("username").ok_or_else(|| settings.missing("username"))?;
    Ok(User::Name(name.to_owned(), domain(settings, "user")))
}

fn scope(settings: &Settings) -> Result<Option<Scope>, String> {
    let get = |names: &[&str]| names.iter().find_map(|name| settings.get(name)).map(str::to_owned);
    let id = get(&["project_id", "tenant_id"]);
    let name = get(&["project_name", "tenant_name"]);
    match (get(&["system_scope"]), get(&["trust_id"]), id, name) {
        (None, None, None, None) => Ok(None),
        (Some(all), None, None, None) if all == "all" => Ok(Some(Scope::System)),
        (Some(other), None, None, None) => Err(format!(
            "{}: system_scope {other} is not supported; only all is",
            settings.origin()
        )),
        (None, Some(trust), None, None) => Ok(Some(Scope::Trust(trust))),
        (None, None, Some(id), _) => Ok(Some(Scope::Project(User::Id(id)))),
        (None, None, None, Some(name)) => {
            Ok(Some(Scope::Project(User::Name(name, domain(settings, "project")))))
        }
        _ => Err(format!(
            "{}: a token can be scoped to one thing only: a project, the system (system_scope) or a \
             trust (trust_id)",
            settings.origin()
        )),
    }
}

/// The domain of the user or the project.
fn domain(settings: &Settings, of: &str) -> Domain {
    let get = |name: &str| settings.get(name).map(str::to_owned);
    let of_default = || get("default_domain_id").or_else(|| get("default_domain"));
    get(&format!("{of}_domain_id"))
        .map(Domain::Id)
        .or_else(|| get(&format!("{of}_domain_name")).map(Domain::Name))
        .or_else(|| of_default().map(Domain::Id))
        .or_else(|| get("default_domain_name").map(Domain::Name))
        .unwrap_or_else(|| Domain::Id(DEFAULT_DOMAIN.to_owned()))
}

/// TLS, with the files that the settings name.
fn tls(settings: &Settings) -> Result<ClientTls, String> {
    let read = |path: &str| {
        let path = Path::new(path);
        std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let identity = match (settings.get("cert"), settings.get("key")) {
        (None, None) => None,
        // One file may contain both.
        (Some(both), None) => Some(read(both)?),
        (Some(certificate), Some(key)) => {
            Some([read(certificate)?, b"\n".to_vec(), read(key)?].concat())
        }
        (None, Some(_)) => return Err(settings.missing("cert")),
    };
    let is = |name: &str, words: &[&str]| {
        settings.get(name).is_some_and(|it| words.contains(&it.to_ascii_lowercase().as_str()))
    };
    let insecure =
        is("insecure", &["1", "true", "yes", "on"]) || is("verify", &["0", "false", "no", "off"]);
    let ca = settings.get("cacert").map(read).transpose()?;
    Ok(ClientTls { ca, identity, insecure })
}

#[cfg(test)]
mod tests {
    use super::{Access, Settings};
    use crate::auth::keystone::{Credentials, Domain, Scope, User};

    fn settings(text: &str) -> Settings {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap();
            (format!("OS_{name}"), value.to_owned())
        };
        Settings::of_environment(text.split_whitespace().map(pair))
    }

    fn access(text: &str) -> Result<Access, String> {
        Access::by_settings(&settings(text), None)
    }

    fn credentials(text: &str) -> Credentials {
        match access(&format!("AUTH_URL=http://k:5000 {text}")).unwrap() {
            Access::Keystone { credentials, .. } => *credentials,
            other @ Access::Token { .. } => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_environment_of_openstacks_clients_is_understood() {
        let named = |name: &str, domain: Domain| User::Name(name.to_owned(), domain);
        let id = |id: &str| Domain::Id(id.to_owned());
        let password = |user, scope| Credentials::Password { user, password: "p".into(), scope };
        assert_eq!(
            credentials("USERNAME=u PASSWORD=p PROJECT_NAME=s"),
            password(named("u", id("default")), Scope::Project(named("s", id("default"))))
        );
        assert_eq!(
            credentials("USERNAME=u PASSWORD=p TENANT_ID=t USER_DOMAIN_NAME=D CLOUD=x"),
            password(
                named("u", Domain::Name("D".to_owned())),
                Scope::Project(User::Id("t".to_owned()))
            )
        );
        assert_eq!(
            credentials("USER_ID=u PASSWORD=p SYSTEM_SCOPE=all AUTH_TYPE=v3password"),
            password(User::Id("u".to_owned()), Scope::System)
        );
        assert_eq!(
            credentials("APPLICATION_CREDENTIAL_ID=i APPLICATION_CREDENTIAL_SECRET=p"),
            Credentials::ApplicationCredential { id: "i".to_owned(), secret: "p".into() }
        );
        assert_eq!(
            credentials("TOKEN=t AUTH_TYPE=v3token"),
            Credentials::Token { token: "t".into(), scope: None }
        );
    }

    #[test]
    fn missing_and_invalid_options_are_named() {
        for (text, named) in [
            ("", "variable OS_AUTH_URL is missing"),
            ("AUTH_URL=k", "k: "),
            ("AUTH_URL=http://k", "OS_USERNAME is missing"),
            ("AUTH_URL=http://k USERNAME=u", "OS_PASSWORD is missing"),
            ("AUTH_URL=http://k USERNAME=u PASSWORD=s3cret", "OS_PROJECT_NAME is missing"),
            (
                "AUTH_URL=http://k USER_ID=u PASSWORD=s3cret PROJECT_ID=p TRUST_ID=t",
                "one thing only",
            ),
            ("AUTH_URL=http://k AUTH_TYPE=v3totp", "auth_type v3totp is not supported"),
            ("AUTH_TYPE=none", "OS_ENDPOINT is missing"),
            ("AUTH_TYPE=none ENDPOINT=nowhere", "nowhere: "),
            ("AUTH_URL=http://k TOKEN=t CACERT=/no/such", "/no/such: "),
        ] {
            let why = access(text).unwrap_err();
            assert!(why.contains(named) && !why.contains("s3cret"), "{text}: {why}");
        }
        let cloud = Settings::of_cloud("old", [("token".to_owned(), "s3cret".to_owned())].into());
        let why = Access::by_settings(&cloud, None).unwrap_err();
        assert_eq!(why, "cloud old: auth_url is missing in clouds.yaml");
        assert!(!format!("{cloud:?}").contains("s3cret"));
    }

    #[test]
    fn the_endpoint_is_the_catalogs_or_the_one_that_is_named() {
        let of = |text: &str, url| match Access::by_settings(&settings(text), url).unwrap() {
            Access::Token { url, token, .. } => (Some(url.to_string()), token.0, None),
            Access::Keystone { endpoint, catalog, .. } => {
                let region = catalog.region.unwrap_or_else(String::new);
                (endpoint.map(|url| url.to_string()), region, Some(catalog.interface))
            }
        };
        let interface = |name: &str| Some(name.to_owned());
        let some = |url: &str| Some(url.to_owned());
        let keystone = "AUTH_URL=http://k TOKEN=t";
        assert_eq!(of(keystone, None), (None, String::new(), interface("public")));
        assert_eq!(
            of(&format!("{keystone} INTERFACE=internalURL REGION_NAME=r"), Some("http://p/")),
            (some("http://p/"), "r".to_owned(), interface("internal"))
        );
        assert_eq!(
            of(&format!("{keystone} PLACEMENT_ENDPOINT_OVERRIDE=http://p"), None).0,
            some("http://p/")
        );
        assert_eq!(
            of("AUTH_TYPE=admin_token TOKEN=t ENDPOINT=http://p", None),
            (some("http://p/"), "t".to_owned(), None)
        );
        for bad in ["p:8778", "ftp://p", "http://u:s3cret@p", "http://p?x", ""] {
            let why = Access::by_url(bad, None, None).unwrap_err();
            assert!(!why.contains("s3cret"), "{why}");
        }
    }
}
