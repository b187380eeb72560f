//! Reads the properties of servers and groups.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::entries::{GroupRef, RootDisk, Sizing, wrong};
use crate::model::{GroupKind, Level, traits};
use crate::planner::group::listed;
use crate::planner::json::{NAME_MAX, read_text};
use crate::planner::rejection::Rejection;
use crate::solver::groups::Terms;

/// Maximum weight of a soft group.
const WEIGHT_MAX: u32 = 1_000;

/// The properties of a resource.
pub(super) struct Properties<'r> {
    /// The id of the resource.
    pub(super) id: &'r str,
    /// The properties.
    pub(super) properties: Map<String, Value>,
}

impl Properties<'_> {
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Rejection> {
        let value = self.properties.get(key).filter(|value| !value.is_null());
        value.map(|value| text(self.id, key, value)).transpose()
    }

    /// The text of the first key that is present.
    fn first_text(&self, [first, second]: [&str; 2]) -> Result<Option<String>, Rejection> {
        self.text(first)?.map_or_else(|| self.text(second), |text| Ok(Some(text)))
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, Rejection> {
        let list = self.properties.get(key).filter(|value| !value.is_null());
        list.map_or(Ok(Vec::new()), |list| texts(self.id, key, list))
    }

    /// The size of a server, as if its root disk were on the host.
    pub(super) fn sizing(&self) -> Result<Sizing, Rejection> {
        match self.properties.get("resources") {
            Some(Value::Object(amounts)) if !amounts.is_empty() => {
                return Ok(Sizing::Resources(self::amounts(self.id, amounts)?));
            }
            None | Some(Value::Null) => {}
            Some(_) => {
                return Err(wrong(self.id, "resources: not a dictionary of amounts by class"));
            }
        }
        // People write ids as numbers.
        if let Some(Value::Number(id)) = self.properties.get("flavor") {
            return Ok(Sizing::Flavor(id.to_string(), RootDisk::OnHost));
        }
        let flavor = self.text("flavor")?;
        let groups = self.properties.get("numbered_groups").and_then(Value::as_object);
        if flavor.is_none() && groups.is_some_and(|groups| !groups.is_empty()) {
            return Ok(Sizing::Resources(BTreeMap::new()));
        }
        let flavor = flavor.ok_or_else(|| wrong(self.id, "has neither flavor nor resources"))?;
        Ok(Sizing::Flavor(flavor, RootDisk::OnHost))
    }

    /// The resources that a pipe names.
    pub(super) fn references(&self) -> Result<Vec<String>, Rejection> {
        let list = self.properties.get("resources");
        references(self.id, list.ok_or_else(|| wrong(self.id, "has no resources"))?)
    }

    /// The size of a volume: GiB of storage.
    ///
    /// # Errors
    /// The reason why it is unknown.
    pub(super) fn volume_sizing(&self) -> Result<Sizing, String> {
        let size = self.properties.get("size").filter(|size| !size.is_null());
        let number = size.and_then(integer);
        let number = number.filter(|it| (1..=i64::from(i32::MAX)).contains(it));
        let number = number.ok_or("its size is not an integer number of GiB")?;
        Ok(Sizing::Resources([("DISK_GB".to_owned(), number)].into()))
    }

    /// The trait of backends for volumes of its type: `volume_type`, or formerly `metadata.tier`.
    pub(super) fn volume_type(&self) -> Result<Option<String>, Rejection> {
        let tier = self.properties.get("metadata").and_then(|metadata| metadata.get("tier"));
        let tier = tier.filter(|tier| !tier.is_null());
        let kind = match self.text("volume_type")? {
            None => tier.map(|tier| text(self.id, "metadata: tier", tier)).transpose()?,
            kind => kind,
        };
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        Ok(kind.filter(|kind| !kind.is_empty()).map(|kind| {
            let name: String = kind.chars().map(letter).collect();
            format!("{}{name}", traits::VOLUME_TYPE_PREFIX)
        }))
    }

    /// `metadata: {"valet": {"groups": [...]}}`
    pub(super) fn stored_groups(&self) -> Result<Vec<String>, Rejection> {
        let valet = self.properties.get("metadata").and_then(|metadata| metadata.get("valet"));
        let Some(list) = valet.and_then(|valet| valet.get("groups")) else { return Ok(Vec::new()) };
        let key = "metadata: valet: groups";
        // Metadata of servers are texts, so lists may be texts, too.
        match list.as_str() {
            Some(text) => listed(text).map_err(|fault| wrong(self.id, format!("{key}: {fault}"))),
            None => texts(self.id, key, list),
        }
    }

    /// The integer at a key.
    fn number(&self, key: &str, most: u32) -> Result<Option<u32>, String> {
        let value = self.properties.get(key).filter(|value| !value.is_null());
        let number = |value: &Value| {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            number.filter(|number| (1..=most).contains(number))
        };
        let wrong = || format!("{key}: not an integer from 1 to {most}");
        value.map(|value| number(value).ok_or_else(wrong)).transpose()
    }

    /// The conditions of a group besides its kind.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn terms(&self, which: &GroupRef) -> Result<Terms, String> {
        let kind = match which {
            GroupRef::Here(kind, ..) => *kind,
            GroupRef::Named(..) | GroupRef::Stored(_) => return self.no_terms(),
        };
        let is_soft = match self.properties.get("soft") {
            None | Some(Value::Null) => false,
            Some(value) => value.as_bool().ok_or("soft: not of type boolean")?,
        };
        let weight = self.number("weight", WEIGHT_MAX)?;
        let terms = Terms {
            soft: is_soft.then(|| weight.unwrap_or(1)),
            max_per_unit: self.number("max_per_unit", u32::MAX)?,
            max_skew: self.number("max_skew", u32::MAX)?,
        };
        let counts = terms.max_per_unit.is_some() || terms.max_skew.is_some();
        let fault = if weight.is_some() && !is_soft {
            "weight is for soft groups only"
        } else if counts && kind != GroupKind::Diversity {
            "max_per_unit and max_skew are for the group type diversity only"
        } else if counts && is_soft {
            "a soft group has neither max_per_unit nor max_skew"
        } else {
            return Ok(terms);
        };
        Err(fault.to_owned())
    }

    /// A stored group has no terms: it is the same for all plans that use it.
    fn no_terms(&self) -> Result<Terms, String> {
        let is_there = |key: &&&str| self.properties.get(**key).is_some_and(|it| !it.is_null());
        let term = ["soft", "weight", "max_per_unit", "max_skew"].iter().find(is_there);
        let fault = |term| format!("{term} is for groups of one plan, not for stored groups");
        term.map_or(Ok(Terms::default()), |term| Err(fault(term)))
    }

    /// The reference to the group, without its [terms](Self::terms).
    pub(super) fn which(&self) -> Result<GroupRef, Rejection> {
        if let Some(group) = self.text("group")? {
            return Ok(GroupRef::Stored(group));
        }
        let kind = self.first_text(["group_type", "relationship"])?;
        let kind =
            kind.ok_or_else(|| wrong(self.id, "Property 'group_type' must be specified."))?;
        let unknown = || wrong(self.id, format!("group_type '{kind}' is invalid."));
        let kind = GroupKind::named(&kind).ok_or_else(unknown)?;
        let level = self.text("level")?.map(|level| {
            let unknown = || {
                wrong(self.id, format!("level '{level}' is invalid: must be host, rack or cluster"))
            };
            Level::named(&level).ok_or_else(unknown)
        });
        let level = level.transpose()?;
        let name = self.first_text(["group_name", "name"])?;
        match (kind, name.filter(|name| !name.is_empty())) {
            (kind, Some(name)) => Ok(GroupRef::Named(kind, level, name)),
            (GroupKind::Exclusivity, None) => {
                Err(wrong(self.id, "group_name must be used when group_type is 'exclusivity'."))
            }
            (kind, None) => {
                Ok(GroupRef::Here(kind, level.unwrap_or(Level::Host), Terms::default()))
            }
        }
    }
}

/// An integer, as a number or as text.
pub(super) fn integer(value: &Value) -> Option<i64> {
    value.as_str().map_or_else(|| value.as_i64(), |text| text.trim().parse().ok())
}

/// Amounts by the name of their resource class.
pub(super) fn amounts(
    id: &str,
    amounts: &Map<String, Value>,
) -> Result<BTreeMap<String, i64>, Rejection> {
    let amount = |(class, amount): (&String, &Value)| {
        if class.chars().nth(NAME_MAX).is_some() {
            return Err(wrong(id, "resources: the name of a class is too long"));
        }
        let whole = amount.as_i64().filter(|it| (1..=i64::from(i32::MAX)).contains(it));
        let fault = || format!("resources: {class}: not an amount from 1 to 2147483647");
        Ok((class.clone(), whole.ok_or_else(|| wrong(id, fault()))?))
    };
    amounts.iter().map(amount).collect()
}

pub(super) fn texts(id: &str, key: &str, list: &Value) -> Result<Vec<String>, Rejection> {
    let list = list.as_array().ok_or_else(|| wrong(id, format!("{key}: not of type array")))?;
    list.iter().map(|value| text(id, key, value)).collect()
}

pub(super) fn text(id: &str, key: &str, value: &Value) -> Result<String, Rejection> {
    let text = read_text(value, NAME_MAX).map(str::to_owned);
    text.map_err(|fault| wrong(id, format!("{key}: {fault}")))
}

/// The id or name of a resource in a reference to it: a text, or `{"get_resource": TEXT}`.
pub(in crate::planner) fn reference(value: &Value) -> Option<&str> {
    referenced(value).as_str()
}

fn referenced(value: &Value) -> &Value {
    value.get("get_resource").unwrap_or(value)
}

/// The members of a group: ids or names, or `{"get_resource": id}`.
pub(super) fn references(id: &str, list: &Value) -> Result<Vec<String>, Rejection> {
    let list = list.as_array().ok_or_else(|| wrong(id, "resources: not of type array"))?;
    let reference = |value: &Value| {
        let wrong = |_| wrong(id, "resources: must be ids or names of resources");
        read_text(referenced(value), NAME_MAX).map(str::to_owned).map_err(wrong)
    };
    list.iter().map(reference).collect()
}
