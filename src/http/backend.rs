//! The service behind the listeners: 503 until the store is open, then the application.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::response::Response;
use futures_util::future::Either;
use tower::{ServiceBuilder, ServiceExt, service_fn};

use super::app::{App, Options};
use super::connection::{Api, Connection, WriteError};
use super::console::Console;
use super::layers::service::HttpService;
use super::operator::context::Operator;
use super::placement::dialect::Placement;
use super::planner::dialect::Planner;
use super::{api, console, openapi, operator, placement, planner};
use crate::http::admin::health::{self, Readiness};
use crate::http::layers::audited::AuditLayer;
use crate::http::layers::middleware;
use crate::http::layers::proxy::Trusted;

/// The application once it is open; 503 until then.
#[derive(Debug)]
pub struct Backend {
    pub(super) options: Arc<Options>,
    pub(super) readiness: Arc<Readiness>,
    opened: Arc<OnceLock<Opened>>,
    placement: HttpService,
    planner: HttpService,
}

/// An open application with its APIs.
#[derive(Debug)]
struct Opened {
    app: Arc<App>,
    placement: HttpService,
    operator: HttpService,
    console: HttpService,
    planner: HttpService,
}

impl Backend {
    /// Creates a backend without an application. `options` are those of the application to come.
    pub fn waiting(options: Options, trusted: Trusted) -> Self {
        Self::over(Arc::new(options), &Arc::new(trusted), OnceLock::new())
    }

    fn over(options: Arc<Options>, trusted: &Arc<Trusted>, opened: OnceLock<Opened>) -> Self {
        let opened = Arc::new(opened);
        let readiness = Arc::new(Readiness::default());
        let has_console = options.console;
        let stack = |api| {
            let (opened, readiness) = (Arc::clone(&opened), Arc::clone(&readiness));
            let prefix: Arc<str> = match api {
                Api::Placement => options.path_prefix.trim_end_matches('/').into(),
                Api::Planner => Arc::default(),
            };
            let audited = {
                let opened = Arc::clone(&opened);
                let api = match api {
                    Api::Placement => RequestedApi::Placement,
                    Api::Planner => RequestedApi::Planner,
                };
                let audit = AuditLayer::of(options.audit.clone(), options.history);
                ServiceBuilder::new()
                    .option_layer(audit)
                    .service(service_fn(move |request| dispatch(api, Arc::clone(&opened), request)))
            };
            let apis = service_fn(move |request| {
                if health::handles(&request, &prefix) {
                    let (opened, readiness) = (Arc::clone(&opened), Arc::clone(&readiness));
                    // Boxed, because the layers outside move what they wait for.
                    let response = async move {
                        let store = opened.get().map(|opened| opened.app.store.clone());
                        health::respond(&readiness, store, request).await
                    };
                    return Either::Left(Box::pin(response));
                }
                // Requests to the operator API and the console change nothing, whatever their method.
                let reading = match api {
                    Api::Placement
                        if operator::handles(&request, &prefix)
                            || openapi::handles(&request, &prefix) =>
                    {
                        Some(RequestedApi::Operator)
                    }
                    Api::Placement if has_console && console::handles(&request, &prefix) => {
                        Some(RequestedApi::Console)
                    }
                    Api::Placement | Api::Planner => None,
                };
                if let Some(api) = reading {
                    let response = dispatch(api, Arc::clone(&opened), request);
                    return Either::Right(Either::Left(response));
                }
                Either::Right(Either::Right(audited.clone().oneshot(request)))
            });
            middleware::stack(apis, write_error(api), Arc::clone(trusted), &options)
        };
        let (placement, planner) = (stack(Api::Placement), stack(Api::Planner));
        Self { options, readiness, opened, placement, planner }
    }

    /// Serves requests with this application from now on. Requests in progress and further calls
    /// are not affected.
    pub fn open(&self, app: App) {
        drop(self.opened.set(Opened::new(Arc::new(app))));
    }

    /// Returns the application, if it is open.
    pub(super) fn app(&self) -> Option<&Arc<App>> {
        self.opened.get().map(|opened| &opened.app)
    }

    /// Checks whether requests can be served.
    ///
    /// # Errors
    /// The reason why they cannot.
    pub async fn readiness(&self) -> health::Verdict {
        self.readiness.check_shared(self.app().map(|app| &app.store)).await
    }

    /// Drains the replica, which is not ready then but finishes its requests, or ends that.
    pub fn drain(&self, is_drained: bool) {
        self.readiness.drain(is_drained);
    }

    /// Handles a request of a connection.
    pub(super) fn respond(
        &self,
        connection: Connection,
        mut request: Request,
    ) -> impl Future<Output = Response> + Send + 'static {
        let service = match connection.api {
            Api::Placement => self.placement.clone(),
            Api::Planner => self.planner.clone(),
        };
        request.extensions_mut().insert(connection);
        let response = service.oneshot(request);
        async {
            let Ok(response) = response.await;
            response
        }
    }
}

impl Opened {
    fn new(app: Arc<App>) -> Self {
        let placement = placement::service(&app);
        let operator = operator::service(&app, openapi::route());
        let console = console::service(&app);
        Self { placement, operator, console, planner: planner::service(&app), app }
    }
}

/// Returns how an API writes errors.
pub(crate) fn write_error(api: Api) -> WriteError {
    match api {
        Api::Placement => placement::write_error,
        Api::Planner => planner::write_error,
    }
}

/// The API that handles a request.
#[derive(Clone, Copy, Debug)]
enum RequestedApi {
    Placement,
    Operator,
    Console,
    Planner,
}

/// Handles a request with the application, or responds 503 if the database is not open yet.
async fn dispatch(
    api: RequestedApi,
    opened: Arc<OnceLock<Opened>>,
    request: Request,
) -> Result<Response, Infallible> {
    match (opened.get(), api) {
        (Some(opened), RequestedApi::Placement) => opened.placement.clone().oneshot(request).await,
        (Some(opened), RequestedApi::Operator) => opened.operator.clone().oneshot(request).await,
        (Some(opened), RequestedApi::Console) => opened.console.clone().oneshot(request).await,
        (Some(opened), RequestedApi::Planner) => opened.planner.clone().oneshot(request).await,
        (None, RequestedApi::Placement) => Ok(api::refuse::<Placement>(&request, WHY)),
        (None, RequestedApi::Operator) => Ok(api::refuse::<Operator>(&request, WHY)),
        (None, RequestedApi::Console) => Ok(api::refuse::<Console>(&request, WHY)),
        (None, RequestedApi::Planner) => Ok(api::refuse::<Planner>(&request, WHY)),
    }
}

/// Detail of the 503 responses.
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
