//! Summarises a change from the states before and after.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::store::history::entry::HistoryEntry;

/// Maximum length of a summary, in characters.
const LENGTH_MAX: usize = 160;

/// Summarises a change. Providers are shown by their present names.
pub fn summary(entry: &HistoryEntry, names: &BTreeMap<Uuid, String>) -> String {
    let (before, after) = (entry.before.as_ref(), entry.after.as_ref());
    let mut parts = Vec::new();
    match (before, after) {
        (None, Some(_)) => parts.push("created:".to_owned()),
        (Some(_), None) => parts.push("deleted:".to_owned()),
        _ => {}
    }
    let (before, after) = (leaves(before, after, names), leaves(after, before, names));
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        match (before.get(key), after.get(key)) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => parts.push(format!("{key} {one} -> {other}")),
            (Some(one), None) => parts.push(format!("-{}", pair(key, one))),
            (None, Some(other)) => parts.push(format!("+{}", pair(key, other))),
            (None, None) => {}
        }
    }
    let text = parts.join(" ");
    if text.chars().nth(LENGTH_MAX).is_none() {
        return text;
    }
    text.chars().take(LENGTH_MAX).chain("...".chars()).collect()
}

fn pair(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}={value}") }
}

/// The values of a state, by place: `VCPU.total` of inventories, `VCPU@host` of allocations, the name of a trait. For
/// an inventory that the `other` state lacks, only the total.
fn leaves(
    state: Option<&Value>,
    other: Option<&Value>,
    names: &BTreeMap<Uuid, String>,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Some(Value::Object(fields)) = state else { return found };
    for (field, value) in fields {
        match (field.as_str(), value) {
            ("generation", _) | (_, Value::Null) => {}
            ("allocations", Value::Object(providers)) => allocations(&mut found, providers, names),
            ("inventories", Value::Object(classes)) => {
                for (class, terms) in classes {
                    let is_in_both =
                        other.and_then(|other| other.get("inventories")?.get(class)).is_some();
                    for (term, value) in terms.as_object().into_iter().flatten() {
                        if is_in_both || term == "total" {
                            found.insert(format!("{class}.{term}"), plain(value));
                        }
                    }
                }
            }
            (_, Value::Array(all)) => {
                found.extend(all.iter().map(|name| (plain(name), String::new())));
            }
            (field, value) => drop(found.insert(field.to_owned(), plain(value))),
        }
    }
    found
}

fn allocations(
    found: &mut BTreeMap<String, String>,
    providers: &Map<String, Value>,
    names: &BTreeMap<Uuid, String>,
) {
    for (provider, amounts) in providers {
        let name = Uuid::parse_str(provider).ok().and_then(|uuid| names.get(&uuid));
        for (class, amount) in amounts.as_object().into_iter().flatten() {
            found.insert(format!("{class}@{}", name.map_or(provider, |name| name)), plain(amount));
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::summary;
    use crate::store::history::entry::HistoryEntry;

    fn summarized(before: &Value, after: &Value, names: &[(Uuid, &str)]) -> String {
        let state = |state: &Value| (!state.is_null()).then(|| state.clone());
        let (before, after) = (state(before), state(after));
        let entry = HistoryEntry { before, after, ..HistoryEntry::default() };
        let names: BTreeMap<Uuid, String> =
            names.iter().map(|(uuid, name)| (*uuid, (*name).to_owned())).collect();
        summary(&entry, &names)
    }

    #[test]
    fn only_differences_are_described() {
        let (known, unknown) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let names = [(known, "host")];
        let inventories = |total| json!({"generation": total, "inventories": {"VCPU": {"total": total, "reserved": 0}}});
        assert_eq!(summarized(&inventories(8), &inventories(16), &names), "VCPU.total 8 -> 16");
        let none = json!({"generation": 1, "inventories": {}});
        assert_eq!(summarized(&inventories(8), &none, &names), "-VCPU.total=8");
        let traits = |all: Value| json!({"generation": 1, "traits": all});
        assert_eq!(summarized(&traits(json!(["A"])), &traits(json!(["B"])), &names), "-A +B");
        let amounts = |provider: Uuid, amount| json!({"generation": 1, "allocations": {provider.to_string(): {"VCPU": amount}}});
        assert_eq!(summarized(&Value::Null, &amounts(known, 2), &names), "created: +VCPU@host=2");
        assert_eq!(summarized(&amounts(known, 2), &amounts(known, 4), &names), "VCPU@host 2 -> 4");
        let moved = format!("-VCPU@host=2 +VCPU@{unknown}=2");
        let mut found: Vec<String> = summarized(&amounts(known, 2), &amounts(unknown, 2), &names)
            .split(' ')
            .map(str::to_owned)
            .collect();
        found.sort_by_key(|part| part.starts_with('+'));
        assert_eq!(found.join(" "), moved);
        let provider = |name| json!({"generation": 0, "name": name, "parent": null});
        assert_eq!(summarized(&provider("a"), &provider("b"), &names), "name a -> b");
        assert_eq!(summarized(&provider("a"), &Value::Null, &names), "deleted: -name=a");
    }

    #[test]
    fn much_is_cut_off() {
        let all: Vec<String> = (0..100).map(|nth| format!("CUSTOM_€{nth}")).collect();
        let text = summarized(&Value::Null, &json!({"traits": all}), &[]);
        assert_eq!(text.chars().count(), 163);
        assert!(text.ends_with("..."), "{text}");
    }
}
