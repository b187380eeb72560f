//! Who asks. A caller is a user with a project and roles, as an authentication says.

use axum::http::{HeaderMap, StatusCode};

/// How callers are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// They are believed: `X-Auth-Token: USER[:PROJECT]`. For tests and closed networks.
    #[default]
    NoAuth,
}

/// Somebody who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub user: Option<String>,
    /// For which project.
    pub project: Option<String>,
    /// Lower case.
    pub roles: Vec<String>,
    /// What the caller's token is for.
    pub scope: Scope,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// One project.
    #[default]
    Project,
    /// The whole system, or a domain: nothing of this API is for such tokens.
    Other,
}

impl Caller {
    /// Whether the caller has a role.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|known| known == role)
    }
}

impl Identity {
    /// Who sent these headers.
    ///
    /// # Errors
    /// The status to answer with if nobody is known to have sent them.
    #[expect(clippy::unused_async, reason = "other ways to know callers ask a service")]
    pub async fn caller(self, headers: &HeaderMap) -> Result<Caller, StatusCode> {
        match self {
            Self::NoAuth => believed(headers).ok_or(StatusCode::UNAUTHORIZED),
        }
    }
}

fn believed(headers: &HeaderMap) -> Option<Caller> {
    let token = header(headers, "x-auth-token")?;
    let (user, project) = token.split_once(':').unwrap_or((&token, ""));
    let project = if project.is_empty() { user } else { project };
    let named = header(headers, "x-project-id").filter(|named| !named.is_empty());
    let roles = match header(headers, "x-roles") {
        Some(roles) => roles.split(',').map(|role| role.trim().to_lowercase()).collect(),
        None if user == "admin" => vec!["admin".to_owned()],
        None => Vec::new(),
    };
    let other = ["openstack-system-scope", "x-domain-id"];
    let elsewhere = other.iter().any(|name| header(headers, name).is_some_and(|it| !it.is_empty()));
    Some(Caller {
        user: Some(user.to_owned()),
        project: Some(named.unwrap_or_else(|| project.to_owned())),
        roles,
        scope: if elsewhere { Scope::Other } else { Scope::Project },
    })
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::{Caller, Scope, believed};

    fn caller(headers: &[(&'static str, &'static str)]) -> Option<Caller> {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        believed(&headers.iter().map(header).collect::<HeaderMap>())
    }

    #[test]
    fn a_token_names_user_and_project() {
        for (token, user, project) in [
            ("admin", "admin", "admin"),
            ("u:p", "u", "p"),
            ("u:", "u", "u"),
            ("u:p:q", "u", "p:q"),
        ] {
            let caller = caller(&[("x-auth-token", token)]).unwrap();
            assert_eq!(caller.user.as_deref(), Some(user));
            assert_eq!(caller.project.as_deref(), Some(project));
        }
        assert_eq!(caller(&[("x-roles", "admin")]), None);
    }

    #[test]
    fn roles_are_those_sent_else_those_of_admin() {
        let roles = |headers: &[_]| caller(headers).unwrap().roles;
        assert_eq!(roles(&[("x-auth-token", "admin:p")]), ["admin"]);
        assert_eq!(roles(&[("x-auth-token", "Admin")]), [""; 0]);
        assert_eq!(
            roles(&[("x-auth-token", "admin"), ("x-roles", " Reader, SERVICE")]),
            ["reader", "service"]
        );
    }

    #[test]
    fn the_project_header_wins_over_the_token() {
        let headers = [("x-auth-token", "u:p"), ("x-project-id", "q"), ("x-tenant-id", "t")];
        assert_eq!(caller(&headers).unwrap().project.as_deref(), Some("q"));
        let headers = [("x-auth-token", "u:p"), ("x-tenant-id", "t")];
        assert_eq!(caller(&headers).unwrap().project.as_deref(), Some("p"));
    }

    #[test]
    fn system_and_domain_scope_are_seen() {
        for header in [("openstack-system-scope", "all"), ("x-domain-id", "d")] {
            assert_eq!(caller(&[("x-auth-token", "admin"), header]).unwrap().scope, Scope::Other);
        }
        assert_eq!(caller(&[("x-auth-token", "admin")]).unwrap().scope, Scope::Project);
    }
}
