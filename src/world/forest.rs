//! Orders providers into trees, each provider before its descendants.

#![expect(clippy::indexing_slicing, reason = "positions are those of the list they index")]

use std::collections::HashMap;

use super::slot_data::NOWHERE;
use crate::model::{Bug, ProviderId};

/// One provider's position in its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeNode {
    /// Index of the provider in the input.
    pub(super) member: usize,
    /// Position of its parent in the tree; [`NOWHERE`] for the root.
    pub(super) parent: u32,
    /// Number of providers in the subtree that begins here.
    pub(super) len: u32,
}

/// Arranges providers, given as key and key of the parent, into trees. Siblings keep their order. A provider whose
/// parent is not given is a root; so is one provider of each cycle.
pub(super) fn arrange(providers: &[(ProviderId, Option<ProviderId>)]) -> Vec<Vec<TreeNode>> {
    let positions: HashMap<ProviderId, usize> =
        providers.iter().enumerate().map(|(position, (id, _))| (*id, position)).collect();
    let mut children: Vec<(usize, usize)> = Vec::new();
    let mut roots = Vec::new();
    for (position, (_, parent)) in providers.iter().enumerate() {
        match parent.and_then(|parent| positions.get(&parent)) {
            Some(&parent) => children.push((parent, position)),
            None => roots.push(position),
        }
    }
    children.sort_unstable();
    let mut placed = vec![false; providers.len()];
    let mut trees: Vec<_> =
        roots.into_iter().map(|root| descend(root, &children, &mut placed)).collect();
    for position in 0..providers.len() {
        if !placed[position] {
            trees.push(descend(position, &children, &mut placed));
        }
    }
    trees
}

fn descend(root: usize, children: &[(usize, usize)], placed: &mut [bool]) -> Vec<TreeNode> {
    let mut tree: Vec<TreeNode> = Vec::new();
    let mut ahead = vec![(root, NOWHERE)];
    while let Some((member, parent)) = ahead.pop() {
        if std::mem::replace(&mut placed[member], true) {
            continue;
        }
        let position = u32::try_from(tree.len())
            .unwrap_or_else(|_| Bug::raise("a tree has more members than there are slots"));
        tree.push(TreeNode { member, parent, len: 1 });
        let from = children.partition_point(|&(parent, _)| parent < member);
        let to = children.partition_point(|&(parent, _)| parent <= member);
        ahead.extend(children[from..to].iter().rev().map(|&(_, child)| (child, position)));
    }
    for position in (1..tree.len()).rev() {
        let TreeNode { parent, len, .. } = tree[position];
        tree[parent as usize].len += len;
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(parents: &[(i64, i64)]) -> Vec<Vec<(i64, u32, u32)>> {
        let providers: Vec<_> = parents
            .iter()
            .map(|&(id, parent)| (ProviderId(id), (parent != 0).then_some(ProviderId(parent))))
            .collect();
        let node = |node: TreeNode| (parents[node.member].0, node.parent, node.len);
        arrange(&providers).into_iter().map(|tree| tree.into_iter().map(node).collect()).collect()
    }

    #[test]
    fn parents_come_before_their_children() {
        assert_eq!(
            trees(&[(4, 2), (1, 0), (2, 1), (3, 1), (5, 2), (9, 0)]),
            [
                vec![(1, NOWHERE, 5), (2, 0, 3), (4, 1, 1), (5, 1, 1), (3, 0, 1)],
                vec![(9, NOWHERE, 1)]
            ]
        );
    }

    #[test]
    fn orphans_and_circles_become_roots() {
        assert_eq!(trees(&[(1, 7)]), [vec![(1, NOWHERE, 1)]]);
        assert_eq!(trees(&[(1, 2), (2, 1)]), [vec![(1, NOWHERE, 2), (2, 0, 1)]]);
    }
}
