//! Obtains the token and the URL of the service: as given, or from Keystone.

use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Method, StatusCode, Url};

use super::access::{Access, Catalog};
use super::error::{Error, error_message};
use crate::auth::keystone::{ANSWER_MAX, Credentials, Issued, SUBJECT_TOKEN, secret, tokens_url};
use crate::http_client::{ExchangeError, Failure, HttpClient};

/// Timeout for a response of Keystone.
const WITHIN: Duration = Duration::from_mins(1);
/// Maximum number of requests for a token.
const ATTEMPTS: u32 = 3;

/// The token and the endpoint of requests.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) token: HeaderValue,
    pub(super) endpoint: Url,
}

/// Gets token and endpoint.
pub(super) async fn log_in(http: &HttpClient, access: &Access) -> Result<Session, Error> {
    match access {
        Access::Token { url, token, .. } => {
            let token = secret(&token.0).ok_or_else(|| Error::Keystone {
                url: url.to_string(),
                why: "the token has characters that no header may have".to_owned(),
            })?;
            Ok(Session { token, endpoint: url.clone() })
        }
        Access::Keystone { auth_url, credentials, catalog, endpoint, .. } => {
            let failed = |why| Error::Keystone { url: auth_url.clone(), why };
            let (token, issued) = issue(http, auth_url, credentials).await.map_err(failed)?;
            let endpoint = match endpoint {
                Some(endpoint) => endpoint.clone(),
                None => in_catalog(&issued, catalog).map_err(failed)?,
            };
            Ok(Session { token, endpoint })
        }
    }
}

async fn issue(
    http: &HttpClient,
    auth_url: &str,
    credentials: &Credentials,
) -> Result<(HeaderValue, Issued), String> {
    let url = tokens_url(auth_url)?;
    let mut attempt = 1;
    let response = loop {
        let request = http.request(Method::POST, url.clone());
        let request = request.json(&credentials.request()).timeout(WITHIN);
        match http.exchange(request, ANSWER_MAX).await {
            Ok(response) => break response,
            // A second token does no harm.
            Err(ExchangeError::Failed(Failure::NotConnected(_) | Failure::Broken(_)))
                if attempt < ATTEMPTS =>
            {
                tokio::time::sleep(Duration::from_millis(250) * attempt).await;
                attempt += 1;
            }
            Err(error) => return Err(format!("Keystone does not respond: {error}")),
        }
    };
    let status = response.status;
    if status != StatusCode::CREATED {
        let message = error_message(&response.body);
        let what = if status == StatusCode::UNAUTHORIZED {
            "Keystone does not accept the credentials"
        } else {
            "Keystone issued no token"
        };
        return Err(format!("{what}: {status}: {message}"));
    }
    let token = response.headers.get(SUBJECT_TOKEN).cloned();
    let mut token = token.ok_or("Keystone issued no token: its response has none")?;
    token.set_sensitive(true);
    let issued = Issued::parse(&response.body)?;
    Ok((token, issued))
}

fn in_catalog(issued: &Issued, catalog: &Catalog) -> Result<Url, String> {
    let Catalog { service_type, interface, region } = catalog;
    if !issued.has_catalog() {
        let why = "the token has no catalog, as it has no scope: name a project";
        return Err(why.to_owned());
    }
    let found = issued.endpoint(service_type, interface, region.as_deref());
    let found = found.ok_or_else(|| {
        let region = region.as_deref().map_or_else(String::new, |it| format!(" in region {it}"));
        format!(
            "the catalog has no {interface} endpoint of type {service_type}{region}; name the URL, or \
             another interface or region"
        )
    })?;
    Url::parse(found)
        .map_err(|error| format!("the catalog's {service_type} endpoint {found}: {error}"))
}
