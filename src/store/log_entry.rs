//! Entries of the change log: what claims changed, so that replicas apply it without reading rows.
//!
//! An entry has the new state, and no differences. The entries of one object are in the order in which they were
//! made, because the numbers of log rows are taken while the object is locked.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::{Error, Result};
use crate::model::claim::{Consumer, Owner};
use crate::model::{ClassId, ConsumerId, Generation, ProviderId};
use crate::world::{ConsumerChange, ConsumerState, ProviderUse};

/// Maximum length of a list of several entries, in bytes: two rows fit on a page, where they stay uncompressed.
const LIST_LENGTH_MAX: usize = 3900;

/// A change by a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LogEntry {
    /// The state of a consumer.
    Consumer(ConsumerEntry),
    /// A consumer has no allocations any more, and so does not exist.
    Ended(Uuid),
    /// The usage of a provider.
    Use(UseEntry),
}

/// The state of a consumer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ConsumerEntry {
    uuid: Uuid,
    id: i64,
    generation: Generation,
    /// Keys of the project, the user and the type.
    owner: (i64, i64, Option<i64>),
    /// Keys of provider and class, and the amount; ascending.
    held: Vec<(i64, i32, i64)>,
    /// The time of the allocations, if it is not that of the transaction, in seconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updated_at: Option<i64>,
}

/// The usage of a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct UseEntry {
    provider: i64,
    /// The new generation, if it has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<Generation>,
    /// The amounts in use, by key of the class.
    pub(super) used: Vec<(i32, i64)>,
}

impl UseEntry {
    /// Returns an entry without a change.
    pub(super) fn of(provider: ProviderId) -> Self {
        Self { provider: provider.0, generation: None, used: Vec::new() }
    }
}

impl LogEntry {
    /// Returns the entry of a consumer after a claim.
    pub(super) fn consumer(uuid: Uuid, id: ConsumerId, now: Option<&Consumer>) -> Self {
        let Some(now) = now else { return Self::Ended(uuid) };
        let held = now.holds.iter();
        let held = held.map(|((provider, class), amount)| (provider.0, class.0, *amount));
        Self::Consumer(ConsumerEntry {
            uuid,
            id: id.0,
            generation: now.generation,
            owner: (now.owner.project, now.owner.user, now.owner.consumer_type),
            held: held.collect(),
            updated_at: None,
        })
    }
}

/// Returns the entries as lists, one for each row of the log.
///
/// # Errors
/// A bug: an entry cannot be serialized.
pub(super) fn lists(entries: &[LogEntry]) -> Result<Vec<String>> {
    let mut lists = JsonLists::default();
    for entry in entries {
        let entry = serde_json::to_string(entry)
            .map_err(|error| Error::bug(format!("the log cannot be serialized: {error}")))?;
        lists.push(&entry);
    }
    Ok(lists.finish())
}

/// Lists of JSON values for rows, of which two fit on a page.
#[derive(Debug, Default)]
pub(super) struct JsonLists(Vec<String>);

impl JsonLists {
    /// Adds a value to the last list, or to a new one if the last would be too long.
    pub(super) fn push(&mut self, value: &str) {
        match self.0.last_mut() {
            Some(list) if list.len() + value.len() < LIST_LENGTH_MAX => {
                list.push(',');
                list.push_str(value);
            }
            _ => self.0.push(format!("[{value}")),
        }
    }

    /// Returns the lists.
    pub(super) fn finish(mut self) -> Vec<String> {
        for list in &mut self.0 {
            list.push(']');
        }
        self.0
    }
}

/// The changes in entries of the log.
#[derive(Debug, Default)]
pub(super) struct LoggedChanges {
    pub(super) consumers: Vec<ConsumerChange>,
    pub(super) uses: Vec<ProviderUse>,
}

impl LoggedChanges {
    /// Adds the changes in a list of entries. `at` is the time of their transaction, in seconds since the Unix epoch.
    ///
    /// # Errors
    /// The list is not one of this program.
    pub(super) fn add(&mut self, list: &str, at: i64) -> Result<()> {
        let entries: Vec<LogEntry> = serde_json::from_str(list)
            .map_err(|error| Error::inconsistent("change_log", "entries", error.to_string()))?;
        for entry in entries {
            match entry {
                LogEntry::Ended(uuid) => {
                    self.consumers.push(ConsumerChange { uuid, now: None });
                }
                LogEntry::Consumer(entry) => self.consumers.push(entry.change(at)),
                LogEntry::Use(UseEntry { provider, generation, used }) => {
                    self.uses.push(ProviderUse {
                        provider: ProviderId(provider),
                        generation: generation.map(|generation| (generation, at)),
                        used: used
                            .into_iter()
                            .map(|(class, used)| (ClassId(class), used))
                            .collect(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl ConsumerEntry {
    fn change(self, at: i64) -> ConsumerChange {
        let (project, user, consumer_type) = self.owner;
        let held = self.held.into_iter();
        let held = held.map(|(provider, class, used)| (ProviderId(provider), ClassId(class), used));
        let now = ConsumerState {
            id: ConsumerId(self.id),
            generation: self.generation,
            owner: Owner { project, user, consumer_type },
            updated_at: self.updated_at.unwrap_or(at),
            held: held.collect(),
        };
        ConsumerChange { uuid: self.uuid, now: Some(now) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{
        ClassId, Consumer, ConsumerId, LogEntry, LoggedChanges, Owner, ProviderId, UseEntry, Uuid,
        lists,
    };

    /// An import writes such entries with SQL (src/moving/transfer/announce.sql).
    #[test]
    fn entries_are_read_as_they_were_written() {
        let uuid = Uuid::from_u128(1);
        let now = Consumer {
            owner: Owner { project: 3, user: 4, consumer_type: None },
            generation: 2,
            holds: BTreeMap::from([((ProviderId(7), ClassId(0)), 5)]),
        };
        let used =
            UseEntry { generation: Some(9), used: vec![(0, 5)], ..UseEntry::of(ProviderId(7)) };
        let entries = [
            LogEntry::consumer(uuid, ConsumerId(6), Some(&now)),
            LogEntry::consumer(uuid, ConsumerId(6), None),
            LogEntry::Use(used),
        ];
        let written =
            r#"[{"consumer":{"uuid":"00000000-0000-0000-0000-000000000001","id":6,"generation":2,"#
                .to_owned()
                + r#""owner":[3,4,null],"held":[[7,0,5]]}},"#
                + r#"{"ended":"00000000-0000-0000-0000-000000000001"},"#
                + r#"{"use":{"provider":7,"generation":9,"used":[[0,5]]}}]"#;
        assert_eq!(lists(&entries).unwrap(), [written.as_str()]);

        let mut changes = LoggedChanges::default();
        changes.add(&written, 100).unwrap();
        let [present, gone] = changes.consumers.as_slice() else { panic!("{changes:?}") };
        let state = present.now.as_ref().unwrap();
        assert_eq!((state.generation, state.owner, state.updated_at), (2, now.owner, 100));
        assert_eq!(state.held, [(ProviderId(7), ClassId(0), 5)]);
        assert_eq!((gone.uuid, &gone.now), (uuid, &None));
        assert_eq!(changes.uses[0].generation, Some((9, 100)));
        assert!(changes.add("[{}]", 0).is_err());
    }

    #[test]
    fn long_lists_are_several_rows() {
        let entry = LogEntry::Ended(Uuid::nil());
        let lists = lists(&vec![entry.clone(); 200]).unwrap();
        assert!(lists.len() > 1 && lists.iter().all(|list| list.len() <= 4000));
        let parsed =
            lists.iter().flat_map(|list| serde_json::from_str::<Vec<LogEntry>>(list).unwrap());
        assert_eq!(parsed.collect::<Vec<_>>(), vec![entry; 200]);
    }
}
