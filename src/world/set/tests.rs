//! A set behaves as the standard library's, whichever form it has.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{BLOCK, FEW_MAX, Form, Set};

fn same(set: &Set, model: &BTreeSet<u32>) {
    assert_eq!(set.len(), model.len());
    assert_eq!(set.last(), model.last().copied());
    assert!(set.iter().eq(model.iter().copied()));
    for from in (0..20_000).step_by(617) {
        assert_eq!(set.next(from), model.range(from..).next().copied());
        let block = from / BLOCK;
        let words = set.words(block);
        for bit in 0..BLOCK {
            let member = words[bit as usize / 64] >> (bit % 64) & 1 == 1;
            assert_eq!(member, model.contains(&(block * BLOCK + bit)));
        }
    }
}

#[test]
fn a_set_changes_its_form_and_keeps_its_members() {
    let mut set = Set::default();
    let mut model = BTreeSet::new();
    for number in 0..6000_u32 {
        let member = number.wrapping_mul(7919) % 20_000;
        assert_eq!(set.insert(member), model.insert(member));
    }
    assert!(matches!(set.0, Form::Many { .. }));
    assert!(model.len() > FEW_MAX);
    same(&set, &model);
    let before = set.clone();
    let kept = model.clone();
    for number in 0..5000_u32 {
        let member = number.wrapping_mul(7919) % 20_000;
        assert_eq!(set.remove(member), model.remove(&member));
        assert!(!set.contains(member));
    }
    assert!(matches!(set.0, Form::Few(_)));
    same(&set, &model);
    same(&before, &kept);
    assert_eq!(before.len_without(&set), kept.difference(&model).count());
    assert_eq!((set.len_without(&before), set.len_without(&Set::default())), (0, model.len()));
    assert_eq!(Set::default().len_without(&set), 0);
}

proptest! {
    #[test]
    fn a_small_set_is_a_set(changes in prop::collection::vec((any::<bool>(), 0..700_u32), 0..200)) {
        let mut set = Set::default();
        let mut model = BTreeSet::new();
        for (insert, member) in changes {
            if insert {
                prop_assert_eq!(set.insert(member), model.insert(member));
            } else {
                prop_assert_eq!(set.remove(member), model.remove(&member));
            }
        }
        same(&set, &model);
    }
}
