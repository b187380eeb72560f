//! What a plan remembers of what was asked for: the resources as they were sent, and how large each
//! server was when its flavor was looked up, because flavors change and plans do not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::problem::Problem;
use super::schema::Object;
use super::template::{self, ServerEntry, Sizing, Template};
use crate::planner::flavor::{Flavor, Size};
use crate::planner::ids::{canonical, same};

/// What a plan was asked for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(super) struct Document {
    /// The resources, by the ids of the orchestrator.
    pub(super) resources: Object,
    /// The size of each server, by its id as it is compared.
    #[serde(with = "sizes")]
    pub(super) sizes: BTreeMap<String, Size>,
    /// Hosts that all servers may be on.
    pub(super) locations: Option<Vec<String>>,
    /// Whether servers are spread over hosts.
    pub(super) spread: bool,
}

impl Document {
    /// As it is stored.
    pub(super) fn text(&self) -> String {
        // Texts and numbers with text keys can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// From what is stored.
    pub(super) fn read(text: &str) -> Result<Self, Problem> {
        serde_json::from_str(text)
            .map_err(|error| Problem::internal(format!("a stored plan cannot be read: {error}")))
    }

    /// The resources, understood.
    pub(super) fn template(&self) -> Result<Template, Problem> {
        template::read(&self.resources)
    }

    /// Adds resources, or puts them in the place of those with the same ids.
    pub(super) fn put(&mut self, resources: &Object) {
        for (id, resource) in resources {
            let known = self.resources.keys().find(|known| same(known, id)).cloned();
            self.resources.insert(known.unwrap_or_else(|| id.clone()), resource.clone());
        }
    }

    /// Takes a server away, also from the groups it is in.
    pub(super) fn remove(&mut self, server: &ServerEntry) {
        self.resources.retain(|id, _| canonical(id) != server.key);
        self.sizes.remove(&server.key);
        let is_it = |reference: &Value| {
            let reference = reference.get("get_resource").unwrap_or(reference).as_str();
            reference.is_some_and(|it| canonical(it) == server.key || it == server.name)
        };
        let members = self.resources.values_mut().filter_map(Value::as_object_mut);
        for (_, properties) in members.flat_map(|resource| resource.iter_mut()) {
            let list = properties.get_mut("resources").and_then(Value::as_array_mut);
            if let Some(list) = list {
                list.retain(|reference| !is_it(reference));
            }
        }
    }

    /// Notes how large the servers of a template are. Those that ask for the same as `before` stay as
    /// large as they were.
    pub(super) fn measure(
        &mut self,
        template: &Template,
        before: &Template,
        flavors: &[Flavor],
    ) -> Result<(), Problem> {
        let mut sizes = BTreeMap::new();
        for server in &template.servers {
            let old = before.servers.iter().find(|it| it.key == server.key);
            let old = old.filter(|old| asks_the_same(old, server));
            let known = old.and_then(|old| self.sizes.get(&old.key)).cloned();
            let size = known.map_or_else(|| size(server, flavors), Ok)?;
            sizes.insert(server.key.clone(), size);
        }
        self.sizes = sizes;
        Ok(())
    }
}

/// Whether two servers are to be equally large.
pub(super) fn asks_the_same(one: &ServerEntry, other: &ServerEntry) -> bool {
    (&one.sizing, &one.required, &one.forbidden)
        == (&other.sizing, &other.required, &other.forbidden)
}

/// Names and ids of the flavors that servers ask for.
pub(super) fn flavors(template: &Template) -> Vec<String> {
    let flavor = |server: &ServerEntry| match &server.sizing {
        Sizing::Flavor(flavor) => Some(flavor.clone()),
        Sizing::Resources(_) => None,
    };
    template.servers.iter().filter_map(flavor).collect()
}

fn size(server: &ServerEntry, flavors: &[Flavor]) -> Result<Size, Problem> {
    let wrong = |why: String| Problem::bad_request(format!("Valet error: {why}"));
    let mut size = match &server.sizing {
        Sizing::Resources(needs) => Size { needs: needs.clone(), ..Size::default() },
        Sizing::Flavor(asked) => {
            let named = flavors.iter().find(|flavor| flavor.name == *asked);
            let flavor = named.or_else(|| flavors.iter().find(|flavor| flavor.id == *asked));
            let flavor = flavor.ok_or_else(|| wrong(format!("flavor '{asked}' not found")))?;
            flavor.size().map_err(|why| wrong(format!("flavor '{asked}': {why}")))?
        }
    };
    size.required.extend(server.required.iter().cloned());
    size.forbidden.extend(server.forbidden.iter().cloned());
    if let Some(both) = size.required.iter().find(|it| size.forbidden.contains(it)) {
        return Err(wrong(format!("server '{}' requires and forbids {both}", server.name)));
    }
    for list in [&mut size.required, &mut size.forbidden] {
        list.sort_unstable();
        list.dedup();
    }
    Ok(size)
}

/// How sizes are written.
mod sizes {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::planner::flavor::Size;

    #[derive(Deserialize, Serialize)]
    struct Written {
        needs: BTreeMap<String, i64>,
        required: Vec<String>,
        forbidden: Vec<String>,
    }

    pub(super) fn serialize<S: Serializer>(
        sizes: &BTreeMap<String, Size>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let written = |(key, size): (&String, &Size)| {
            let Size { needs, required, forbidden } = size.clone();
            (key.clone(), Written { needs, required, forbidden })
        };
        sizes.iter().map(written).collect::<BTreeMap<_, _>>().serialize(serializer)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, Size>, D::Error> {
        let written = BTreeMap::<String, Written>::deserialize(deserializer)?;
        let size = |(key, it): (String, Written)| {
            let Written { needs, required, forbidden } = it;
            (key, Size { needs, required, forbidden })
        };
        Ok(written.into_iter().map(size).collect())
    }
}
