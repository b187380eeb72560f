//! Reads a placement service over its API: everything by provider, and single consumers.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::StatusCode;
use reqwest::header::LAST_MODIFIED;
use serde::Deserialize;
use time::OffsetDateTime;
use uuid::Uuid;

use super::placement::{Allocations, Consumer, Details, Held, Placement, Provider, Resources};
use crate::moving::placement_client::{Client, Error, ListedProvider, Microversion};

/// First microversion with generations of consumers.
pub(super) const GENERATIONS: Microversion = Microversion(28);
/// First microversion with consumer types.
const TYPES: Microversion = Microversion(38);

/// The trait of providers that share their inventories with the trees of their aggregates.
const SHARES: &str = "MISC_SHARES_VIA_AGGREGATE";

/// The API's placeholder for consumers without a type.
const NO_TYPE: &str = "unknown";

/// A placement service.
pub struct Service {
    client: Client,
    url: String,
    /// The microversion for reading consumers.
    shown_in: Microversion,
}

#[derive(Deserialize)]
struct OfProvider {
    allocations: BTreeMap<String, Portion>,
}

#[derive(Deserialize)]
struct Portion {
    resources: Resources,
    consumer_generation: Option<i64>,
}

#[derive(Deserialize)]
struct OfConsumer {
    allocations: BTreeMap<Uuid, Portion>,
    project_id: Option<String>,
    user_id: Option<String>,
    consumer_generation: Option<i64>,
    consumer_type: Option<String>,
}

impl Service {
    /// Checks the service's microversions.
    ///
    /// # Errors
    /// A message: it cannot be reached, is not a placement service, or is too old.
    pub async fn open(client: Client) -> Result<Self, String> {
        let failed = |error: Error| error.to_string();
        let url = client.url().await.map_err(failed)?;
        let url = url.as_str().trim_end_matches('/').to_owned();
        let highest = client.highest_microversion().await.map_err(failed)?;
        if highest < GENERATIONS {
            return Err(format!(
                "{url} supports microversions up to {highest}; {GENERATIONS} is required (openstack-placement \
                 from Rocky on)"
            ));
        }
        Ok(Self { client, url, shown_in: highest.min(TYPES) })
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The client.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// All providers with their allocations: one request for each provider.
    ///
    /// # Errors
    /// The service fails.
    pub async fn placement(&self) -> Result<Placement, Error> {
        let listed = self.client.providers("", GENERATIONS).await?;
        let sharing = self.client.providers(&format!("?required={SHARES}"), GENERATIONS).await?;
        let sharing: HashSet<Uuid> =
            sharing.into_iter().map(|it: ListedProvider<Uuid>| it.uuid).collect();
        let provider = |it: ListedProvider<Uuid>| Provider {
            root: *it.root(),
            shares: sharing.contains(&it.uuid),
            uuid: it.uuid,
            name: it.name,
        };
        let providers: Vec<Provider> = listed.into_iter().map(provider).collect();
        let mut consumers: HashMap<Uuid, Consumer> = HashMap::new();
        let mut lists = stream::iter(providers.iter().map(|it| it.uuid))
            .map(|uuid| async move { Ok::<_, Error>((uuid, self.of_provider(uuid).await?)) })
            .buffer_unordered(self.client.concurrency());
        while let Some((provider, list)) = lists.try_next().await? {
            for (consumer, portion) in list.allocations {
                // nova's consumers are UUIDs; others are not nova's.
                let Ok(consumer) = consumer.parse() else { continue };
                let held = consumers.entry(consumer).or_default();
                held.allocations.insert(provider, portion.resources);
                held.generation = portion.consumer_generation;
            }
        }
        drop(lists);
        Ok(Placement::new(self.url.clone(), providers, consumers))
    }

    /// The allocations of a provider; none if it has been deleted in the meantime.
    async fn of_provider(&self, provider: Uuid) -> Result<OfProvider, Error> {
        let path = format!("/resource_providers/{provider}/allocations");
        let response = self.client.get(&path, GENERATIONS).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(OfProvider { allocations: BTreeMap::new() });
        }
        response.expect(StatusCode::OK)?.json_as()
    }

    /// Details of consumers: one request for each.
    ///
    /// # Errors
    /// The service fails.
    pub async fn details(&self, consumers: Vec<Uuid>) -> Result<HashMap<Uuid, Details>, Error> {
        stream::iter(consumers)
            .map(|uuid| async move { Ok::<_, Error>((uuid, self.consumer(uuid).await?)) })
            .buffer_unordered(self.client.concurrency())
            .try_collect()
            .await
    }

    /// Details of a consumer. One that does not exist has no allocations.
    pub(super) async fn consumer(&self, consumer: Uuid) -> Result<Details, Error> {
        let path = format!("/allocations/{consumer}");
        let response = self.client.get(&path, self.shown_in).await?.expect(StatusCode::OK)?;
        let found: OfConsumer = response.json_as()?;
        let held = found.allocations.into_iter().map(|(uuid, portion)| (uuid, portion.resources));
        let held = Held {
            allocations: held.collect::<Allocations>(),
            project_id: found.project_id,
            user_id: found.user_id,
        };
        let modified = response.headers().get(LAST_MODIFIED).and_then(|it| it.to_str().ok());
        let modified = modified.and_then(|text| httpdate::parse_http_date(text).ok());
        Ok(Details {
            held,
            generation: found.consumer_generation,
            kind: found.consumer_type.filter(|kind| kind != NO_TYPE),
            modified: modified.map(OffsetDateTime::from),
        })
    }

    /// Returns whether a provider is there.
    pub(super) async fn has_provider(&self, uuid: Uuid) -> Result<bool, Error> {
        let response = self.client.get(&format!("/resource_providers/{uuid}"), GENERATIONS).await?;
        if response.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        response.expect(StatusCode::OK).map(|_| true)
    }
}
