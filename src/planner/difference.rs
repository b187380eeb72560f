//! Compares a request for a stack with the plan of the stack. A request that differs would change the plan, and
//! only `PUT /v1/plans/{plan}` changes plans.
//!
//! Names, metadata and instances of servers are not compared, because they do not affect the choice of hosts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use uuid::Uuid;

use super::draft::CurrentPlan;
use super::group::StoredGroup;
use super::ids::canonical;
use super::policy::words;
use super::template::{GroupEntry, GroupRef, RootDisk, ServerEntry, Sizing, Template};
use crate::model::PlacementPolicy;

/// A request for the plan of a stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackRequest {
    /// The servers and groups, and the volumes and pipes, which count only for plans with storage and bandwidth.
    pub(crate) template: Template,
    /// Hosts allowed for all servers; `None`: those of the plan if the stack has one; otherwise any.
    pub(crate) locations: Option<Vec<String>>,
    /// The order of valid placements, the best first.
    pub(crate) policy: PlacementPolicy,
}

/// The first difference between a plan and a request for its stack: a clause that names the server or the group,
/// its property, and both values. `None`: there is no difference. `locations` is not compared.
pub(super) fn first_difference(current: &CurrentPlan, request: &StackRequest) -> Option<String> {
    let template = &current.document.limited(request.template.clone());
    let comparison = Comparison { plan: current.plan.id, stored: StoredNames::of(&current.groups) };
    comparison
        .servers(&current.template, template)
        .or_else(|| comparison.groups(&current.template, template))
        .or_else(|| {
            let (before, now) = (current.document.policy(), request.policy);
            let values = || comparison.values("its policy is", words(before), words(now));
            (before != now).then(values)
        })
}

/// The names of stored groups, which requests reference by id or by name.
struct StoredNames<'s>(HashMap<Uuid, &'s str>);

impl<'s> StoredNames<'s> {
    fn of(groups: &'s [StoredGroup]) -> Self {
        Self(groups.iter().map(|group| (group.id, group.name.as_str())).collect())
    }

    fn name(&self, reference: &str) -> String {
        let by_id = Uuid::try_parse(reference).ok().and_then(|id| self.0.get(&id));
        by_id.map_or_else(|| reference.to_owned(), |name| (*name).to_owned())
    }
}

/// The side of an element that the other side lacks.
#[derive(Clone, Copy, Debug)]
enum Side {
    Plan(Uuid),
    Request(Uuid),
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(plan) => write!(f, "in plan {plan} and not in the request"),
            Self::Request(plan) => write!(f, "in the request and not in plan {plan}"),
        }
    }
}

/// Compares a plan with a request.
struct Comparison<'s> {
    plan: Uuid,
    stored: StoredNames<'s>,
}

impl Comparison<'_> {
    /// A clause about two values of the same property.
    fn values(&self, what: &str, before: impl fmt::Display, now: impl fmt::Display) -> String {
        format!("{what} {before} in plan {} and {now} in the request", self.plan)
    }

    /// The first element of only one of the two.
    fn only<T: Ord>(
        &self,
        before: impl IntoIterator<Item = T>,
        now: impl IntoIterator<Item = T>,
    ) -> Option<(T, Side)> {
        let (mut before, now): (BTreeSet<T>, BTreeSet<T>) =
            (before.into_iter().collect(), now.into_iter().collect());
        let new = now.into_iter().find(|element| !before.remove(element));
        // The remainder of `before` is in the plan only, unless the search ended at a new element.
        match new {
            Some(new) => Some((new, Side::Request(self.plan))),
            None => before.into_iter().next().map(|gone| (gone, Side::Plan(self.plan))),
        }
    }

    fn servers(&self, before: &Template, now: &Template) -> Option<String> {
        let was = before.by_key();
        if let Some((key, only)) = self.only(before.sorted_keys(), now.sorted_keys()) {
            let mut both = before.servers.iter().chain(&now.servers);
            let name = both.find(|server| server.key == key).map(|server| &server.name);
            return Some(format!("server '{}' is {only}", name?));
        }
        now.servers.iter().find_map(|now| self.server(was.get(now.key.as_str())?, now))
    }

    fn server(&self, before: &ServerEntry, now: &ServerEntry) -> Option<String> {
        let server = format!("server '{}'", now.name);
        let texts = |what: &str, before: &[String], now: &[String]| {
            let (text, only) = self.only(before, now)?;
            Some(format!("{server} {what} {text} {only}"))
        };
        let zone = |zone: &Option<String>| match zone {
            Some(zone) => format!("in zone '{zone}'"),
            None => "in no zone of its own".to_owned(),
        };
        let groups = |entry: &ServerEntry| -> Vec<String> {
            entry.groups.iter().map(|group| self.stored.name(group)).collect()
        };
        let kind = |entry: &ServerEntry| if entry.is_volume { "a volume" } else { "a server" };
        let other_kind = before.is_volume != now.is_volume;
        let what = format!("{server} is");
        other_kind
            .then(|| self.values(&what, kind(before), kind(now)))
            .or_else(|| self.sizing(&server, &before.sizing, &now.sizing))
            .or_else(|| {
                let list = |pipes: &[i64]| {
                    let pipes: Vec<String> = pipes.iter().map(i64::to_string).collect();
                    pipes.join(" and ")
                };
                let differs = before.pipes != now.pipes;
                let what = format!("{server} has pipes of kbps");
                differs.then(|| self.values(&what, list(&before.pipes), list(&now.pipes)))
            })
            .or_else(|| texts("requires", &before.required, &now.required))
            .or_else(|| texts("forbids", &before.forbidden, &now.forbidden))
            .or_else(|| texts("asks for", &before.demands.words(), &now.demands.words()))
            .or_else(|| {
                let differs = before.zone != now.zone;
                differs.then(|| {
                    self.values(&format!("{server} is"), zone(&before.zone), zone(&now.zone))
                })
            })
            .or_else(|| match (&before.locations, &now.locations) {
                (Some(before), Some(now)) => texts("may be on", before, now),
                (None, None) => None,
                (Some(_), None) => {
                    Some(format!("{server} has locations {}", Side::Plan(self.plan)))
                }
                (None, Some(_)) => {
                    Some(format!("{server} has locations {}", Side::Request(self.plan)))
                }
            })
            .or_else(|| texts("is in group", &groups(before), &groups(now)))
    }

    fn sizing(&self, server: &str, before: &Sizing, now: &Sizing) -> Option<String> {
        if before == now {
            return None;
        }
        let what = format!("{server} is");
        if let (Sizing::Resources(was), Sizing::Resources(is)) = (before, now) {
            let mut classes = was.keys().chain(is.keys());
            let class = classes.find(|class| was.get(*class) != is.get(*class))?;
            let amount = |amounts: &BTreeMap<String, i64>| match amounts.get(class) {
                Some(amount) => format!("of {class} {amount}"),
                None => format!("of no {class}"),
            };
            return Some(self.values(&what, amount(was), amount(is)));
        }
        let size = |sizing: &Sizing| match sizing {
            Sizing::Flavor(flavor, RootDisk::OnHost) => format!("of flavor '{flavor}'"),
            Sizing::Flavor(flavor, RootDisk::OnVolume) => {
                format!("of flavor '{flavor}' with its root disk on a volume")
            }
            Sizing::Resources(amounts) => {
                let amounts: Vec<String> =
                    amounts.iter().map(|(class, amount)| format!("{class} {amount}")).collect();
                format!("of {}", amounts.join(", "))
            }
        };
        Some(self.values(&what, size(before), size(now)))
    }

    fn groups(&self, before: &Template, now: &Template) -> Option<String> {
        let (was, is) = (self.shapes(before), self.shapes(now));
        if let Some((name, only)) = self.only(was.keys(), is.keys()) {
            return Some(format!("group '{name}' is {only}"));
        }
        let mut pairs = was.iter().filter_map(|(name, shapes)| Some((name, shapes, is.get(name)?)));
        pairs.find_map(|(name, was, is)| {
            if was.len() != is.len() {
                let what = format!("the resources named '{name}' that are groups are");
                return Some(self.values(&what, was.len(), is.len()));
            }
            was.iter().zip(is).find_map(|(was, is)| self.shape(name, was, is))
        })
    }

    fn shape(&self, name: &str, before: &Shape<'_>, now: &Shape<'_>) -> Option<String> {
        // Stored groups may be referenced by id or by name, and `name` is the name of either.
        let is_stored = |shape: &Shape<'_>| matches!(shape.which, GroupRef::Stored(_));
        if before.which != now.which && !(is_stored(before) && is_stored(now)) {
            return Some(format!(
                "group '{name}' is of another type, level or strictness in the request than in plan {}",
                self.plan
            ));
        }
        let (key, only) = self.only(before.members.keys(), now.members.keys())?;
        let member = before.members.get(key).or_else(|| now.members.get(key))?;
        Some(format!("{member} is in group '{name}' {only}"))
    }

    /// The groups of a template by their names, which several of them may share.
    fn shapes<'t>(&self, template: &'t Template) -> BTreeMap<String, Vec<Shape<'t>>> {
        let mut shapes: BTreeMap<String, Vec<Shape<'_>>> = BTreeMap::new();
        for entry in &template.groups {
            let shape = self.shape_of(entry, template);
            shapes.entry(self.group_name(entry)).or_default().push(shape);
        }
        for shapes in shapes.values_mut() {
            shapes.sort_by(|one, other| one.members.cmp(&other.members));
        }
        shapes
    }

    fn shape_of<'t>(&self, entry: &'t GroupEntry, template: &'t Template) -> Shape<'t> {
        let servers = entry.servers.iter().filter_map(|nth| template.servers.get(*nth));
        let servers = servers
            .map(|server| ((false, server.key.clone()), format!("server '{}'", server.name)));
        let groups = entry.groups.iter().filter_map(|nth| template.groups.get(*nth));
        let groups = groups.map(|group| {
            let name = self.group_name(group);
            ((true, name.clone()), format!("group '{name}'"))
        });
        Shape { which: &entry.which, members: servers.chain(groups).collect() }
    }

    /// The name of a stored group; otherwise the name of a group of the request.
    fn group_name(&self, entry: &GroupEntry) -> String {
        match &entry.which {
            GroupRef::Stored(reference) => self.stored.name(reference),
            GroupRef::Here(..) | GroupRef::Named(..) => canonical(&entry.name),
        }
    }
}

/// The compared properties of a group.
struct Shape<'t> {
    which: &'t GroupRef,
    /// The members, by whether they are groups and by their ids, with their names.
    members: BTreeMap<(bool, String), String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{StackRequest, first_difference};
    use crate::planner::document::Document;
    use crate::planner::draft::tests::current;

    fn resources() -> Value {
        let server =
            |properties: Value| json!({"type": "OS::Nova::Server", "properties": properties});
        let group = json!({
            "type": "OS::Valet::GroupAssignment", "name": "apart",
            "properties": {"group_type": "diversity", "resources": ["a", "b"]},
        });
        json!({
            "a": server(json!({"resources": {"VCPU": 4}})),
            "b": server(json!({"resources": {"VCPU": 1}, "required": ["HW_A", "HW_B"]})),
            "g": group,
        })
    }

    fn difference(change: impl FnOnce(&mut Value)) -> Option<String> {
        let list = |value: Value| -> Vec<(String, Value)> {
            value.as_object().unwrap().clone().into_iter().collect()
        };
        let plan = current(list(resources()));
        let mut changed = resources();
        change(&mut changed);
        let document =
            Document { resources: list(changed).into_iter().collect(), ..Document::default() };
        let template = document.template().unwrap();
        let request = StackRequest { template, ..StackRequest::default() };
        let id = plan.plan.id.to_string();
        first_difference(&plan, &request).map(|clause| clause.replace(&id, "X"))
    }

    #[test]
    fn the_same_request_does_not_differ() {
        assert_eq!(difference(|_| {}), None);
        let another_order = |it: &mut Value| {
            it["b"]["properties"]["required"] = json!(["HW_B", "HW_A"]);
            it["g"]["properties"]["resources"] = json!(["b", "a", "a"]);
        };
        assert_eq!(difference(another_order), None);
        // These do not affect the choice of hosts.
        let name = |it: &mut Value| it["a"]["metadata"] = json!({"owner": "me"});
        assert_eq!(difference(name), None);
    }

    #[test]
    fn a_difference_names_the_server_and_both_values() {
        let properties = |key: &'static str, value: Value| {
            difference(move |it| it["a"]["properties"][key] = value).unwrap()
        };
        assert_eq!(
            properties("resources", json!({"VCPU": 8})),
            "server 'a' is of VCPU 4 in plan X and of VCPU 8 in the request"
        );
        assert_eq!(
            properties("resources", json!({"VCPU": 4, "DISK_GB": 1})),
            "server 'a' is of no DISK_GB in plan X and of DISK_GB 1 in the request"
        );
        assert_eq!(
            properties("availability_zone", json!("az1")),
            "server 'a' is in no zone of its own in plan X and in zone 'az1' in the request"
        );
        assert_eq!(
            properties("required", json!(["HW_C"])),
            "server 'a' requires HW_C in the request and not in plan X"
        );
        assert_eq!(
            properties("metadata", json!({"valet": {"groups": ["gold"]}})),
            "server 'a' is in group gold in the request and not in plan X"
        );
        let locations = difference(|it| it["a"]["locations"] = json!(["h1"]));
        assert_eq!(locations.unwrap(), "server 'a' has locations in the request and not in plan X");
        let flavor = difference(|it| it["a"]["properties"] = json!({"flavor": "m1.small"}));
        assert_eq!(
            flavor.unwrap(),
            "server 'a' is of VCPU 4 in plan X and of flavor 'm1.small' in the request"
        );
    }

    #[test]
    fn a_difference_names_the_group() {
        let fewer = difference(|it| it["g"]["properties"]["resources"] = json!(["a"]));
        assert_eq!(
            fewer.unwrap(),
            "server 'b' is in group 'apart' in plan X and not in the request"
        );
        let kind = difference(|it| it["g"]["properties"]["group_type"] = json!("affinity"));
        assert_eq!(
            kind.unwrap(),
            "group 'apart' is of another type, level or strictness in the request than in plan X"
        );
        let none = difference(|it| drop(it.as_object_mut().unwrap().remove("g")));
        assert_eq!(none.unwrap(), "group 'apart' is in plan X and not in the request");
    }
}
