//! Authentication of callers: by Keystone, or not at all.

mod error;
mod noauth;
mod token;

use std::sync::Arc;

use axum::http::request::Parts;

pub use self::error::IdentityError;
pub use self::token::ByToken;
use crate::auth::keystone::Unavailable;
pub use crate::auth::policy::Caller;
use crate::observe::spans::{Timed, span};

/// Header of the caller's roles without authentication.
const ROLES: &str = "x-roles";
/// The role that planning in a project requires.
const MEMBER: &str = "member";

/// Authentication method.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// None: `X-Auth-Token: USER[:PROJECT]` is taken at face value. For tests and closed networks.
    #[default]
    NoAuth,
    /// Tokens are validated by Keystone.
    Keystone(Arc<ByToken>),
}

impl Identity {
    /// Returns the caller of a request. `path` is the path as the routes see it. With Keystone,
    /// headers that name a user or roles are ignored.
    ///
    /// # Errors
    /// The caller cannot be authenticated.
    pub async fn caller(&self, request: &Parts, path: &str) -> Result<Arc<Caller>, IdentityError> {
        match self {
            Self::NoAuth => noauth::from_headers(&request.headers)
                .map(Arc::new)
                .ok_or(IdentityError::NoValidToken),
            // Boxed, so that the future of other requests stays small.
            Self::Keystone(known) => {
                let caller = known.caller(request, path);
                Box::pin(caller.timed(span!("authenticate"))).await
            }
        }
    }

    /// Returns the caller for the planner: without authentication, a caller that names no roles is
    /// a member of its project.
    pub fn planning(&self, caller: Arc<Caller>, request: &Parts) -> Arc<Caller> {
        let is_silent = caller.roles.is_empty() && !request.headers.contains_key(ROLES);
        if matches!(self, Self::NoAuth) && is_silent {
            return Arc::new(Caller { roles: vec![MEMBER.to_owned()], ..Caller::clone(&caller) });
        }
        caller
    }

    /// Returns whether a project exists. Without authentication, every project does.
    ///
    /// # Errors
    /// Keystone is not available.
    pub async fn knows_project(&self, id: &str) -> Result<bool, Unavailable> {
        match self {
            Self::NoAuth => Ok(true),
            Self::Keystone(known) => known.knows_project(id).await,
        }
    }
}
