//! Metrics of how many more instances of some flavors fit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use metrics::gauge;
use url::form_urlencoded::Serializer;

use super::costly::{self, WORK_MAX};
use super::requests::{FLAVOR, requests};
use crate::fairness::turns::Requester;
use crate::http::app::App;
use crate::http::placement::query::Query;
use crate::search::budget;
use crate::search::fit::{Bounds, CountParameters, Excluded, fit};

/// Interval between counts.
const PERIOD: Duration = Duration::from_mins(1);
/// The name under which turns are taken.
const ASKER: &str = "metrics of flavors";

/// Periodically counts how many more instances of each flavor fit, for `/metrics`. Runs until
/// cancelled, if there are any flavors.
pub async fn count_flavors(app: App, flavors: Vec<String>) {
    if flavors.is_empty() {
        return;
    }
    let app = Arc::new(app);
    let mut logged: HashMap<String, String> = HashMap::new();
    loop {
        for name in &flavors {
            match counted(&app, name).await {
                Ok((bounds, is_complete)) => {
                    logged.remove(name);
                    tell(name, bounds, is_complete);
                }
                Err(why) => {
                    // An outdated number must not remain.
                    set(name, [f64::NAN; 2]);
                    if logged.insert(name.clone(), why.clone()).as_ref() != Some(&why) {
                        tracing::warn!(flavor = name, why, "cannot count how many more fit");
                    }
                }
            }
        }
        tokio::time::sleep(PERIOD).await;
    }
}

/// Returns how many more fit, and whether all hosts were examined.
async fn counted(app: &Arc<App>, name: &str) -> Result<(Bounds, bool), String> {
    let text = Serializer::new(String::new()).append_pair(FLAVOR, name).finish();
    let query = Query::parse(&text).map_err(|problem| problem.detail)?;
    let found = requests(app, &HeaderMap::new(), &query).await;
    let (requests, world) = found.map_err(|problem| problem.detail)?;
    let work = move || {
        let only = requests.requests.first()?;
        let mut excluded = Excluded::default();
        requests.close(only, &world, &mut excluded);
        let parameters =
            CountParameters { request: &only.request, excluded: &excluded, names_max: 0, by: None };
        Some(fit(&world, &parameters, budget(WORK_MAX)))
    };
    let found = costly::run(app, Requester::named(ASKER), work).await;
    let found = found.map_err(|problem| problem.detail)?;
    match found {
        Some(Ok(found)) => Ok((found.total, found.is_complete)),
        Some(Err(unknown)) => Err(format!("it names something unknown: {unknown:?}")),
        None => Err("it has no request".to_owned()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics are of this type")]
fn tell(name: &str, bounds: Bounds, is_complete: bool) {
    let upper = if is_complete { bounds.at_most as f64 } else { f64::INFINITY };
    set(name, [bounds.at_least as f64, upper]);
}

fn set(name: &str, [lower, upper]: [f64; 2]) {
    for (bound, value) in [("lower", lower), ("upper", upper)] {
        gauge!("berth_flavor_fits", "flavor" => name.to_owned(), "bound" => bound).set(value);
    }
}
