//! Who callers are, and as whom Berth asks Keystone about them.

use super::conversion::Conversion;
use super::location::Location;
use super::remark::Level;
use super::table::{self, KEYSTONE, KnownOption};
use super::values::Value;

/// Options that only an application credential has.
const OF_APPLICATIONS: [&str; 3] =
    ["application_credential_id", "application_credential_name", "application_credential_secret"];
/// Options that an application credential has no use for: it has its own scope.
const OF_PASSWORDS: [&str; 9] = [
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

/// Which of Keystone's options are of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    /// None: callers are believed.
    Noauth,
    /// Those of a user with a password.
    Password,
    /// Those of an application credential; whether it is named by its id.
    Application { by_id: bool },
}

impl Credentials {
    /// What `auth_strategy` and `auth_type` say, as far as they can be read.
    pub(super) fn read(conversion: &mut Conversion<'_>) -> Self {
        let value = |group, name| {
            let known = table::find(group, name)?;
            match conversion.settings.value(known).ok()?.0? {
                Value::Text(text) => Some(text),
                Value::Boolean(_) | Value::Integer(_) | Value::List(_) => None,
            }
        };
        if value("api", "auth_strategy").as_deref() == Some("noauth2") {
            return Self::Noauth;
        }
        match value(KEYSTONE, "auth_type").as_deref() {
            Some("v3applicationcredential") => {
                let id = value(KEYSTONE, "application_credential_id");
                Self::Application { by_id: id.is_some_and(|id| !id.is_empty()) }
            }
            _ => Self::Password,
        }
    }

    /// Whether an option is of use; if it is given and not, that is remarked.
    pub(super) fn wanted(self, conversion: &mut Conversion<'_>, known: &KnownOption) -> bool {
        let why = match self {
            Self::Noauth => "callers are not asked for tokens (auth_strategy = noauth2)",
            Self::Password if OF_APPLICATIONS.contains(&known.name) => {
                "a user with a password has none"
            }
            Self::Application { .. } if OF_PASSWORDS.contains(&known.name) => {
                "an application credential has its own scope and secret"
            }
            Self::Application { by_id: true } if known.name == "application_credential_name" => {
                "the id is enough"
            }
            Self::Password | Self::Application { .. } => return true,
        };
        if let Some(place) = conversion.settings.place(known) {
            conversion.say(Level::Note, known, place, format!("not carried over: {why}"));
        }
        false
    }
}

/// Always written: the reference's default is not Berth's.
pub(super) fn strategy(conversion: &mut Conversion<'_>, known: &KnownOption) {
    let (value, place) = match conversion.settings.value(known) {
        Ok((Some(value), place)) => (value, place),
        Ok((None, _)) => return,
        Err(remark) => return conversion.outcome.remarks.push(remark),
    };
    if value == Value::Text("noauth2".to_owned()) {
        let words = "every caller is believed; Berth serves so on loopback addresses only, unless \
                     allow-noauth is true because something in front keeps strangers out";
        conversion.say(Level::Warning, known, place.clone(), words.to_owned());
    }
    conversion.carry("auth", value, known, &place);
}

/// The kind of credentials. What goes with it and is missing is remarked here as well.
pub(super) fn auth_type(conversion: &mut Conversion<'_>, known: &KnownOption) {
    let Some((kind, place)) = conversion.text(KEYSTONE, "auth_type") else {
        let words = "is not given, and without it tokens cannot be validated; say auth_type = \
                     password with auth_url, username, password, their domains and project";
        return conversion.say(Level::Error, known, Location::Nowhere, words.to_owned());
    };
    let secrets: &[&str] = match kind.as_str() {
        "password" | "v3password" => &["auth_url", "password"],
        "v3applicationcredential" => &["auth_url", "application_credential_secret"],
        _ => {
            let words = "Berth can show Keystone a password, v3password or \
                         v3applicationcredential; make one of those for its user and say so here";
            return conversion.say(Level::Error, known, place, words.to_owned());
        }
    };
    for name in secrets {
        let missing = table::find(KEYSTONE, name).filter(|known| {
            let given = conversion.settings.value(known);
            matches!(&given, Ok((None, _)))
                || given.is_ok_and(|(value, _)| value == Some(Value::Text(String::new())))
        });
        if let Some(missing) = missing {
            let words = "is not given, and Berth cannot ask Keystone without it; name the file \
                         that has it, too";
            conversion.say(Level::Error, missing, Location::Nowhere, words.to_owned());
        }
    }
    conversion.carry("keystone-auth-type", Value::Text(kind), known, &place);
}

/// A domain for the user and the project that have none; keystoneauth's `password` alone has it.
pub(super) fn default_domain(conversion: &mut Conversion<'_>, known: &KnownOption) {
    let Some((domain, place)) = conversion.text(KEYSTONE, known.name) else { return };
    let kind = conversion.text(KEYSTONE, "auth_type").map(|(kind, _)| kind);
    if kind.as_deref() != Some("password") {
        let words = "not carried over: it is for auth_type = password alone".to_owned();
        return conversion.say(Level::Note, known, place, words);
    }
    let of_name = known.name.ends_with("name");
    let (user, project) = if of_name {
        ("keystone-user-domain-name", "keystone-project-domain-name")
    } else {
        ("keystone-user-domain-id", "keystone-project-domain-id")
    };
    for key in [user, project] {
        if !conversion.outcome.carried.iter().any(|carried| carried.key == key) {
            conversion.carry(key, Value::Text(domain.clone()), known, &place);
        }
    }
}

/// A negative time is no cache there, zero is here.
pub(super) fn cache_time(conversion: &mut Conversion<'_>, known: &KnownOption) {
    if let Some((Value::Integer(seconds), place)) = conversion.given(known) {
        let seconds = seconds.clamp(0, u32::MAX.into());
        conversion.carry("keystone-token-cache-time", Value::Integer(seconds), known, &place);
    }
}
