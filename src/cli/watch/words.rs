//! Formats events as text.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use crate::cli::page::Tone;
use crate::http::operator::views::events::{Event, Message, Notice};
use crate::store::events::{Change, ConsumerState, ProviderAllocations, ProviderState};

/// The names of providers.
pub(super) struct Names(pub(super) HashMap<Uuid, String>);

impl Names {
    /// The provider with a name.
    pub(super) fn uuid(&self, name: &str) -> Option<Uuid> {
        self.0.iter().find(|(_, known)| *known == name).map(|(uuid, _)| *uuid)
    }

    /// Updates the name of a provider from an event. A deleted provider keeps its name.
    pub(super) fn learn(&mut self, event: &Event) {
        if let Message::Change(Change::Provider { uuid, provider: Some(provider) }) = &event.message
        {
            self.0.insert(*uuid, provider.name.clone());
        }
    }

    fn of(&self, provider: Uuid) -> String {
        self.0.get(&provider).cloned().unwrap_or_else(|| provider.to_string())
    }
}

/// Returns whether an event concerns a provider, a consumer or a project.
pub(super) fn concerns(event: &Event, object: &str) -> bool {
    let is = |uuid: &Uuid| uuid.to_string().eq_ignore_ascii_case(object);
    match &event.message {
        Message::Change(Change::Provider { uuid, .. }) => is(uuid),
        Message::Change(Change::Consumer(ConsumerState {
            uuid,
            project_id,
            allocations,
            left,
            ..
        })) => is(uuid) || project_id == object || allocations.keys().chain(left.keys()).any(is),
        Message::Change(Change::Trait { .. } | Change::ResourceClass { .. }) => false,
        Message::Notice(notice) => matches!(notice, Notice::Gap { .. }),
    }
}

/// Formats an event as a line; `None` if it is not a change.
pub(super) fn line(event: &Event, names: &Names) -> Option<String> {
    let Message::Change(change) = &event.message else { return None };
    let what = match change {
        Change::Provider { uuid, provider: None } => {
            format!("provider {} was deleted", names.of(*uuid))
        }
        Change::Provider { provider: Some(now), .. } => provider(now, names),
        Change::Consumer(ConsumerState { uuid, consumer_generation: None, left, .. }) => {
            format!("consumer {uuid} released everything on {}", places(left, names))
        }
        Change::Consumer(ConsumerState { uuid, allocations, .. }) => {
            format!("consumer {uuid} holds {}", amounts(allocations, names))
        }
        Change::Trait { before, after } => named("trait", before.as_ref(), after.as_ref())?,
        Change::ResourceClass { before, after } => {
            named("resource class", before.as_ref(), after.as_ref())?
        }
    };
    let at = event.at.as_deref().and_then(|at| at.split(['T', '.']).nth(1));
    let by = [
        event.made_by.caller.as_ref().and_then(|caller| caller.user_id.as_deref()),
        event.made_by.request_id.as_deref(),
    ];
    let by: Vec<&str> = by.into_iter().flatten().collect();
    let by = if by.is_empty() { String::new() } else { format!("  ({})", by.join(", ")) };
    Some(format!("{}  {what}{by}", at.unwrap_or("        ")))
}

/// The colour of an event.
pub(super) fn tone(event: &Event) -> Tone {
    let Message::Change(change) = &event.message else { return Tone::Plain };
    match change {
        Change::Consumer(state) => Tone::of(state.consumer_generation.is_some()),
        Change::Provider { provider: None, .. }
        | Change::Trait { after: None, .. }
        | Change::ResourceClass { after: None, .. } => Tone::Bad,
        Change::Provider { .. } | Change::Trait { .. } | Change::ResourceClass { .. } => {
            Tone::Plain
        }
    }
}

fn provider(now: &ProviderState, names: &Names) -> String {
    let inventories: Vec<String> =
        now.inventories.iter().map(|(class, terms)| format!("{} {class}", terms.total)).collect();
    let mut parts = Vec::new();
    parts.extend(now.parent_provider_uuid.map(|parent| format!("below {}", names.of(parent))));
    if !inventories.is_empty() {
        parts.push(inventories.join(", "));
    }
    if !now.traits.is_empty() {
        parts.push(format!("traits {}", now.traits.join(", ")));
    }
    if !now.aggregates.is_empty() {
        parts.push(format!("aggregates {}", now.aggregates.join(", ")));
    }
    let what = if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") };
    format!("provider {} at generation {}: {what}", now.name, now.generation)
}

fn amounts(allocations: &BTreeMap<Uuid, ProviderAllocations>, names: &Names) -> String {
    let on = allocations.iter().map(|(provider, held)| {
        let amounts: Vec<String> =
            held.resources.iter().map(|(class, amount)| format!("{amount} {class}")).collect();
        format!("{} on {}", amounts.join(", "), names.of(*provider))
    });
    on.collect::<Vec<_>>().join("; ")
}

fn places(left: &BTreeMap<Uuid, i64>, names: &Names) -> String {
    left.keys().map(|provider| names.of(*provider)).collect::<Vec<_>>().join(", ")
}

fn named(kind: &str, before: Option<&String>, after: Option<&String>) -> Option<String> {
    Some(match (before, after) {
        (None, Some(after)) => format!("{kind} {after} was created"),
        (Some(before), None) => format!("{kind} {before} was deleted"),
        (Some(before), Some(after)) => format!("{kind} {before} is called {after}"),
        (None, None) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;
    use uuid::{Uuid, uuid};

    use super::{Names, concerns, line};
    use crate::http::operator::views::events::Event;

    const CN1: Uuid = uuid!("00000000-0000-0000-0000-000000000001");
    const CONSUMER: Uuid = uuid!("00000000-0000-0000-0000-0000000000c1");

    fn event(of: serde_json::Value) -> Event {
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn an_event_is_a_line() {
        let mut names = Names(HashMap::new());
        let provider = event(json!({
            "number": 1, "at": "2026-01-02T03:04:05.600000Z", "kind": "provider", "uuid": CN1,
            "provider": {
                "uuid": CN1, "name": "cn1", "generation": 2, "parent_provider_uuid": null,
                "root_provider_uuid": CN1, "traits": ["HW_X"], "aggregates": [],
                "inventories": {"VCPU": {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8,
                                         "step_size": 1, "allocation_ratio": 1.0}},
            },
            "request_id": "req-1", "caller": {"user_id": "nova", "project_id": "service"},
        }));
        let expected = "03:04:05  provider cn1 at generation 2: 8 VCPU; traits HW_X  (nova, req-1)";
        assert_eq!(line(&provider, &names).unwrap(), expected);
        names.learn(&provider);
        let claimed = event(json!({
            "number": 2, "at": "2026-01-02T03:04:06.600000Z", "kind": "consumer", "uuid": CONSUMER,
            "project_id": "p1", "user_id": "u1", "consumer_type": "INSTANCE",
            "consumer_generation": 1, "left": {},
            "allocations": {CN1.to_string(): {"generation": 3, "resources": {"VCPU": 2}}},
        }));
        let expected = format!("03:04:06  consumer {CONSUMER} holds 2 VCPU on cn1");
        assert_eq!(line(&claimed, &names).unwrap(), expected);
        for object in [CN1.to_string(), CONSUMER.to_string(), "p1".to_owned()] {
            assert!(concerns(&claimed, &object), "{object}");
        }
        assert!(!concerns(&claimed, "u1") && !concerns(&provider, "p1"));
        let released = event(json!({
            "number": 3, "kind": "consumer", "uuid": CONSUMER, "project_id": "p1", "user_id": "u1",
            "consumer_type": "INSTANCE", "consumer_generation": null, "allocations": {},
            "left": {CN1.to_string(): 3},
        }));
        let expected = format!("          consumer {CONSUMER} released everything on cn1");
        assert_eq!(line(&released, &names).unwrap(), expected);
    }
}
