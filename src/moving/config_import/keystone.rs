//! Authentication of callers, and Berth's credentials for Keystone.

use super::conversion::Conversion;
use super::diagnostic::{Location, Severity};
use super::table::{self, KEYSTONE, KnownOption};
use super::values::Value;

/// Options that only an application credential needs.
const OF_APPLICATIONS: [&str; 3] =
    ["application_credential_id", "application_credential_name", "application_credential_secret"];
/// Options that an application credential makes superfluous: it has a user, a scope and a secret.
const OF_PASSWORDS: [&str; 13] = [
    "username",
    "user_id",
    "user_domain_name",
    "user_domain_id",
    "password",
    "project_name",
    "project_id",
    "project_domain_name",
    "project_domain_id",
    "system_scope",
    "trust_id",
    "domain_id",
    "domain_name",
];

/// The kind of credentials, which determines the options that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    /// None: callers are not authenticated.
    Noauth,
    /// A user with a password.
    Password,
    /// An application credential.
    Application,
}

impl Credentials {
    /// The kind selected by `auth_strategy` and `auth_type`; invalid values count as the default.
    pub(super) fn read(conversion: &mut Conversion<'_>) -> Self {
        let value =
            |section, name| match conversion.settings.value(table::find(section, name)?).ok()?.0? {
                Value::Text(text) => Some(text),
                Value::Boolean(_) | Value::Integer(_) | Value::List(_) => None,
            };
        if value("api", "auth_strategy").as_deref() == Some("noauth2") {
            return Self::Noauth;
        }
        match value(KEYSTONE, "auth_type").as_deref() {
            Some("v3applicationcredential") => Self::Application,
            _ => Self::Password,
        }
    }

    /// Returns whether these credentials use an option. Reports one that is set and not used.
    pub(super) fn use_option(self, conversion: &mut Conversion<'_>, option: &KnownOption) -> bool {
        let why = match self {
            Self::Noauth => "callers need no token (auth_strategy = noauth2)",
            Self::Password if OF_APPLICATIONS.contains(&option.name) => {
                "it is not for a user with a password"
            }
            Self::Application if OF_PASSWORDS.contains(&option.name) => {
                "an application credential has its own user, scope and secret"
            }
            Self::Password | Self::Application => return true,
        };
        let location = conversion.settings.location(option);
        if location != Location::Unset {
            let message = format!("not converted: {why}");
            conversion.report(Severity::Note, option, &location, message);
        }
        false
    }
}

/// `auth_strategy`; always written, because the reference's default is not Berth's.
pub(super) fn strategy(conversion: &mut Conversion<'_>, option: &KnownOption) {
    let Some((value, location)) = conversion.value(option) else { return };
    if value == Value::Text("noauth2".to_owned()) {
        let message = "callers are not authenticated; with noauth2, Berth listens only on loopback \
                       addresses, unless you set allow-noauth because something in front of Berth \
                       keeps strangers out";
        conversion.report(Severity::Warning, option, &location, message);
    }
    conversion.convert("auth", value, option, &location);
}

/// `auth_type`. Reports options that the type requires and that are not set.
pub(super) fn auth_type(conversion: &mut Conversion<'_>, option: &KnownOption) {
    let Some((kind, location)) = conversion.text(KEYSTONE, "auth_type") else {
        let message = "is not set, and Berth cannot validate tokens without it; set auth_type = \
                       password with auth_url, username, password, their domains and the project";
        return conversion.report(Severity::Error, option, &Location::Unset, message);
    };
    let required: &[&str] = match kind.as_str() {
        "password" | "v3password" => &["auth_url", "password"],
        "v3applicationcredential" => {
            &["auth_url", "application_credential_id", "application_credential_secret"]
        }
        _ => {
            let message = "Berth supports password, v3password and v3applicationcredential; create \
                           credentials of one of these types for its user";
            return conversion.report(Severity::Error, option, &location, message);
        }
    };
    for required in required.iter().filter_map(|name| table::find(KEYSTONE, name)) {
        let value = conversion.settings.value(required).map(|(value, _)| value);
        if matches!(value, Ok(None)) || value == Ok(Some(Value::Text(String::new()))) {
            let message = "is not set, and Berth cannot use Keystone without it; pass the file that \
                           sets it as well";
            conversion.report(Severity::Error, required, &Location::Unset, message);
        }
    }
}

/// `default_domain_name` or `default_domain_id`: the domain of the user and of the project, unless theirs is set.
/// Only keystoneauth's `password` reads it.
pub(super) fn default_domain(conversion: &mut Conversion<'_>, option: &KnownOption) {
    let Some((domain, location)) = conversion.text(KEYSTONE, option.name) else { return };
    let kind = conversion.text(KEYSTONE, "auth_type").map(|(kind, _)| kind);
    if kind.as_deref() != Some("password") {
        let message = "not converted: only auth_type = password reads it";
        return conversion.report(Severity::Note, option, &location, message);
    }
    let keys = match option.name {
        "default_domain_name" => ["keystone-user-domain-name", "keystone-project-domain-name"],
        _ => ["keystone-user-domain-id", "keystone-project-domain-id"],
    };
    for key in keys {
        if conversion.converted.iter().all(|converted| converted.key != key) {
            conversion.convert(key, Value::Text(domain.clone()), option, &location);
        }
    }
}

/// `token_cache_time`. A negative time disables the reference's cache, zero disables Berth's.
pub(super) fn cache_time(conversion: &mut Conversion<'_>, option: &KnownOption) {
    if let Some((Value::Integer(seconds), location)) = conversion.set_value(option) {
        let seconds = Value::Integer(seconds.clamp(0, u32::MAX.into()));
        conversion.convert("keystone-token-cache-time", seconds, option, &location);
    }
}
