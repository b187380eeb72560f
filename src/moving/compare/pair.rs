//! Two services that receive the same requests.

use reqwest::StatusCode;
use serde_json::Value;

use super::options::Options;
use super::response::{Body, ComparedResponse, Difference, Rules, differences};
use super::subject::Subject;
use crate::moving::placement_client::{self, Client, Error, Microversion};

/// Two services.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) left: Client,
    pub(super) right: Client,
    pub(super) version: Microversion,
    options: Options,
}

/// The responses of both services to a request.
#[derive(Debug)]
pub(super) struct Compared {
    /// The request, such as `/traits`.
    pub(super) path: String,
    /// The body of the left response, if it succeeded and has one.
    pub(super) left: Option<Value>,
    /// The body of the right response, in the same way.
    pub(super) right: Option<Value>,
    pub(super) differences: Vec<Difference>,
}

impl Pair {
    pub(super) fn new(
        left: Client,
        right: Client,
        version: Microversion,
        options: Options,
    ) -> Self {
        Self { left, right, version, options }
    }

    /// Number of concurrent requests to each service.
    pub(super) fn concurrency(&self) -> usize {
        self.left.concurrency().max(self.right.concurrency())
    }

    /// Sends a request to both and compares the responses. If they differ, it is sent again: a change may have come
    /// in between.
    pub(super) async fn ask(&self, subject: Subject, path: String) -> Result<Compared, Error> {
        let rules = self.rules(subject);
        let first = self.ask_once(&path, rules).await?;
        let (left, right, differences) =
            if first.2.is_empty() { first } else { self.ask_once(&path, rules).await? };
        Ok(Compared { path, left: value(left), right: value(right), differences })
    }

    /// Rules for a subject. Generations are part of many responses, and are compared in one.
    fn rules(&self, subject: Subject) -> Rules {
        let Options { rules, consumers, .. } = &self.options;
        let in_consumers = subject == Subject::Consumers && consumers.is_none();
        let in_providers = subject == Subject::ProviderAllocations && consumers.is_some();
        Rules {
            provider_generations: rules.provider_generations && subject == Subject::Providers,
            consumer_generations: rules.consumer_generations && (in_consumers || in_providers),
            times: rules.times && subject.has_times(),
            error_texts: rules.error_texts,
        }
    }

    async fn ask_once(
        &self,
        path: &str,
        rules: Rules,
    ) -> Result<(ComparedResponse, ComparedResponse, Vec<Difference>), Error> {
        let (left, right) = futures_util::try_join!(
            self.left.get(path, self.version),
            self.right.get(path, self.version)
        )?;
        let (left, right) = (comparable(left)?, comparable(right)?);
        let rules = Rules { times: rules.times && !holds_nothing(&left), ..rules };
        let mut found = differences(&left, &right, rules);
        if left.status != right.status {
            // An error and a success have nothing else in common.
            found.retain(|it| it.path.first().is_some_and(|name| name == "status"));
        }
        Ok((left, right, found))
    }
}

/// Accepts responses that can be compared: those with stored data, or that report the absence of the resource.
fn comparable(response: placement_client::ServiceResponse) -> Result<ComparedResponse, Error> {
    let status = response.status();
    let tells_nothing = status.is_server_error()
        || [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS]
            .contains(&status);
    if tells_nothing || status.is_redirection() {
        response.expect(StatusCode::OK)?;
        return Err(Error::NotPlacement { url: String::new(), why: status.to_string() });
    }
    let headers = response.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    Ok(ComparedResponse::new(status.as_u16(), headers, response.body()))
}

/// Returns whether a response is an empty list: its time is that of the request.
fn holds_nothing(response: &ComparedResponse) -> bool {
    let Body::Json(body) = &response.body else { return true };
    let mut lists = ["allocations", "inventories"].into_iter().filter_map(|name| body.get(name));
    lists.any(|list| list.as_object().is_some_and(serde_json::Map::is_empty))
}

fn value(response: ComparedResponse) -> Option<Value> {
    match response.body {
        Body::Json(body) if response.status == 200 => Some(body),
        Body::Json(_) | Body::Text(_) | Body::Empty => None,
    }
}
