//! Berth's credentials, and the request for a token with them (Identity API v3, "Password
//! authentication", "Authenticating with an Application Credential").

use std::fmt;

use serde_json::{Value, json};

/// Text that must not appear in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// Berth's credentials for Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A user with a password.
    Password {
        /// The user.
        user: User,
        /// The password.
        password: Secret,
        /// The scope of the token.
        scope: Scope,
    },
    /// An application credential, by its id.
    ApplicationCredential {
        /// The id.
        id: String,
        /// Its secret.
        secret: Secret,
    },
    /// An application credential, by the name its owner gave it.
    NamedApplicationCredential {
        /// The name.
        name: String,
        /// Its owner.
        user: User,
        /// Its secret.
        secret: Secret,
    },
    /// A token that was issued before.
    Token {
        /// The token.
        token: Secret,
        /// The scope of the new token; by default that of the old one.
        scope: Option<Scope>,
    },
}

/// A user, or a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// By id.
    Id(String),
    /// By name, in a domain.
    Name(String, Domain),
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By id.
    Id(String),
    /// By name.
    Name(String),
}

/// The scope of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A project, by id or by name and domain.
    Project(User),
    /// The whole system.
    System,
    /// The scope of a trust, by its id.
    Trust(String),
}

impl Credentials {
    /// Returns the body of `POST /v3/auth/tokens`.
    pub(crate) fn request(&self) -> Value {
        match self {
            Self::Password { user, password, scope } => {
                let mut user = user.view();
                if let Some(user) = user.as_object_mut() {
                    user.insert("password".to_owned(), json!(password.0));
                }
                json!({"auth": {
                    "identity": {"methods": ["password"], "password": {"user": user}},
                    "scope": scope.view(),
                }})
            }
            Self::ApplicationCredential { id, secret } => {
                application_credential(&json!({"id": id, "secret": secret.0}))
            }
            Self::NamedApplicationCredential { name, user, secret } => application_credential(
                &json!({"name": name, "user": user.view(), "secret": secret.0}),
            ),
            Self::Token { token, scope } => {
                let identity = json!({"methods": ["token"], "token": {"id": token.0}});
                match scope {
                    Some(scope) => json!({"auth": {"identity": identity, "scope": scope.view()}}),
                    None => json!({"auth": {"identity": identity}}),
                }
            }
        }
    }
}

fn application_credential(it: &Value) -> Value {
    json!({"auth": {"identity": {
        "methods": ["application_credential"],
        "application_credential": it,
    }}})
}

impl User {
    fn view(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name(name, Domain::Id(id)) => json!({"name": name, "domain": {"id": id}}),
            Self::Name(name, Domain::Name(domain)) => {
                json!({"name": name, "domain": {"name": domain}})
            }
        }
    }
}

impl Scope {
    fn view(&self) -> Value {
        match self {
            Self::Project(project) => json!({"project": project.view()}),
            Self::System => json!({"system": {"all": true}}),
            Self::Trust(id) => json!({"OS-TRUST:trust": {"id": id}}),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Credentials, Domain, Scope, User};

    #[test]
    fn a_password_is_sent_with_its_scope() {
        let user = User::Name("placement".into(), Domain::Name("Default".into()));
        let project = User::Name("service".into(), Domain::Id("default".into()));
        let scopes = [
            (
                Scope::Project(project),
                json!({"project": {"name": "service", "domain": {"id": "default"}}}),
            ),
            (Scope::Project(User::Id("p".into())), json!({"project": {"id": "p"}})),
            (Scope::System, json!({"system": {"all": true}})),
            (Scope::Trust("t".into()), json!({"OS-TRUST:trust": {"id": "t"}})),
        ];
        for (scope, expected) in scopes {
            let credentials =
                Credentials::Password { user: user.clone(), password: "s3cret".into(), scope };
            let user = json!({
                "name": "placement", "domain": {"name": "Default"}, "password": "s3cret",
            });
            let expected = json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": expected,
            }});
            assert_eq!(credentials.request(), expected);
            assert!(!format!("{credentials:?}").contains("s3cret"));
        }
    }

    #[test]
    fn an_application_credential_has_its_scope_in_itself() {
        let (secret, user) = ("s3cret".into(), User::Id("u".into()));
        let by_id = Credentials::ApplicationCredential { id: "i".into(), secret };
        let identity = &by_id.request()["auth"]["identity"];
        assert_eq!(identity["application_credential"], json!({"id": "i", "secret": "s3cret"}));
        assert_eq!(by_id.request()["auth"].get("scope"), None);
        let secret = "s3cret".into();
        let named = Credentials::NamedApplicationCredential { name: "n".into(), user, secret };
        assert_eq!(
            named.request()["auth"]["identity"]["application_credential"],
            json!({"name": "n", "user": {"id": "u"}, "secret": "s3cret"})
        );
    }
}
