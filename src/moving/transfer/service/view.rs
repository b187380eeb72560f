//! Parses the responses of a placement service.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::snapshot::{Amounts, Consumer, Inventory, ProviderParts};

/// Placeholder for consumers without a type.
const NO_TYPE: &str = "unknown";

/// The names in a list of texts, or of objects with a name.
pub(super) fn names(body: &Value, list: &str) -> Result<Vec<String>, String> {
    let values = body.get(list).and_then(Value::as_array).ok_or_else(|| lacks(list))?;
    let name = |value: &Value| {
        let name = value.get("name").map_or(value, |name| name);
        name.as_str()
            .map(str::to_owned)
            .ok_or_else(|| format!("{list} has something without a name"))
    };
    values.iter().map(name).collect()
}

pub(super) fn usages(body: &Value) -> Result<Amounts, String> {
    let mut usages = amounts(body, "usages")?;
    usages.retain(|_, used| *used != 0);
    Ok(usages)
}

/// Parses a consumer; `None` if it has no allocations.
pub(super) fn consumer(body: &Value) -> Result<Option<Consumer>, String> {
    let allocations = object(body, "allocations")?;
    if allocations.is_empty() {
        return Ok(None);
    }
    let text = |name: &str| {
        body.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| lacks(name))
    };
    let holds: Result<BTreeMap<String, Amounts>, String> = allocations
        .iter()
        .map(|(provider, held)| Ok((provider.clone(), amounts(held, "resources")?)))
        .collect();
    let kind = body.get("consumer_type").and_then(Value::as_str).filter(|kind| *kind != NO_TYPE);
    // Absent before 1.28.
    let generation = body.get("consumer_generation").and_then(Value::as_i64);
    Ok(Some(Consumer {
        project: text("project_id")?,
        user: text("user_id")?,
        kind: kind.map(str::to_owned),
        generation: generation.map_or(0, |generation| generation),
        changed: None,
        holds: holds?,
    }))
}

/// Assembles a provider's parts from several responses.
#[derive(Debug, Default)]
pub(super) struct Reader {
    parts: ProviderParts,
    generations: Vec<i64>,
}

impl Reader {
    /// Parses the response for a part, named by the end of its path.
    pub(super) fn read(
        &mut self,
        part: &str,
        body: &Value,
        changed: Option<i64>,
    ) -> Result<(), String> {
        let parts = &mut self.parts;
        match part {
            "" => parts.changed = changed,
            "/inventories" => {
                let each = object(body, "inventories")?.iter();
                parts.inventories = each.map(inventory).collect::<Result<_, String>>()?;
                parts.inventories_changed = changed;
            }
            "/usages" => parts.usages = usages(body)?,
            "/aggregates" => parts.aggregates = names(body, "aggregates")?,
            "/traits" => parts.traits = names(body, "traits")?,
            _ => parts.consumers = object(body, "allocations")?.keys().cloned().collect(),
        }
        let name = if part.is_empty() { "generation" } else { "resource_provider_generation" };
        // Before 1.19, the response for aggregates has no generation.
        self.generations.extend(body.get(name).and_then(Value::as_i64));
        Ok(())
    }

    /// Returns the parts. The generation is known if all responses agree.
    pub(super) fn finish(self) -> ProviderParts {
        let first = self.generations.first().copied();
        let is_same = self.generations.iter().all(|it| Some(*it) == first);
        ProviderParts { generation: first.filter(|_| is_same), ..self.parts }
    }
}

fn inventory((class, fields): (&String, &Value)) -> Result<Inventory, String> {
    let field = |name: &str| {
        fields.get(name).and_then(Value::as_i64).ok_or_else(|| format!("{class} {}", lacks(name)))
    };
    let ratio = fields.get("allocation_ratio").filter(|it| it.is_number());
    Ok(Inventory {
        class: class.clone(),
        units: [
            field("total")?,
            field("reserved")?,
            field("min_unit")?,
            field("max_unit")?,
            field("step_size")?,
        ],
        allocation_ratio: ratio.ok_or_else(|| lacks("allocation_ratio"))?.to_string(),
    })
}

fn amounts(body: &Value, name: &str) -> Result<Amounts, String> {
    let amount = |(class, used): (&String, &Value)| {
        let used = used.as_i64().ok_or_else(|| format!("{name}: {class} is not an integer"))?;
        Ok((class.clone(), used))
    };
    object(body, name)?.iter().map(amount).collect()
}

fn object<'b>(body: &'b Value, name: &str) -> Result<&'b Map<String, Value>, String> {
    body.get(name).and_then(Value::as_object).ok_or_else(|| lacks(name))
}

fn lacks(name: &str) -> String {
    format!("the response lacks {name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Reader, consumer, names};

    #[test]
    fn a_consumer_has_what_its_version_tells() {
        let held = json!({"allocations": {"p": {"generation": 4, "resources": {"VCPU": 2}}},
                          "project_id": "q", "user_id": "u"});
        let read = consumer(&held).unwrap().unwrap();
        assert_eq!((read.generation, read.kind), (0, None));
        let mut new = held.clone();
        new["consumer_generation"] = json!(5);
        for (shown, kind) in [("unknown", None), ("INSTANCE", Some("INSTANCE"))] {
            new["consumer_type"] = json!(shown);
            let read = consumer(&new).unwrap().unwrap();
            assert_eq!((read.generation, read.kind.as_deref()), (5, kind));
        }
        assert_eq!(consumer(&json!({"allocations": {}})), Ok(None));
        let mut lacking = held;
        lacking.as_object_mut().unwrap().remove("user_id");
        assert_eq!(consumer(&lacking).unwrap_err(), "the response lacks user_id");
    }

    #[test]
    fn a_provider_that_changed_meanwhile_has_no_generation() {
        let mut reader = Reader::default();
        let mut other = Reader::default();
        let inventory = json!({"total": 10, "reserved": 0, "min_unit": 1, "max_unit": 10,
                               "step_size": 1, "allocation_ratio": 16.0});
        for (part, body) in [
            ("", json!({"generation": 3})),
            (
                "/inventories",
                json!({"inventories": {"VCPU": inventory}, "resource_provider_generation": 3}),
            ),
            ("/usages", json!({"usages": {"VCPU": 0}, "resource_provider_generation": 3})),
            ("/aggregates", json!({"aggregates": ["a"]})),
            ("/traits", json!({"traits": ["T"], "resource_provider_generation": 3})),
            ("/allocations", json!({"allocations": {"c": {}}, "resource_provider_generation": 3})),
        ] {
            reader.read(part, &body, Some(7)).unwrap();
            other.read(part, &body, None).unwrap();
        }
        let late = json!({"usages": {"VCPU": 1}, "resource_provider_generation": 4});
        other.read("/usages", &late, None).unwrap();
        let parts = reader.finish();
        assert_eq!((parts.generation, parts.changed), (Some(3), Some(7)));
        assert_eq!(parts.inventories[0].allocation_ratio, "16.0");
        assert!(parts.usages.is_empty() && parts.consumers.contains("c"));
        assert_eq!(other.finish().generation, None);
    }

    #[test]
    fn names_are_texts_or_in_objects() {
        assert_eq!(names(&json!({"traits": ["A"]}), "traits").unwrap(), ["A"]);
        let classes = json!({"resource_classes": [{"name": "VCPU", "links": []}]});
        assert_eq!(names(&classes, "resource_classes").unwrap(), ["VCPU"]);
        assert!(names(&json!({}), "traits").is_err());
        assert!(names(&json!({"traits": [1]}), "traits").is_err());
    }
}
