//! Listing providers: each filter, and the choice of the unknown name in an error.

use berth::model::ClassId;
use berth::model::provider::ProviderRow;
use berth::search::Unknown;
use berth::search::listing::{Filter, list};
use berth::world::{Provider, World};
use proptest::prelude::*;

use crate::search::cloud::{Cloud, uuid};
use crate::search::generate::{catalogue, provider_uuid, request, rows};
use crate::search::properties::cases;

fn cloud() -> Cloud {
    Cloud::new(
        "cn1; VCPU:8; HW_X; A
         n11 < cn1; MEMORY_MB:64; HW_Y; A B
         cn2; VCPU:4 MEMORY_MB:64; HW_X HW_Y; B",
    )
}

fn names(filter: &Filter) -> Result<Vec<String>, Unknown> {
    let world = cloud().world();
    list(&world, filter).map(|found| found.iter().map(|it| it.name().to_owned()).collect())
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn every_filter_is_met() {
    let all = Filter::default;
    for (filter, expected) in [
        (all(), &["cn1", "n11", "cn2"][..]),
        (Filter { name: Some("n11".to_owned()), ..all() }, &["n11"]),
        (Filter { uuid: Some(uuid("cn2")), ..all() }, &["cn2"]),
        (Filter { uuid: Some(uuid("cn2")), in_tree: Some(uuid("cn1")), ..all() }, &[]),
        (Filter { in_tree: Some(uuid("n11")), ..all() }, &["cn1", "n11"]),
        (Filter { member_of: vec![vec![uuid("A")], vec![uuid("B")]], ..all() }, &["n11"]),
        (Filter { member_of: vec![vec![uuid("A"), uuid("C")]], ..all() }, &["cn1", "n11"]),
        (Filter { not_member_of: vec![uuid("A"), uuid("C")], ..all() }, &["cn2"]),
        (Filter { required: vec![strings(&["HW_X"])], ..all() }, &["cn1", "cn2"]),
        (
            Filter { required: vec![strings(&["HW_X", "HW_Z"]), strings(&["HW_Y"])], ..all() },
            &["cn2"],
        ),
        (Filter { forbidden: strings(&["HW_X"]), ..all() }, &["n11"]),
        (Filter { resources: vec![("VCPU".to_owned(), 5)], ..all() }, &["cn1"]),
        (
            Filter {
                resources: vec![("VCPU".to_owned(), 1), ("MEMORY_MB".to_owned(), 64)],
                ..all()
            },
            &["cn2"],
        ),
    ] {
        assert_eq!(names(&filter), Ok(strings(expected)), "{filter:?}");
    }
}

#[test]
fn an_unknown_name_is_refused_unless_the_list_is_empty_already() {
    let all = Filter::default;
    let class = || vec![("NO_CLASS".to_owned(), 1)];
    let traits = || vec![strings(&["NO_TRAIT"])];
    let unknown_class = Err(Unknown::Class("NO_CLASS".to_owned()));
    let unknown_trait = Err(Unknown::Traits(strings(&["NO_TRAIT"])));
    let empty = || Ok(Vec::new());
    for (filter, expected) in [
        (Filter { resources: class(), ..all() }, unknown_class.clone()),
        (Filter { required: traits(), resources: class(), ..all() }, unknown_trait.clone()),
        (
            Filter { forbidden: strings(&["NO_TRAIT"]), resources: class(), ..all() },
            unknown_trait.clone(),
        ),
        (Filter { in_tree: Some(uuid("nowhere")), required: traits(), ..all() }, empty()),
        (
            Filter {
                required: vec![strings(&["HW_Z"])],
                forbidden: strings(&["NO_TRAIT"]),
                ..all()
            },
            empty(),
        ),
        (
            Filter { forbidden: strings(&["NO_TRAIT"]), member_of: vec![vec![uuid("C")]], ..all() },
            unknown_trait,
        ),
        (Filter { member_of: vec![vec![uuid("C")]], resources: class(), ..all() }, empty()),
        (Filter { name: Some("nobody".to_owned()), resources: class(), ..all() }, unknown_class),
    ] {
        assert_eq!(names(&filter), expected, "{filter:?}");
    }
}

fn passes(rows: &[ProviderRow], row: &ProviderRow, filter: &Filter) -> bool {
    let catalogue = catalogue();
    let root = |uuid| rows.iter().find(|row| row.uuid == uuid).map(|row| row.root);
    let has = |name: &String| row.traits.iter().any(|id| catalogue.traits[id].name == *name);
    let fits = |name: &str, amount| {
        let mut classes = catalogue.classes.iter();
        let class: Option<ClassId> = classes.find(|(_, it)| it.name == name).map(|(id, _)| *id);
        row.inventories.iter().any(|it| Some(it.class) == class && it.terms.fits(it.used, amount))
    };
    filter.in_tree.is_none_or(|uuid| root(uuid) == Some(row.root))
        && filter.uuid.is_none_or(|uuid| row.uuid == uuid)
        && filter.member_of.iter().all(|any| any.iter().any(|it| row.aggregates.contains(it)))
        && !filter.not_member_of.iter().any(|it| row.aggregates.contains(it))
        && filter.required.iter().all(|any| any.iter().any(has))
        && !filter.forbidden.iter().any(has)
        && filter.resources.iter().all(|(name, amount)| fits(name, *amount))
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn the_list_is_of_those_that_pass(
        rows in rows(8),
        request in request(),
        one in prop::option::weighted(0.2, 1..12_i64),
    ) {
        let world = World::build(catalogue(), rows.clone());
        for group in request.groups {
            let filter = Filter {
                name: None,
                uuid: one.map(provider_uuid),
                in_tree: group.in_tree,
                member_of: group.member_of,
                not_member_of: group.not_member_of,
                required: group.required,
                forbidden: group.forbidden,
                resources: group.resources,
            };
            let Ok(found) = list(&world, &filter) else { continue };
            let mut expected: Vec<_> =
                rows.iter().filter(|row| passes(&rows, row, &filter)).map(|row| row.id).collect();
            expected.sort();
            prop_assert_eq!(found.iter().map(Provider::id).collect::<Vec<_>>(), expected);
        }
    }
}
