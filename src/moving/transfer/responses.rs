//! The responses that an import over the API has read. They are kept in Berth's database until the import is done, so
//! that an interrupted import requests only the rest.
//!
//! Responses are numbered in the order in which they were kept. The consumers of a provider are read after the
//! provider, so a consumer that has a lower number, or none, must still be read. The generation and usages of a
//! provider show whether it has changed since, as in each round of [`super::service`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use super::error::Error;
use super::service::snapshot::{Consumer, ProviderParts};

/// Maximum number of responses in one statement.
const AT_ONCE: usize = 500;
/// Maximum time for which a response waits for others before it is written.
const WAIT: Duration = Duration::from_secs(1);

/// The resource that a response describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKey {
    Provider,
    Consumer,
}

/// Writes responses to Berth's database.
#[derive(Debug)]
pub(super) struct ResponseStore<'c> {
    conn: &'c mut PgConnection,
    /// Responses to write, in the order in which they were read.
    waiting: Vec<(ResponseKey, String, String)>,
    written: Instant,
}

/// The responses of an earlier run.
#[derive(Debug, Default)]
pub(super) struct StoredResponses {
    pub(super) parts: HashMap<String, ProviderParts>,
    pub(super) consumers: BTreeMap<String, Consumer>,
    /// Consumers to read, because a provider was read after them.
    pub(super) unread: BTreeSet<String>,
    /// Number of responses.
    pub(super) count: u64,
}

impl ResponseKey {
    fn word(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Consumer => "consumer",
        }
    }
}

impl<'c> ResponseStore<'c> {
    pub(super) fn new(conn: &'c mut PgConnection) -> Self {
        Self { conn, waiting: Vec::new(), written: Instant::now() }
    }

    /// Keeps a response; `None` means that the resource does not exist. It may be written later.
    pub(super) async fn keep<T: Serialize>(
        &mut self,
        about: ResponseKey,
        uuid: &str,
        response: Option<&T>,
    ) -> Result<(), Error> {
        let text = serde_json::to_string(&response)
            .map_err(|error| Error::Refused(format!("{uuid} cannot be kept: {error}")))?;
        self.waiting.push((about, uuid.to_owned(), text));
        if self.waiting.len() >= AT_ONCE || self.written.elapsed() > WAIT {
            self.write().await?;
        }
        Ok(())
    }

    /// Writes the waiting responses.
    pub(super) async fn write(&mut self) -> Result<(), Error> {
        let (mut about, mut uuids, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for (of, uuid, text) in self.waiting.drain(..) {
            about.push(of.word());
            uuids.push(uuid);
            texts.push(text);
        }
        sqlx::query(
            "insert into berth_import.answers (about, uuid, answer)
             select about, uuid, answer
             from unnest($1::text[], $2::text[], $3::text[]) with ordinality as it (about, uuid, answer, nth)
             order by nth
             on conflict (about, uuid) do update set answer = excluded.answer, number = excluded.number",
        )
        .bind(about)
        .bind(uuids)
        .bind(texts)
        .execute(&mut *self.conn)
        .await?;
        self.written = Instant::now();
        Ok(())
    }

    /// Reads the responses of an earlier run.
    pub(super) async fn known(&mut self) -> Result<StoredResponses, Error> {
        let mut rows = sqlx::query_as::<_, (String, String, String, i64)>(
            "select about, uuid, answer, number from berth_import.answers",
        )
        .fetch(&mut *self.conn);
        let mut known = StoredResponses::default();
        let (mut parts, mut consumers) = (HashMap::new(), HashMap::new());
        while let Some((about, uuid, text, number)) = rows.try_next().await? {
            known.count += 1;
            if about == ResponseKey::Provider.word() {
                if let Some(it) = read(&uuid, &text)? {
                    known.parts.insert(uuid.clone(), it);
                }
                parts.insert(uuid, number);
            } else {
                if let Some(it) = read(&uuid, &text)? {
                    known.consumers.insert(uuid.clone(), it);
                }
                consumers.insert(uuid, number);
            }
        }
        known.unread = unread(&known, &parts, &consumers);
        Ok(known)
    }
}

/// The consumers that a provider has or had, and that were not read after it.
fn unread(
    known: &StoredResponses,
    parts: &HashMap<String, i64>,
    consumers: &HashMap<String, i64>,
) -> BTreeSet<String> {
    let of_parts = known.parts.iter().flat_map(|(provider, parts)| {
        parts.consumers.iter().map(move |consumer| (provider.as_str(), consumer.as_str()))
    });
    let of_consumers = known.consumers.iter().flat_map(|(uuid, consumer)| {
        consumer.holds.keys().map(move |provider| (provider.as_str(), uuid.as_str()))
    });
    let is_read = |provider: &str, consumer: &str| {
        consumers.get(consumer).is_some_and(|read| parts.get(provider).is_none_or(|it| it < read))
    };
    let pairs = of_parts.chain(of_consumers);
    let late = pairs.filter(|(provider, consumer)| !is_read(provider, consumer));
    late.map(|(_, consumer)| consumer.to_owned()).collect()
}

fn read<T: DeserializeOwned>(uuid: &str, text: &str) -> Result<Option<T>, Error> {
    serde_json::from_str(text).map_err(|error| {
        Error::Refused(format!(
            "the kept response for {uuid} is unreadable ({error}): run `berth import --discard`, and start again"
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet, HashMap};

    use super::{Consumer, ProviderParts, StoredResponses, unread};

    #[test]
    fn consumers_that_were_read_before_their_provider_are_read_again() {
        let parts = |consumers: &[&str]| ProviderParts {
            consumers: consumers.iter().map(|&it| it.to_owned()).collect(),
            ..ProviderParts::default()
        };
        let consumer = |provider: &str| Consumer {
            holds: BTreeMap::from([(provider.to_owned(), BTreeMap::new())]),
            ..Consumer::default()
        };
        let known = StoredResponses {
            parts: HashMap::from([
                ("p1".to_owned(), parts(&["same", "new", "gone", "moved"])),
                ("p2".to_owned(), parts(&[])),
            ]),
            consumers: BTreeMap::from([
                ("same".to_owned(), consumer("p1")),
                ("moved".to_owned(), consumer("p2")),
                ("left".to_owned(), consumer("p2")),
                ("of p3".to_owned(), consumer("p3")),
            ]),
            ..StoredResponses::default()
        };
        let numbers = |each: &[(&str, i64)]| -> HashMap<String, i64> {
            each.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
        };
        let providers = numbers(&[("p1", 10), ("p2", 20)]);
        let consumers =
            numbers(&[("same", 11), ("gone", 12), ("moved", 13), ("left", 14), ("of p3", 1)]);
        let found = unread(&known, &providers, &consumers);
        assert_eq!(found, ["left", "moved", "new"].map(str::to_owned).into());
        assert_eq!(unread(&StoredResponses::default(), &providers, &consumers), BTreeSet::new());
    }
}
