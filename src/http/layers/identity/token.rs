//! Authentication by Keystone tokens, with the semantics of keystonemiddleware's `auth_token`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::error::IdentityError;
use crate::auth::keystone::{AuthOptions, Credentials, Keystone, Token, Unavailable};
use crate::auth::policy::Caller;
use crate::http::api::path;
use crate::http::layers::proxy::Remote;

/// Maximum length of a token, in bytes. Keystone's have a few hundred.
const TOKEN_BYTES_MAX: usize = 8192;

/// Authentication by Keystone tokens.
#[derive(Debug)]
pub struct ByToken {
    keystone: Arc<Keystone>,
    options: AuthOptions,
    www_authenticate: String,
}

impl ByToken {
    /// Creates the authentication of a Keystone service.
    pub fn new(keystone: Arc<Keystone>, options: AuthOptions) -> Self {
        let uri = options.www_authenticate_uri.as_deref().unwrap_or(keystone.auth_url());
        let www_authenticate = format!("Keystone uri=\"{uri}\"");
        Self { keystone, options, www_authenticate }
    }

    /// Returns the caller of a request. `path` is the path as the routes see it.
    ///
    /// # Errors
    /// The caller cannot be authenticated.
    pub(super) async fn caller(
        &self,
        request: &Parts,
        path: &str,
    ) -> Result<Arc<Caller>, IdentityError> {
        let headers = &request.headers;
        let from = request.extensions.get::<Remote>().and_then(|remote| remote.0);
        let service = match given(headers, "x-service-token") {
            Some(token) => Some(self.service(token, from).await?),
            None => None,
        };
        let token = given(headers, "x-auth-token").or_else(|| given(headers, "x-storage-token"));
        let token = token.ok_or_else(|| self.challenged())?;
        // A service may finish what it started while the user's token was still valid.
        let allow_expired = service.as_ref().is_some_and(|service| service.trusted);
        let token = self.valid(token, allow_expired, from).await?;
        if service.is_none() && !Self::may_be_used_for(&token, request.method.as_str(), path) {
            tracing::info!("the access rules of the token do not allow the request");
            return Err(self.challenged());
        }
        Ok(match service {
            None => Arc::clone(&token.caller),
            Some(service) => Arc::new(Caller {
                service_user: service.token.caller.user.clone(),
                service_project: service.token.caller.project.clone(),
                service_roles: service.token.caller.roles.clone(),
                ..token.caller.as_ref().clone()
            }),
        })
    }

    /// Returns whether a project exists.
    ///
    /// # Errors
    /// Keystone is not available.
    pub(super) async fn knows_project(&self, id: &str) -> Result<bool, Unavailable> {
        self.keystone.has_project(id).await
    }

    /// Gets a token for credentials; `None` if Keystone does not accept them.
    ///
    /// # Errors
    /// Keystone is not available.
    pub(in crate::http) async fn sign_in(
        &self,
        credentials: &Credentials,
        from: Option<IpAddr>,
    ) -> Result<Option<String>, Unavailable> {
        self.keystone.sign_in(credentials, from).await
    }

    /// Returns the service of a service token.
    async fn service(&self, token: &[u8], from: Option<IpAddr>) -> Result<Service, IdentityError> {
        let token = self.valid(token, false, from).await?;
        let roles = &self.options.service_token_roles;
        let trusted = roles.iter().any(|role| token.caller.has_role(role));
        if !trusted && self.options.service_token_roles_required {
            tracing::info!("the service token has no service role");
            return Err(self.challenged());
        }
        Ok(Service { token, trusted })
    }

    async fn valid(
        &self,
        token: &[u8],
        allow_expired: bool,
        from: Option<IpAddr>,
    ) -> Result<Arc<Token>, IdentityError> {
        let text = std::str::from_utf8(token).map(str::trim).unwrap_or_default();
        if text.is_empty() || text.len() > TOKEN_BYTES_MAX {
            return Err(self.challenged());
        }
        let response = self.keystone.validate(text, allow_expired, from).await;
        let response =
            response.map_err(|failure| IdentityError::Unavailable(failure.to_string()))?;
        response.ok_or_else(|| self.challenged())
    }

    /// Returns whether the access rules of a token, if it has any, allow the request. They are
    /// compared with the path segments that the routes see.
    fn may_be_used_for(token: &Token, method: &str, path: &str) -> bool {
        let Some(rules) = &token.access_rules else { return true };
        // A path that cannot be decoded matches nothing.
        let Ok(path) = path::canonical(path) else { return false };
        rules.iter().any(|rule| rule.allows(method, &path))
    }

    fn challenged(&self) -> IdentityError {
        IdentityError::Challenged(self.www_authenticate.clone())
    }
}

/// A service that acts on behalf of a user.
struct Service {
    token: Arc<Token>,
    /// Whether it has the role of services.
    trusted: bool,
}

fn given<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h [u8]> {
    let value = headers.get(name)?.as_bytes();
    (!value.is_empty()).then_some(value)
}
