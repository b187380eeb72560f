//! Who asks: callers as they say themselves, or as Keystone says.

mod noauth;
mod token;

use std::sync::Arc;

use axum::http::request::Parts;
use tracing::Instrument as _;

pub use self::token::ByToken;
use crate::auth::keystone::Unavailable;
pub use crate::auth::policy::Caller;
use crate::observe::spans::span;

/// The header in which callers who are believed say their roles.
const ROLES: &str = "x-roles";
/// The role of who plans in a project.
const MEMBER: &str = "member";

/// How callers are known.
#[derive(Clone, Debug, Default)]
pub enum Identity {
    /// They are believed: `X-Auth-Token: USER[:PROJECT]`. For tests and closed networks.
    #[default]
    NoAuth,
    /// Keystone says whose their tokens are.
    Keystone(Arc<ByToken>),
}

/// Why it is not known who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// There is no token, or none that is valid.
    NoValidToken,
    /// The same; `WWW-Authenticate` is to say this.
    Challenged(String),
    /// Nobody can say at present; the words are for the log.
    Unavailable(String),
}

impl Identity {
    /// Who sent a request for a path, which is as the routes have it. Nothing that a client says
    /// of itself counts where tokens do.
    ///
    /// # Errors
    /// Nobody is known to have sent it.
    pub async fn caller(&self, request: &Parts, path: &str) -> Result<Arc<Caller>, IdentityError> {
        match self {
            Self::NoAuth => {
                noauth::believed(&request.headers).map(Arc::new).ok_or(IdentityError::NoValidToken)
            }
            // Boxed, so that requests which ask nobody do not carry the room for it.
            Self::Keystone(known) => {
                let caller = known.caller(request, path);
                Box::pin(caller.instrument(span!("authenticate"))).await
            }
        }
    }

    /// The caller as the planner takes it: where callers are believed, one who says nothing of roles
    /// is a member of the project. Tokens say it themselves.
    pub fn planning(&self, caller: Arc<Caller>, request: &Parts) -> Arc<Caller> {
        let is_silent = caller.roles.is_empty() && !request.headers.contains_key(ROLES);
        if matches!(self, Self::NoAuth) && is_silent {
            return Arc::new(Caller { roles: vec![MEMBER.to_owned()], ..Caller::clone(&caller) });
        }
        caller
    }

    /// Whether there is a project with this id. Where callers are believed, so are projects.
    ///
    /// # Errors
    /// Nobody can say at present.
    pub async fn knows_project(&self, id: &str) -> Result<bool, Unavailable> {
        match self {
            Self::NoAuth => Ok(true),
            Self::Keystone(known) => known.knows_project(id).await,
        }
    }
}
