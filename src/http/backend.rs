//! What answers requests: nothing but 503 until the store is open, and then the application.

use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::response::Response;

use super::app::{App, Options};
use super::proxy::Trusted;
use super::{Api, placement, planner};

/// The application, or what is answered as long as there is none.
#[derive(Debug)]
pub struct Backend {
    pub(super) options: Arc<Options>,
    pub(super) trusted: Arc<Trusted>,
    app: OnceLock<Arc<App>>,
}

impl Backend {
    /// One that has no application yet, with the options that it will have.
    pub fn waiting(options: Options, trusted: Trusted) -> Self {
        Self { options: Arc::new(options), trusted: Arc::new(trusted), app: OnceLock::new() }
    }

    /// From now on this application answers. What is answered already is not changed, nor is the
    /// application by a further call.
    pub fn open(&self, app: App) {
        drop(self.app.set(Arc::new(app)));
    }

    /// The application, if there is one.
    pub(super) fn app(&self) -> Option<&Arc<App>> {
        self.app.get()
    }

    /// Answers a request: by the application, or that the database is not there yet.
    ///
    /// Boxed, so that what stands around it, which is moved into its place layer by layer, stays small.
    pub(super) async fn ask(&self, api: Api, request: Request) -> Response {
        match (self.app().cloned(), api) {
            (Some(app), Api::Placement) => Box::pin(placement::answer(app, request)).await,
            (Some(app), Api::Planner) => Box::pin(planner::answer(app, request)).await,
            (None, Api::Placement) => placement::refuse(&request, WHY),
            (None, Api::Planner) => planner::refuse(WHY),
        }
    }
}

/// What clients are told meanwhile.
const WHY: &str = "The server has just been started and waits for its database.";

impl From<App> for Backend {
    fn from(app: App) -> Self {
        Self::from(Arc::new(app))
    }
}

impl From<Arc<App>> for Backend {
    fn from(app: Arc<App>) -> Self {
        let (options, trusted) = (Arc::clone(&app.options), Arc::clone(&app.trusted));
        Self { options, trusted, app: OnceLock::from(app) }
    }
}
