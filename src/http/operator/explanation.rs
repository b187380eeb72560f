//! Views of explanations.

use super::views as view;
use crate::http::api::text::shortened;
use crate::search::explain::{Explained, Explanation};
use crate::search::funnel::{Closest, Condition, Limit, NearMiss};

/// Maximum length of a condition that is repeated for each near miss, in characters.
const NEAR_MISS_NAME_MAX: usize = 200;

/// Converts an explanation into its view.
pub(in crate::http) fn explained(explanation: &Explanation) -> view::Explanation {
    let conditions = &explanation.conditions;
    let name =
        |position: &usize| conditions.get(*position).map(|it| it.counted.condition.to_string());
    // Many hosts may miss the same condition, whose text may be as long as the query.
    let near_miss = |it: &NearMiss| {
        let (host, missing) = (it.host.clone(), it.missing);
        let condition = shortened(&name(&it.condition)?, NEAR_MISS_NAME_MAX);
        Some(view::NearMiss { host, condition, missing })
    };
    view::Explanation {
        providers: explanation.providers,
        hosts: explanation.hosts,
        complete: explanation.is_complete,
        fitting: explanation.fitting,
        undecided: explanation.undecided,
        conditions: conditions.iter().map(|it| condition(it, explanation.fitting)).collect(),
        conflict: explanation.conflict.as_ref().map(|conflict| view::Conflict {
            conditions: conflict.conditions.iter().filter_map(name).collect(),
            smallest: conflict.is_smallest,
        }),
        near_misses: view::NearMisses {
            count: explanation.near,
            hosts: explanation.near_misses.iter().filter_map(near_miss).collect(),
        },
    }
}

fn condition(explained: &Explained, fitting: usize) -> view::Condition {
    let Explained { counted, providers, left } = explained;
    let amount = if let Condition::Class { class, amount, .. } = &counted.condition {
        Some(view::Amount {
            resource_class: class.clone(),
            requested: *amount,
            without_inventory: counted.absent,
            closest: counted.most.as_ref().map(closest),
        })
    } else {
        None
    };
    view::Condition {
        condition: counted.condition.to_string(),
        kind: kind(&counted.condition).to_owned(),
        group: counted.condition.group().map(str::to_owned),
        providers: *providers,
        left: *left,
        ruled_out: counted.hosts,
        fitting_without: fitting + counted.only,
        amount,
    }
}

/// Converts the host that comes closest to an amount.
fn closest(it: &Closest) -> view::Closest {
    let shortage = it.shortage;
    let (limit, limit_value) = match shortage.limit {
        Limit::Free => ("free", None),
        Limit::MaxUnit(value) => ("max_unit", Some(value)),
        Limit::MinUnit(value) => ("min_unit", Some(value)),
        Limit::StepSize(value) => ("step_size", Some(value)),
    };
    view::Closest {
        host: it.host.clone(),
        available: shortage.available,
        capacity: shortage.capacity,
        used: shortage.used,
        total: shortage.total,
        reserved: shortage.reserved,
        limit: limit.to_owned(),
        limit_value,
    }
}

/// Returns the query parameter of a condition.
fn kind(condition: &Condition) -> &'static str {
    match condition {
        Condition::Class { .. } => "resources",
        Condition::Required { .. } | Condition::Forbidden { .. } => "required",
        Condition::MemberOf { .. } | Condition::NotMemberOf { .. } => "member_of",
        Condition::InTree { .. } => "in_tree",
        Condition::RootRequired(_) | Condition::RootForbidden(_) => "root_required",
        Condition::Group(_) => "group",
        Condition::Merge => "all_groups",
        Condition::Isolate => "group_policy",
        Condition::SameSubtree => "same_subtree",
        Condition::OnePerTree => "one_provider_per_tree",
    }
}
