//! Candidates that consist of sharing providers alone.
//!
//! Every tree that uses all of its providers could yield such a candidate, but it must be returned only once. So
//! trees leave it out. Instead, the search goes through the *signatures* (see [`crate::world::sharing`]): the sets
//! of aggregates by which trees use sharing providers. All trees with one signature can use the same sharing
//! providers, and there are far fewer signatures than trees. The first signature that contains all providers of a
//! candidate yields it.
//!
//! *Example.* A disk pool shares by the aggregates A and B, an address pool by A. 500 hosts are in A only
//! (signature {A}), 500 in A and B (signature {A, B}). A request for disk and an address has one candidate without
//! any host: both pools. It is found with {A}. With {A, B} it is found again, and dropped, because {A} comes first
//! and contains both pools.

use std::collections::HashMap;
use std::sync::Arc;

use super::query::Query;
use crate::world::World;
use crate::world::set::Set;
use crate::world::sharing::SignatureId;

/// Maximum number of cached signatures.
const REMEMBERED_MAX: usize = 4096;

/// For each part, the sharing providers that can supply it.
pub(super) type Options = Arc<[Vec<u32>]>;

/// A cache of the options of signatures.
#[derive(Debug, Default)]
pub(super) struct Shared {
    options: HashMap<SignatureId, Options>,
    /// The options of the last signature: successive trees often have the same one.
    last: Option<(SignatureId, Options)>,
    viable: HashMap<SignatureId, bool>,
}

impl Shared {
    /// For each part, the sharing providers that can supply it to trees with this signature.
    pub(super) fn options(
        &mut self,
        world: &World,
        query: &Query,
        signature: SignatureId,
    ) -> &Options {
        let options = match self.last.take() {
            Some((last, options)) if last == signature => options,
            Some(_) | None => {
                if self.options.len() >= REMEMBERED_MAX {
                    self.options.clear();
                }
                let find = || find_options(world, query, signature);
                Arc::clone(self.options.entry(signature).or_insert_with(find))
            }
        };
        &self.last.insert((signature, options)).1
    }

    /// Returns whether the root of any tree with this signature meets the conditions on anchors.
    fn is_viable(&mut self, world: &World, query: &Query, signature: SignatureId) -> bool {
        if self.viable.len() >= REMEMBERED_MAX {
            self.viable.clear();
        }
        *self.viable.entry(signature).or_insert_with(|| {
            world.signature(signature).is_some_and(|signature| {
                signature.roots.iter().any(|root| {
                    query.anchor.admits(root)
                        && query.parts.iter().all(|part| part.anchor.admits(root))
                })
            })
        })
    }

    /// The options of a signature, if each part has one and a tree with this signature can be an
    /// anchor.
    pub(super) fn open(
        &mut self,
        world: &World,
        query: &Query,
        signature: SignatureId,
    ) -> Option<Options> {
        let options = Arc::clone(self.options(world, query, signature));
        let all = options.iter().all(|slots| !slots.is_empty());
        (all && self.is_viable(world, query, signature)).then_some(options)
    }

    /// Returns whether no earlier signature yields the candidate with these sharing providers.
    pub(super) fn is_first(
        &mut self,
        world: &World,
        query: &Query,
        signature: SignatureId,
        picks: &[u32],
    ) -> bool {
        let Some(&first) = picks.first() else { return true };
        let serves = |slot: u32, content: &[uuid::Uuid]| {
            let aggregates = world.at(slot).map_or(&[][..], |provider| provider.aggregates());
            aggregates.iter().any(|id| content.binary_search(id).is_ok())
        };
        let aggregates = world.at(first).map_or(&[][..], |provider| provider.aggregates());
        !aggregates.iter().filter_map(|&id| world.aggregate(id)).any(|aggregate| {
            let before = aggregate.signatures.iter().take_while(|&other| other < signature);
            before.into_iter().any(|other| {
                world
                    .signature(other)
                    .is_some_and(|it| picks.iter().all(|&slot| serves(slot, &it.aggregates)))
                    && self.is_viable(world, query, other)
            })
        })
    }
}

fn find_options(world: &World, query: &Query, signature: SignatureId) -> Options {
    let Some(signature) = world.signature(signature) else { return Arc::default() };
    let aggregates = signature.aggregates.iter().filter_map(|&id| world.aggregate(id));
    let sharing: Set = aggregates.flat_map(|aggregate| aggregate.sharing.iter()).collect();
    let may_share = |part: &super::part::Part| {
        sharing.iter().filter(|&slot| part.may_share(world, slot)).collect()
    };
    query.parts.iter().map(may_share).collect()
}
