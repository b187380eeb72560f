//! A growing sequence of pages of which copies share everything they have in common.
//!
//! Copying the sequence costs one reference count. Changing one page of a copy copies that page
//! and the two short lists of references above it, whatever the length. All that a
//! [`World`](super::World) holds per provider stands in such sequences.

#![expect(clippy::indexing_slicing, reason = "indices are quotients and remainders of the lengths")]

use std::sync::Arc;

/// References in one inner list.
const FAN: usize = 64;

type Node<P> = [Option<Arc<P>>; FAN];

/// The sequence. A page never written is absent and reads as empty.
#[derive(Debug)]
pub(super) struct Pages<P> {
    nodes: Arc<Vec<Option<Arc<Node<P>>>>>,
}

impl<P> Clone for Pages<P> {
    fn clone(&self) -> Self {
        Self { nodes: Arc::clone(&self.nodes) }
    }
}

impl<P> Default for Pages<P> {
    fn default() -> Self {
        Self { nodes: Arc::default() }
    }
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

    /// No page present has this index or a greater one.
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

    /// Forgets a page.
    pub(super) fn remove(&mut self, index: usize) {
        if self.get(index).is_some() {
            let node = Arc::make_mut(&mut self.nodes)[index / FAN]
                .get_or_insert_with(|| Arc::new([const { None }; FAN]));
            Arc::make_mut(node)[index % FAN] = None;
        }
    }
}

/// Values per page of a [`Table`].
const ROWS: usize = 256;

#[derive(Clone, Debug)]
struct Rows<T>([T; ROWS]);

impl<T: Default> Default for Rows<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

/// One value per slot.
#[derive(Debug)]
pub(super) struct Table<T> {
    pages: Pages<Rows<T>>,
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Self { pages: self.pages.clone() }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { pages: Pages::default() }
    }
}

impl<T> Table<T> {
    /// The value of a slot, unless nothing near it was ever written.
    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        Some(&self.pages.get(slot as usize / ROWS)?.0[slot as usize % ROWS])
    }
}

impl<T: Clone + Default> Table<T> {
    /// The value of a slot, for writing.
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut T {
        &mut self.pages.get_mut(slot as usize / ROWS).0[slot as usize % ROWS]
    }
}
