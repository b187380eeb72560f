//! Writes JSON as bytes, caching text that repeats between candidates or providers: names, trait
//! lists that many providers share, the amounts of the last candidate.
//!
//! Names of classes and traits, suffixes and UUIDs need no escaping.

use axum::body::Bytes;
use uuid::Uuid;

use crate::http::api::json;
use crate::model::{Bug, ClassId, TraitId};
use crate::world::World;

/// Entries of each cache; a power of two.
const CACHE_ENTRIES: usize = 64;

/// Fibonacci hashing: the golden ratio as a fraction of 64 bits.
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// JSON text and the caches for writing it.
#[derive(Debug)]
pub(in crate::http) struct Text {
    written: Vec<u8>,
    /// Beginnings of members of summaries, such as `"VCPU":{"capacity":64,"used":`.
    capacities: TextCache<(ClassId, i64)>,
    /// Lists such as `["CUSTOM_A","CUSTOM_B"]`, by their position in the world.
    traits: TextCache<(usize, usize)>,
    /// The last amounts, and their text.
    amounts: (Vec<(ClassId, i64)>, Vec<u8>),
    /// The last UUID, with its quotes.
    uuid: (Uuid, [u8; 38]),
}

impl Text {
    /// Creates an empty text with room for `bytes`.
    pub(in crate::http) fn with_room(bytes: usize) -> Self {
        let mut nil = [b'"'; 38];
        hyphenate(Uuid::nil(), &mut nil);
        Self {
            written: Vec::with_capacity(bytes),
            capacities: TextCache::default(),
            traits: TextCache::default(),
            amounts: (Vec::new(), Vec::new()),
            uuid: (Uuid::nil(), nil),
        }
    }

    /// Returns the number of bytes that were written and not taken.
    pub(in crate::http) fn len(&self) -> usize {
        self.written.len()
    }

    /// Takes the bytes written so far, and reserves `room` for the next.
    pub(in crate::http) fn take(&mut self, room: usize) -> Bytes {
        std::mem::replace(&mut self.written, Vec::with_capacity(room)).into()
    }

    pub(in crate::http) fn push(&mut self, text: &str) {
        self.written.extend_from_slice(text.as_bytes());
    }

    /// Writes a quoted and escaped text.
    pub(in crate::http) fn string(&mut self, text: &str) {
        json::write(&mut self.written, &text);
    }

    pub(in crate::http) fn float(&mut self, number: f64) {
        json::write(&mut self.written, &number);
    }

    pub(in crate::http) fn uuid(&mut self, uuid: Uuid) {
        if self.uuid.0 != uuid {
            self.uuid.0 = uuid;
            hyphenate(uuid, &mut self.uuid.1);
        }
        self.written.extend_from_slice(&self.uuid.1);
    }

    pub(in crate::http) fn number(&mut self, number: i64) {
        self.push(itoa::Buffer::new().format(number));
    }

    pub(in crate::http) fn count(&mut self, count: usize) {
        self.push(itoa::Buffer::new().format(count));
    }

    /// Writes the members of an object of amounts by class.
    pub(in crate::http) fn amounts(&mut self, amounts: &[(ClassId, i64)], world: &World) {
        let (last, text) = &mut self.amounts;
        if *last != amounts {
            amounts.clone_into(last);
            text.clear();
            for (number, (class, amount)) in amounts.iter().enumerate() {
                text.extend_from_slice(if number > 0 { b",\"" } else { b"\"" });
                text.extend_from_slice(world.name_of_class(*class).as_bytes());
                text.extend_from_slice(b"\":");
                text.extend_from_slice(itoa::Buffer::new().format(*amount).as_bytes());
            }
        }
        self.written.extend_from_slice(text);
    }

    /// Writes a member of a summary's resources.
    pub(in crate::http) fn stock(
        &mut self,
        class: ClassId,
        capacity: i64,
        used: i64,
        world: &World,
    ) {
        // Capacities are often multiples of a power of two.
        let mixed =
            (u64::from(class.0.unsigned_abs()) ^ capacity.unsigned_abs()).wrapping_mul(HASH);
        let beginning = self.capacities.get((class, capacity), (mixed >> 32) as usize, |text| {
            text.push(b'"');
            text.extend_from_slice(world.name_of_class(class).as_bytes());
            text.extend_from_slice(b"\":{\"capacity\":");
            text.extend_from_slice(itoa::Buffer::new().format(capacity).as_bytes());
            text.extend_from_slice(b",\"used\":");
        });
        self.written.extend_from_slice(beginning);
        self.number(used);
        self.push("}");
    }

    /// Writes a list of traits. The world shares equal lists, so the cache compares addresses.
    pub(in crate::http) fn traits(&mut self, traits: &[TraitId], world: &World) {
        let place = (traits.as_ptr().addr(), traits.len());
        let list = self.traits.get(place, place.0 / 16, |text| {
            text.push(b'[');
            for (number, id) in traits.iter().enumerate() {
                text.extend_from_slice(if number > 0 { b",\"" } else { b"\"" });
                text.extend_from_slice(world.name_of_trait(*id).as_bytes());
                text.push(b'"');
            }
            text.push(b']');
        });
        self.written.extend_from_slice(list);
    }
}

/// A direct-mapped cache: each key has one place, which holds the latest text.
#[derive(Debug)]
struct TextCache<K> {
    entries: Vec<Option<(K, Vec<u8>)>>,
}

impl<K> Default for TextCache<K> {
    fn default() -> Self {
        Self { entries: std::iter::repeat_with(|| None).take(CACHE_ENTRIES).collect() }
    }
}

impl<K: Copy + Eq> TextCache<K> {
    /// Returns the text of a key, which `write` produces if it is not cached.
    fn get(&mut self, key: K, hash: usize, write: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        let place = hash % CACHE_ENTRIES;
        let missing = || Bug::raise(format!("there is no place {place} among texts that are kept"));
        let entry = self.entries.get_mut(place).unwrap_or_else(missing);
        let (known, text) = entry.get_or_insert_with(|| (key, Vec::new()));
        if *known != key || text.is_empty() {
            *known = key;
            text.clear();
            write(text);
        }
        text
    }
}

/// Truncates a text to at most `most` characters.
pub(in crate::http) fn shortened(text: &str, most: usize) -> String {
    let mut rest = text.chars();
    let mut shown: String = rest.by_ref().take(most).collect();
    if rest.next().is_some() {
        shown.push_str("...");
    }
    shown
}

/// Writes a UUID between the quotes.
fn hyphenate(uuid: Uuid, quoted: &mut [u8; 38]) {
    uuid.hyphenated().encode_lower(&mut quoted[1..37]);
}
