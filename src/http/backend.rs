//! What answers requests: nothing but 503 until the store is open, and then the application.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::response::Response;
use futures_util::future::Either;
use tower::{ServiceExt, service_fn};

use super::app::{App, Options};
use super::operator::{self, Operator};
use super::placement::{self, Placement};
use super::planner::{self, Planner};
use super::{Api, Connection, api};
use crate::http::admin::health::{self, Readiness};
use crate::http::layers::audited::AuditLayer;
use crate::http::layers::middleware::{self, HttpService};
use crate::http::layers::proxy::Trusted;

/// The application, or what is answered as long as there is none.
#[derive(Debug)]
pub struct Backend {
    pub(super) options: Arc<Options>,
    pub(super) readiness: Arc<Readiness>,
    opened: Arc<OnceLock<Opened>>,
    placement: HttpService,
    planner: HttpService,
}

/// An application with its APIs.
#[derive(Debug)]
struct Opened {
    app: Arc<App>,
    placement: HttpService,
    operator: HttpService,
    planner: HttpService,
}

impl Backend {
    /// One that has no application yet, with the options that it will have.
    pub fn waiting(options: Options, trusted: Trusted) -> Self {
        Self::over(Arc::new(options), &Arc::new(trusted), OnceLock::new())
    }

    fn over(options: Arc<Options>, trusted: &Arc<Trusted>, opened: OnceLock<Opened>) -> Self {
        let opened = Arc::new(opened);
        let readiness = Arc::new(Readiness::default());
        let stack = |api| {
            let (opened, readiness) = (Arc::clone(&opened), Arc::clone(&readiness));
            let prefix: Arc<str> = match api {
                Api::Placement => options.path_prefix.trim_end_matches('/').into(),
                Api::Planner => Arc::default(),
            };
            let apis = service_fn(move |request| {
                if health::is_asked(&request, &prefix) {
                    let (opened, readiness) = (Arc::clone(&opened), Arc::clone(&readiness));
                    // Boxed, because the layers outside move what they wait for.
                    let answered = async move {
                        let store = opened.get().map(|opened| opened.app.store.clone());
                        health::answer(&readiness, store, request).await
                    };
                    return Either::Left(Box::pin(answered));
                }
                let asked = match api {
                    Api::Placement if operator::is_asked(&request, &prefix) => Asked::Operator,
                    Api::Placement => Asked::Placement,
                    Api::Planner => Asked::Planner,
                };
                Either::Right(ask(asked, Arc::clone(&opened), request))
            });
            let (cors, audit) = (options.cors.clone(), AuditLayer::of(&options));
            middleware::stack(apis, Arc::clone(trusted), cors, audit)
        };
        let (placement, planner) = (stack(Api::Placement), stack(Api::Planner));
        Self { options, readiness, opened, placement, planner }
    }

    /// From now on this application answers. What is answered already is not changed, nor is the
    /// application by a further call.
    pub fn open(&self, app: App) {
        drop(self.opened.set(Opened::new(Arc::new(app))));
    }

    /// The application, if there is one.
    pub(super) fn app(&self) -> Option<&Arc<App>> {
        self.opened.get().map(|opened| &opened.app)
    }

    /// Answers a request that came by a connection.
    pub(super) fn answer(
        &self,
        connection: Connection,
        mut request: Request,
    ) -> impl Future<Output = Response> + Send + 'static {
        let service = match connection.api {
            Api::Placement => self.placement.clone(),
            Api::Planner => self.planner.clone(),
        };
        request.extensions_mut().insert(connection);
        let answered = service.oneshot(request);
        async {
            let Ok(response) = answered.await;
            response
        }
    }
}

impl Opened {
    fn new(app: Arc<App>) -> Self {
        let (placement, operator) = (placement::service(&app), operator::service(&app));
        Self { placement, operator, planner: planner::service(&app), app }
    }
}

/// The API that a request is for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Placement,
    Operator,
    Planner,
}

/// Answers a request: by the application, or that the database is not there yet.
async fn ask(
    api: Asked,
    opened: Arc<OnceLock<Opened>>,
    request: Request,
) -> Result<Response, Infallible> {
    match (opened.get(), api) {
        (Some(opened), Asked::Placement) => opened.placement.clone().oneshot(request).await,
        (Some(opened), Asked::Operator) => opened.operator.clone().oneshot(request).await,
        (Some(opened), Asked::Planner) => opened.planner.clone().oneshot(request).await,
        (None, Asked::Placement) => Ok(api::refuse::<Placement>(&request, WHY)),
        (None, Asked::Operator) => Ok(api::refuse::<Operator>(&request, WHY)),
        (None, Asked::Planner) => Ok(api::refuse::<Planner>(&request, WHY)),
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
        Self::over(options, &trusted, OnceLock::from(Opened::new(app)))
    }
}
