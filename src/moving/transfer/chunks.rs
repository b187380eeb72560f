//! Chunks: key ranges of the source's tables, used to detect changes.
//!
//! The source counts the rows of each chunk and computes a fingerprint of the columns that are read
//! ([`super::tables::Table::fingerprints`]). A chunk whose fingerprint equals the one recorded with the rows in the
//! staging has not changed; all others are read again.
//!
//! This detects every change, whatever made it, without relying on generations or timestamps. The reference does not
//! raise a provider's generation when a provider is renamed or gets another parent, when aggregates are set before
//! 1.19, or when allocations are deleted. It writes a consumer's project, user and type in other transactions than
//! its generation. `updated_at` has whole seconds in `MySQL`, and deleted rows leave none. `SQLite` reuses keys, and
//! so does `MySQL` before 8.0 after a restart.
//!
//! The price is that the source reads its tables in each round, in the order of their keys, and sends one line for
//! each chunk.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Approximate number of rows of a chunk. With larger chunks, more rows are read for each change; with smaller ones,
/// more fingerprints are sent in each round.
const ROWS: i64 = 200;

/// Maximum length of a fingerprint; longer ones are hashed. A hash is shorter, so it is not hashed again when it is
/// read back.
const FINGERPRINT_MAX: usize = 40;

/// Row count and fingerprint of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Its rows.
    pub(super) rows: u64,
    /// A fingerprint of what they contain.
    pub(super) fingerprint: String,
}

impl Chunk {
    pub(super) fn new(rows: u64, mut fingerprint: String) -> Self {
        // PostgreSQL cannot store a NUL, which the text of rows may have.
        if fingerprint.len() > FINGERPRINT_MAX || fingerprint.contains('\0') {
            // Another release of Rust may hash differently; the chunk is then read again.
            let mut hasher = DefaultHasher::new();
            fingerprint.hash(&mut hasher);
            fingerprint = format!("{:016x}", hasher.finish());
        }
        Self { rows, fingerprint }
    }
}

/// The non-empty chunks of a table, by number.
pub(super) type Chunks = BTreeMap<i64, Chunk>;

/// A half-open range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) first: i64,
    pub(super) end: i64,
}

/// The chunks that have changed since they were recorded.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Chunks whose recorded rows are out of date.
    pub(super) stale: Vec<i64>,
    /// Chunks to read.
    pub(super) wanted: Vec<i64>,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.stale.is_empty() && self.wanted.is_empty()
    }

    /// Marks all chunks as changed, recorded and found.
    pub(super) fn all(recorded: &Chunks, found: &Chunks) -> Self {
        Self { stale: recorded.keys().copied().collect(), wanted: found.keys().copied().collect() }
    }

    /// Compares the recorded chunks with those found.
    pub(super) fn between(recorded: &Chunks, found: &Chunks) -> Self {
        let differs = |one: &Chunks, other: &Chunks| {
            let of_one = one.iter().filter(|(number, chunk)| other.get(number) != Some(chunk));
            of_one.map(|(number, _)| *number).collect()
        };
        Self { stale: differs(recorded, found), wanted: differs(found, recorded) }
    }
}

/// Chooses the number of keys per chunk for a table with `rows` rows between these keys.
pub(super) fn width(rows: i64, lowest: i64, highest: i64) -> i64 {
    let keys = highest.saturating_sub(lowest).saturating_add(1).max(1);
    let chunks = (rows / ROWS).max(1);
    // A table may grow, so only one with several rows for each key gets chunks with fewer keys.
    let least = if rows > keys { 1 } else { ROWS };
    (keys / chunks).max(least)
}

/// The key ranges of the wanted chunks, in ascending order. Chunks with no others between them are merged.
pub(super) fn runs(found: &Chunks, wanted: &[i64], width: i64) -> Vec<Keys> {
    let mut runs: Vec<Keys> = Vec::new();
    let mut before = None;
    for number in found.keys() {
        let is_wanted = wanted.binary_search(number).is_ok();
        if is_wanted {
            let end = (number + 1).saturating_mul(width);
            match runs.last_mut().filter(|_| before == Some(true)) {
                Some(run) => run.end = end,
                None => runs.push(Keys { first: number.saturating_mul(width), end }),
            }
        }
        before = Some(is_wanted);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{Changed, Chunk, Chunks, Keys, runs, width};

    fn chunks(of: &[(i64, &str)]) -> Chunks {
        of.iter().map(|(number, text)| (*number, Chunk::new(1, (*text).to_owned()))).collect()
    }

    #[test]
    fn only_differing_chunks_are_read_again() {
        let recorded = chunks(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")]);
        let found = chunks(&[(1, "a"), (2, "x"), (4, "d"), (5, "e")]);
        let changed = Changed::between(&recorded, &found);
        assert_eq!(changed, Changed { stale: vec![2, 3], wanted: vec![2, 5] });
        assert!(Changed::between(&found, &found).is_empty());
        // The number of rows counts as well.
        let more = Chunks::from([(1, Chunk::new(2, "a".to_owned()))]);
        assert!(!Changed::between(&chunks(&[(1, "a")]), &more).is_empty());
    }

    #[test]
    fn neighbours_are_read_together() {
        let found = chunks(&[(1, "a"), (7, "b"), (8, "c"), (9, "d")]);
        let keys = |first, end| Keys { first, end };
        assert_eq!(runs(&found, &[1, 7, 9], 10), [keys(10, 80), keys(90, 100)]);
        assert_eq!(runs(&found, &[1, 7, 8, 9], 10), [keys(10, 100)]);
        assert_eq!(runs(&found, &[], 10), []);
    }

    #[test]
    fn chunks_of_sparse_keys_are_wide() {
        assert_eq!(width(600_000, 1, 600_000), 200);
        assert_eq!(width(600_000, 1, 60_000_000), 20_000);
        assert_eq!(width(0, 0, 0), 200);
        assert_eq!(width(300_000, 1, 10_000), 6);
        assert_eq!(width(30, 1, 1_000_000), 1_000_000);
    }

    #[test]
    fn long_fingerprints_are_hashed() {
        let long = Chunk::new(1, "x".repeat(1000));
        assert_eq!(long.fingerprint.len(), 16);
        assert_ne!(long, Chunk::new(1, "y".repeat(1000)));
    }

    #[test]
    fn fingerprints_can_be_stored_and_read_back() {
        let with_nul = Chunk::new(1, "1,a\0b".to_owned());
        assert!(!with_nul.fingerprint.contains('\0'));
        assert_ne!(with_nul, Chunk::new(1, "1,a\0c".to_owned()));
        assert_eq!(with_nul, Chunk::new(1, with_nul.fingerprint.clone()));
    }
}
