//! A token as Keystone describes it (Identity API v3, "Validate and show information for token").

use std::sync::Arc;

use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::access::Rule;
use crate::auth::policy::Caller;

/// The content of a valid token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its owner, without the attributes of a service.
    pub caller: Arc<Caller>,
    /// Its expiry.
    pub expires: OffsetDateTime,
    /// The only requests for which it may be used, if it has access rules.
    pub access_rules: Option<Vec<Rule>>,
}

impl Token {
    /// Parses the body of a response.
    ///
    /// # Errors
    /// The body is not a token; the message gives the reason without repeating any of the body.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let view = view(body)?;
        let (project, project_domain) = identified(view.project);
        let user_domain = view.user.domain.and_then(|domain| domain.id);
        Ok(Self {
            caller: Arc::new(Caller {
                user: Some(view.user.id),
                user_domain,
                project,
                project_domain,
                domain: view.domain.and_then(|domain| domain.id),
                system: view.system.filter(|system| system.all).map(|_| "all".to_owned()),
                roles: view.roles.into_iter().map(|role| role.name).collect(),
                ..Caller::default()
            }),
            expires: view.expires_at,
            access_rules: view.application_credential.and_then(|it| it.access_rules).map(|rules| {
                let rule =
                    |it: RuleView| Rule { service: it.service, method: it.method, path: it.path };
                rules.into_iter().map(rule).collect()
            }),
        })
    }
}

/// An issued token: its expiry, and its catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issued {
    /// Its expiry.
    pub(crate) expires: OffsetDateTime,
    /// The services with their endpoints.
    catalog: Vec<ServiceView>,
}

impl Issued {
    /// Parses the body of a response.
    ///
    /// # Errors
    /// The body is not a token; the message gives the reason without repeating any of the body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let view = view(body)?;
        Ok(Self { expires: view.expires_at, catalog: view.catalog })
    }

    /// Returns whether there is a catalog: a token without scope has none.
    pub(crate) fn has_catalog(&self) -> bool {
        !self.catalog.is_empty()
    }

    /// Returns the first endpoint of a service of this type with this interface and region.
    pub(crate) fn endpoint(
        &self,
        service: &str,
        interface: &str,
        region: Option<&str>,
    ) -> Option<&str> {
        let services = self.catalog.iter().filter(|it| it.kind == service);
        let found = services.flat_map(|service| &service.endpoints).find(|endpoint| {
            let here = endpoint.region_id.as_deref().or(endpoint.region.as_deref());
            endpoint.interface.eq_ignore_ascii_case(interface)
                && (region.is_none() || region == here)
        });
        found.map(|endpoint| endpoint.url.as_str())
    }
}

fn view(body: &[u8]) -> Result<TokenView, String> {
    let body: BodyView = serde_json::from_slice(body).map_err(|error| {
        // The error's own message could repeat a part of the body.
        format!("the response is not a token: {:?} error", error.classify())
    })?;
    Ok(body.token)
}

fn identified(project: Option<OwnedView>) -> (Option<String>, Option<String>) {
    project.map_or((None, None), |it| (Some(it.id), it.domain.and_then(|domain| domain.id)))
}

#[derive(Deserialize)]
struct BodyView {
    token: TokenView,
}

#[derive(Deserialize)]
struct TokenView {
    user: OwnedView,
    #[serde(deserialize_with = "instant")]
    expires_at: OffsetDateTime,
    project: Option<OwnedView>,
    domain: Option<DomainView>,
    system: Option<SystemView>,
    #[serde(default)]
    roles: Vec<RoleView>,
    application_credential: Option<ApplicationCredentialView>,
    #[serde(default)]
    catalog: Vec<ServiceView>,
}

/// A user or a project.
#[derive(Deserialize)]
struct OwnedView {
    id: String,
    domain: Option<DomainView>,
}

#[derive(Deserialize)]
struct DomainView {
    id: Option<String>,
}

#[derive(Deserialize)]
struct SystemView {
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize)]
struct RoleView {
    name: String,
}

#[derive(Deserialize)]
struct ApplicationCredentialView {
    access_rules: Option<Vec<RuleView>>,
}

#[derive(Deserialize)]
struct RuleView {
    service: String,
    method: String,
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct ServiceView {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<EndpointView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct EndpointView {
    interface: String,
    region: Option<String>,
    region_id: Option<String>,
    url: String,
}

fn instant<'de, D: serde::Deserializer<'de>>(from: D) -> Result<OffsetDateTime, D::Error> {
    let text = String::deserialize(from)?;
    OffsetDateTime::parse(&text, &Rfc3339).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use time::macros::datetime;

    use super::{Issued, Token};
    use crate::auth::policy::Caller;

    fn token(more: &Value) -> Vec<u8> {
        let mut token = json!({
            "user": {"id": "u", "name": "me", "domain": {"id": "default", "name": "Default"}},
            "methods": ["password"], "audit_ids": ["a"],
            "issued_at": "2026-11-21T07:00:00.000000Z",
            "expires_at": "2026-11-21T08:00:00.000000Z",
        });
        token.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"token": token}).to_string().into_bytes()
    }

    #[test]
    fn a_token_is_for_a_project_a_domain_the_system_or_nothing() {
        let text = |text: &str| Some(text.to_owned());
        let nobody = Caller { user: text("u"), user_domain: text("default"), ..Caller::default() };
        let project = json!({"project": {"id": "p", "name": "n", "domain": {"id": "d"}},
                             "roles": [{"id": "1", "name": "Admin"}, {"id": "2", "name": "reader"}]});
        let roles = vec!["Admin".to_owned(), "reader".to_owned()];
        for (more, caller) in [
            (json!({}), nobody.clone()),
            (
                project,
                Caller { project: text("p"), project_domain: text("d"), roles, ..nobody.clone() },
            ),
            (json!({"domain": {"id": "d"}}), Caller { domain: text("d"), ..nobody.clone() }),
            (json!({"system": {"all": true}}), Caller { system: text("all"), ..nobody.clone() }),
        ] {
            let token = Token::parse(&token(&more)).unwrap();
            assert_eq!(*token.caller, caller);
            assert_eq!(token.expires, datetime!(2026-11-21 08:00 UTC));
            assert_eq!(token.access_rules, None);
        }
    }

    #[test]
    fn access_rules_are_those_of_the_application_credential() {
        let rule = json!({"id": "r", "service": "placement", "method": "GET", "path": "/usages"});
        for (rules, count) in [(json!([rule]), Some(1)), (json!([]), Some(0)), (json!(null), None)]
        {
            let more = json!({"application_credential": {"id": "i", "access_rules": rules}});
            let token = Token::parse(&token(&more)).unwrap();
            assert_eq!(token.access_rules.map(|rules| rules.len()), count);
        }
    }

    #[test]
    fn an_invalid_token_is_reported_without_its_text() {
        for body in ["", "{", "[]", "{}", r#"{"token": {}}"#, r#"{"token": {"user": "s3cret"}}"#] {
            let why = Token::parse(body.as_bytes()).unwrap_err();
            assert!(why.contains("response is not a token") && !why.contains("s3cret"), "{why}");
        }
    }

    #[test]
    fn the_catalog_has_an_endpoint_by_interface_and_region() {
        let at = |interface: &str, region: &str, url: &str| json!({"interface": interface, "region": region, "region_id": region, "url": url});
        let catalog = json!({"catalog": [
            {"type": "compute", "endpoints": [at("internal", "one", "http://nova")]},
            {"type": "identity", "endpoints": [
                at("public", "one", "http://public"), at("internal", "one", "http://one"),
                at("internal", "two", "http://two"),
            ]},
        ]});
        let issued = Issued::parse(&token(&catalog)).unwrap();
        for (interface, region, url) in [
            ("internal", None, Some("http://one")),
            ("internal", Some("two"), Some("http://two")),
            ("public", None, Some("http://public")),
            ("admin", None, None),
            ("internal", Some("three"), None),
        ] {
            let found = issued.endpoint("identity", interface, region);
            assert_eq!(found, url, "{interface} {region:?}");
        }
    }
}
