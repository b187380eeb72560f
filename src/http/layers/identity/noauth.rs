//! Callers without authentication, for tests and closed networks.

use axum::http::HeaderMap;

use crate::auth::policy::Caller;

/// Returns the caller that the headers name: `X-Auth-Token: USER[:PROJECT]`, roles and scope.
pub(super) fn from_headers(headers: &HeaderMap) -> Option<Caller> {
    let token = header(headers, "x-auth-token")?;
    let (user, project) = token.split_once(':').unwrap_or((&token, ""));
    let project = if project.is_empty() { user } else { project };
    let named = header(headers, "x-project-id").filter(|named| !named.is_empty());
    let roles = match header(headers, "x-roles") {
        Some(roles) => roles.split(',').map(|role| role.trim().to_owned()).collect(),
        None if user == "admin" => vec!["admin".to_owned()],
        None => Vec::new(),
    };
    let given = |name| header(headers, name).filter(|value| !value.is_empty());
    Some(Caller {
        user: Some(user.to_owned()),
        project: Some(named.unwrap_or_else(|| project.to_owned())),
        domain: given("x-domain-id"),
        system: given("openstack-system-scope"),
        roles,
        ..Caller::default()
    })
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::{Caller, from_headers};

    fn caller(headers: &[(&'static str, &'static str)]) -> Option<Caller> {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        from_headers(&headers.iter().map(header).collect::<HeaderMap>())
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
            ["Reader", "SERVICE"]
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
        let with = |header| caller(&[("x-auth-token", "admin"), header]).unwrap();
        assert_eq!(with(("openstack-system-scope", "all")).system.as_deref(), Some("all"));
        assert_eq!(with(("x-domain-id", "d")).domain.as_deref(), Some("d"));
        assert_eq!(with(("x-domain-id", "")).domain, None);
    }
}
