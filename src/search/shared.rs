//! Candidates made of sharing providers alone.
//!
//! Such a candidate can be had at every anchor all its providers serve, and is to be told once.
//! So trees leave it out, and it is looked for among the providers of each signature (see
//! [`crate::world::sharing`]) instead: the first signature that has them all tells it.

use std::collections::HashMap;
use std::sync::Arc;

use super::plan::Plan;
use crate::world::World;
use crate::world::set::Set;
use crate::world::sharing::SignatureId;

/// Signatures remembered at the most; what is forgotten is found out again.
const REMEMBERED_MAX: usize = 4096;

/// For each part, the sharing providers that may supply it.
pub(super) type Options = Arc<[Vec<u32>]>;

/// What was found out about signatures.
#[derive(Debug, Default)]
pub(super) struct Shared {
    options: HashMap<SignatureId, Options>,
    viable: HashMap<SignatureId, bool>,
}

impl Shared {
    /// For each part, the sharing providers that trees with this signature can use.
    pub(super) fn options(
        &mut self,
        world: &World,
        plan: &Plan,
        signature: SignatureId,
    ) -> &Options {
        if self.options.len() >= REMEMBERED_MAX {
            self.options.clear();
        }
        self.options.entry(signature).or_insert_with(|| find_options(world, plan, signature))
    }

    /// Whether any tree with this signature may be an anchor.
    fn is_viable(&mut self, world: &World, plan: &Plan, signature: SignatureId) -> bool {
        if self.viable.len() >= REMEMBERED_MAX {
            self.viable.clear();
        }
        *self.viable.entry(signature).or_insert_with(|| {
            world.signature(signature).is_some_and(|signature| {
                signature.roots.iter().any(|root| {
                    plan.anchor.admits(root)
                        && plan.parts.iter().all(|part| part.anchor.admits(root))
                })
            })
        })
    }

    /// The options to combine for this signature, if it has any anchor.
    pub(super) fn open(
        &mut self,
        world: &World,
        plan: &Plan,
        signature: SignatureId,
    ) -> Option<Options> {
        let options = Arc::clone(self.options(world, plan, signature));
        let all = options.iter().all(|slots| !slots.is_empty());
        (all && self.is_viable(world, plan, signature)).then_some(options)
    }

    /// Whether no signature before this one has all these sharing providers.
    pub(super) fn is_first(
        &mut self,
        world: &World,
        plan: &Plan,
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
                    && self.is_viable(world, plan, other)
            })
        })
    }
}

fn find_options(world: &World, plan: &Plan, signature: SignatureId) -> Options {
    let Some(signature) = world.signature(signature) else { return Arc::default() };
    let aggregates = signature.aggregates.iter().filter_map(|&id| world.aggregate(id));
    let sharing: Set = aggregates.flat_map(|aggregate| aggregate.sharing.iter()).collect();
    let may_share = |part: &super::part::Part| {
        sharing.iter().filter(|&slot| part.may_share(world, slot)).collect()
    };
    plan.parts.iter().map(may_share).collect()
}
