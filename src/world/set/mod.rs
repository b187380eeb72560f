//! Sets of slots (or other small numbers): a sorted list while they are small, a bitmap in shared
//! pages when they grow.

#![expect(clippy::indexing_slicing, reason = "indices are quotients and remainders of the lengths")]

use std::sync::Arc;

use super::pages::{BITS, BitPage, Pages, WORDS};

/// Slots per block: the unit in which sets are combined.
pub(crate) const BLOCK: u32 = 256;

/// The members of a set within one block, a bit per slot.
pub(crate) type Words = [u64; 4];

/// A list grows up to this many members (16 KiB) and then becomes a bitmap ...
const FEW_MAX: usize = 4096;
/// ... which becomes a list again when it has shrunk to this many.
const MANY_MIN: usize = 2048;

/// The set. Copies share what they have in common.
#[derive(Clone, Debug)]
pub(crate) struct Set(Form);

#[derive(Clone, Debug)]
enum Form {
    Few(Arc<Vec<u32>>),
    Many { leaves: Pages<BitPage>, len: usize },
}

impl Default for Set {
    fn default() -> Self {
        Self(Form::Few(Arc::default()))
    }
}

fn place(member: u32) -> (usize, usize, u64) {
    let member = member as usize;
    (member / BITS, member / 64 % WORDS, 1 << (member % 64))
}

impl Set {
    /// Number of members.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Form::Few(list) => list.len(),
            Form::Many { len, .. } => *len,
        }
    }

    /// Returns whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the number is a member.
    pub(crate) fn contains(&self, member: u32) -> bool {
        match &self.0 {
            Form::Few(list) => list.binary_search(&member).is_ok(),
            Form::Many { leaves, .. } => {
                let (leaf, word, bit) = place(member);
                leaves.get(leaf).is_some_and(|leaf| leaf.0[word] & bit != 0)
            }
        }
    }

    /// The least member that is at least `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        match &self.0 {
            Form::Few(list) => list.get(list.partition_point(|&member| member < from)).copied(),
            Form::Many { leaves, .. } => next_in_leaves(leaves, from),
        }
    }

    /// The greatest member.
    #[expect(clippy::cast_possible_truncation, reason = "the pages hold numbers that came as u32")]
    pub(crate) fn last(&self) -> Option<u32> {
        match &self.0 {
            Form::Few(list) => list.last().copied(),
            Form::Many { leaves, .. } => {
                let leaf = (0..leaves.end()).rev().find(|&leaf| leaves.get(leaf).is_some())?;
                let words = leaves.get(leaf)?.0;
                let word = words.iter().rposition(|&word| word != 0)?;
                Some((leaf * BITS + word * 64) as u32 + words[word].ilog2())
            }
        }
    }

    /// All members, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let mut from = Some(0);
        std::iter::from_fn(move || {
            let member = self.next(from?)?;
            from = member.checked_add(1);
            Some(member)
        })
    }

    /// Number of members that another set does not have. Reads each block once.
    pub(crate) fn len_without(&self, other: &Self) -> usize {
        let Some(last) = self.last() else { return 0 };
        let blocks = 0..=last / BLOCK;
        let words = blocks.flat_map(|block| self.words(block).into_iter().zip(other.words(block)));
        words.map(|(own, others)| (own & !others).count_ones() as usize).sum()
    }

    /// The members in block number `block`.
    pub(crate) fn words(&self, block: u32) -> Words {
        match &self.0 {
            Form::Few(list) => {
                let mut words = [0; 4];
                let first = block * BLOCK;
                let from = list.partition_point(|&member| member < first);
                for member in list[from..].iter().map(|member| (member - first) as usize) {
                    if member >= BLOCK as usize {
                        break;
                    }
                    words[member / 64] |= 1 << (member % 64);
                }
                words
            }
            Form::Many { leaves, .. } => {
                let first = block as usize * 4;
                leaves.get(first / WORDS).map_or([0; 4], |leaf| {
                    let at = first % WORDS;
                    [leaf.0[at], leaf.0[at + 1], leaf.0[at + 2], leaf.0[at + 3]]
                })
            }
        }
    }

    /// Adds a member; returns whether it is new.
    pub(crate) fn insert(&mut self, member: u32) -> bool {
        match &mut self.0 {
            Form::Few(list) => {
                let Err(at) = list.binary_search(&member) else { return false };
                Arc::make_mut(list).insert(at, member);
                if list.len() > FEW_MAX {
                    self.0 = many(list);
                }
                true
            }
            Form::Many { leaves, len } => {
                let (leaf, word, bit) = place(member);
                if leaves.get(leaf).is_some_and(|leaf| leaf.0[word] & bit != 0) {
                    return false;
                }
                leaves.get_mut(leaf).0[word] |= bit;
                *len += 1;
                true
            }
        }
    }

    /// Removes a member; returns whether it was one.
    pub(crate) fn remove(&mut self, member: u32) -> bool {
        match &mut self.0 {
            Form::Few(list) => {
                let Ok(at) = list.binary_search(&member) else { return false };
                Arc::make_mut(list).remove(at);
                true
            }
            Form::Many { leaves, len } => {
                let (leaf, word, bit) = place(member);
                if leaves.get(leaf).is_none_or(|leaf| leaf.0[word] & bit == 0) {
                    return false;
                }
                let words = leaves.get_mut(leaf);
                words.0[word] &= !bit;
                if words.0.iter().all(|&word| word == 0) {
                    leaves.remove(leaf);
                }
                *len -= 1;
                if *len <= MANY_MIN {
                    self.0 = Form::Few(Arc::new(self.iter().collect()));
                }
                true
            }
        }
    }
}

impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl FromIterator<u32> for Set {
    fn from_iter<I: IntoIterator<Item = u32>>(members: I) -> Self {
        let mut set = Self::default();
        for member in members {
            set.insert(member);
        }
        set
    }
}

fn many(list: &[u32]) -> Form {
    let mut leaves = Pages::default();
    for &member in list {
        let (leaf, word, bit) = place(member);
        let leaf: &mut BitPage = leaves.get_mut(leaf);
        leaf.0[word] |= bit;
    }
    Form::Many { leaves, len: list.len() }
}

#[expect(clippy::cast_possible_truncation, reason = "the pages hold numbers that came as u32")]
fn next_in_leaves(leaves: &Pages<BitPage>, from: u32) -> Option<u32> {
    let (leaf, word, bit) = place(from);
    let mut ahead = !(bit - 1);
    let mut word = word;
    for number in leaf..leaves.end() {
        if let Some(leaf) = leaves.get(number) {
            while word < WORDS {
                let left = leaf.0[word] & ahead;
                if left != 0 {
                    let bit = left.trailing_zeros() as usize;
                    return Some((number * BITS + word * 64 + bit) as u32);
                }
                ahead = !0;
                word += 1;
            }
        }
        word = 0;
        ahead = !0;
    }
    None
}

#[cfg(test)]
mod tests;
