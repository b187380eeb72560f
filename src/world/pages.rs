//! A growing sequence of pages whose copies share all equal pages.
//!
//! Copying the sequence costs one reference count. Changing one page of a copy copies that page and the two short
//! lists of references above it, whatever the length. A [`World`](super::World) keeps all its data of providers in
//! such sequences.

#![expect(clippy::indexing_slicing, reason = "indices are quotients and remainders of the lengths")]

use std::sync::Arc;

/// References in one inner list.
const FAN: usize = 64;

type Node<P> = [Option<Arc<P>>; FAN];

/// The sequence. A page never written is absent and reads as empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages<P> {
    nodes: Arc<Vec<Option<Arc<Node<P>>>>>,
}

impl<P> Pages<P> {
    /// The page at an index, if it was ever written.
    pub(super) fn get(&self, index: usize) -> Option<&P> {
        self.nodes.get(index / FAN)?.as_ref()?[index % FAN].as_deref()
    }

    /// All pages present, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &P)> {
        self.nodes.iter().enumerate().flat_map(|(high, node)| {
            node.iter().flat_map(move |node| {
                node.iter()
                    .enumerate()
                    .filter_map(move |(low, page)| Some((high * FAN + low, page.as_deref()?)))
            })
        })
    }

    /// An upper bound of the indexes of all pages present.
    pub(super) fn end(&self) -> usize {
        self.nodes.len() * FAN
    }
}

impl<P: Clone + Default> Pages<P> {
    /// The page at an index, for writing.
    pub(super) fn get_mut(&mut self, index: usize) -> &mut P {
        let nodes = Arc::make_mut(&mut self.nodes);
        if nodes.len() <= index / FAN {
            nodes.resize(index / FAN + 1, None);
        }
        let node = nodes[index / FAN].get_or_insert_with(|| Arc::new([const { None }; FAN]));
        Arc::make_mut(Arc::make_mut(node)[index % FAN].get_or_insert_default())
    }

    /// Removes a page.
    pub(super) fn remove(&mut self, index: usize) {
        if self.get(index).is_some() {
            let node = Arc::make_mut(&mut self.nodes)[index / FAN]
                .get_or_insert_with(|| Arc::new([const { None }; FAN]));
            Arc::make_mut(node)[index % FAN] = None;
        }
    }
}

/// The bits of [`BITS`] numbers.
#[derive(Clone, Debug)]
pub(super) struct BitPage(pub(super) [u64; WORDS]);

/// Words of a [`BitPage`].
pub(super) const WORDS: usize = 64;
/// Bits of a [`BitPage`].
pub(super) const BITS: usize = WORDS * 64;

impl Default for BitPage {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

#[derive(Clone, Debug)]
struct Rows<T, const N: usize>([T; N]);

impl<T: Default, const N: usize> Default for Rows<T, N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

/// One value per slot, `N` to a page: fewer for values that are expensive to copy.
#[derive(Clone, Debug, Default)]
pub(super) struct Table<T, const N: usize> {
    pages: Pages<Rows<T, N>>,
}

impl<T, const N: usize> Table<T, N> {
    /// The value of a slot; `None` if its page was never written.
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        Some(&self.pages.get(slot as usize / N)?.0[slot as usize % N])
    }
}

impl<T: Clone + Default, const N: usize> Table<T, N> {
    /// The value of a slot, for writing.
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut T {
        &mut self.pages.get_mut(slot as usize / N).0[slot as usize % N]
    }
}
