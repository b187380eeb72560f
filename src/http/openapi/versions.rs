//! Marks of microversions in schemas: `x-openstack` with `min-ver` and `max-ver`.

use serde_json::{Map, Value, json};

use crate::http::api::operation::{DescribedForm, VersionBounds};

/// The extension, as in the documents that OpenStack generates.
pub(super) const EXTENSION: &str = "x-openstack";

/// Returns the value of the extension; `None` without bounds.
pub(super) fn mark(bounds: &VersionBounds) -> Option<Value> {
    let members = [("min-ver", &bounds.first), ("max-ver", &bounds.last)];
    let members = members.into_iter().filter_map(|(name, version)| {
        version.as_ref().map(|version| (name.to_owned(), json!(version)))
    });
    let members: Map<String, Value> = members.collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

/// Adds the extension to an object, unless the bounds are empty.
pub(super) fn add_mark(object: &mut Map<String, Value>, bounds: &VersionBounds) {
    if let Some(mark) = mark(bounds) {
        object.insert(EXTENSION.to_owned(), mark);
    }
}

/// Marks the members of each form that the form before does not have, with the first version of the form.
pub(super) fn mark_new_members(forms: &mut [DescribedForm]) {
    for later in 1..forms.len() {
        let Some((before, rest)) = forms.split_at_mut_checked(later) else { continue };
        if let ([.., before], [form, ..]) = (before, rest)
            && let Some(first) = &form.versions.first
        {
            mark_new(&before.schema, &mut form.schema, first);
        }
    }
}

fn mark_new(before: &Value, now: &mut Value, first: &str) {
    let (Some(before), Some(now)) = (before.as_object(), now.as_object_mut()) else { return };
    for group in ["properties", "patternProperties"] {
        let known = before.get(group).and_then(Value::as_object);
        let members = now.get_mut(group).and_then(Value::as_object_mut);
        let (Some(known), Some(members)) = (known, members) else { continue };
        for (name, member) in members {
            match known.get(name) {
                Some(known) => {
                    mark_new(known, member, first);
                    if let (Some(mark), Some(member)) =
                        (known.get(EXTENSION), member.as_object_mut())
                    {
                        member.insert(EXTENSION.to_owned(), mark.clone());
                    }
                }
                None => {
                    if let Some(member) = member.as_object_mut() {
                        member.insert(EXTENSION.to_owned(), json!({ "min-ver": first }));
                    }
                }
            }
        }
    }
    if let (Some(known), Some(items)) = (before.get("items"), now.get_mut("items")) {
        mark_new(known, items, first);
    }
}

/// A parameter of a query in all versions that have it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VersionedParameter {
    pub(super) name: String,
    pub(super) versions: VersionBounds,
    /// Whether the latest of these versions require it.
    pub(super) is_required: bool,
    pub(super) schema: Value,
}

/// Parameters of a query, in the order in which versions added them, and the schema of the parameters whose names
/// have a pattern, if there are any.
pub(super) fn parameters(forms: &[DescribedForm]) -> (Vec<VersionedParameter>, Option<Value>) {
    let mut parameters: Vec<VersionedParameter> = Vec::new();
    for form in forms {
        for (name, schema) in named(&form.schema) {
            let is_required = is_required(&form.schema, &name);
            match parameters.iter_mut().find(|it| it.name == name) {
                Some(known) => {
                    known.schema = schema;
                    known.is_required = is_required;
                    known.versions.last.clone_from(&form.versions.last);
                }
                None => parameters.push(VersionedParameter {
                    name,
                    versions: form.versions.clone(),
                    is_required,
                    schema,
                }),
            }
        }
    }
    let last = forms.last().and_then(|form| form.schema.get("patternProperties"));
    (
        parameters,
        last.filter(|patterns| patterns.as_object().is_some_and(|it| !it.is_empty())).cloned(),
    )
}

/// Returns the parameters of a form with a fixed name. A pattern such as `^required(SUFFIX)?$` allows the name
/// without a suffix.
fn named(schema: &Value) -> Vec<(String, Value)> {
    let members = |group: &str| schema.get(group).and_then(Value::as_object).into_iter().flatten();
    let unsuffixed = members("patternProperties").filter_map(|(pattern, schema)| {
        let (name, _) = pattern.strip_prefix('^')?.split_once('(')?;
        Some((name.to_owned(), schema.clone()))
    });
    let plain = members("properties").map(|(name, schema)| (name.clone(), schema.clone()));
    plain.chain(unsuffixed).collect()
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|it| it == name))
}
