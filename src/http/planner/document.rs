//! What a plan remembers of what was asked for: the resources as they were sent, and how large each
//! server was when its flavor was looked up, because flavors change and plans do not.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::problem::Problem;
use super::schema::Object;
use super::template::{self, ServerEntry, Sizing, Template};
use crate::model::Bug;
use crate::planner::flavor::{Flavor, Size};
use crate::planner::ids::canonical;

/// Bytes of what is stored of a plan at the most: its resources as they were sent, which each update
/// may add to, and how large its servers are.
pub(super) const DOCUMENT_MAX: usize = 4 << 20;

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
    pub(super) fn text(&self) -> Result<String, Bug> {
        serde_json::to_string(self).map_err(|error| unwritable(&error))
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

    /// Adds resources that are not there yet.
    pub(super) fn put_new(&mut self, resources: &Object) {
        let known: HashSet<String> = self.resources.keys().map(|id| canonical(id)).collect();
        let new = resources.iter().filter(|(id, _)| !known.contains(&canonical(id)));
        let new: Object = new.map(|(id, it)| (id.clone(), it.clone())).collect();
        self.put(&new);
    }

    /// Adds resources, or puts them in the place of those with the same ids.
    pub(super) fn put(&mut self, resources: &Object) {
        let known = self.resources.keys().map(|id| (canonical(id), id.clone()));
        let mut known: HashMap<String, String> = known.collect();
        for (id, resource) in resources {
            let known = known.entry(canonical(id)).or_insert_with(|| id.clone());
            self.resources.insert(known.clone(), resource.clone());
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
    ///
    /// # Errors
    /// 400: a flavor that does not exist, or more than is kept of one plan.
    pub(super) fn measure(
        &mut self,
        template: &Template,
        before: &Template,
        flavors: &[Flavor],
    ) -> Result<(), Problem> {
        let flavors = Flavors::of(flavors);
        let before = before.by_key();
        let mut sizes = BTreeMap::new();
        let mut bytes = 0;
        for server in &template.servers {
            let old = before.get(server.key.as_str());
            let old = old.filter(|old| asks_the_same(old, server));
            let known = old.and_then(|old| self.sizes.get(&old.key)).cloned();
            let size = known.map_or_else(|| flavors.size(server), Ok)?;
            // Before all are there: one flavor with many traits makes many servers large.
            bytes += least_bytes(&size);
            check_bytes(bytes)?;
            sizes.insert(server.key.clone(), size);
        }
        self.sizes = sizes;
        self.check_length()
    }

    /// Refuses to keep more of a plan than [`DOCUMENT_MAX`].
    ///
    /// # Errors
    /// 400.
    pub(super) fn check_length(&self) -> Result<(), Problem> {
        let mut length = Length(0);
        serde_json::to_writer(&mut length, self).map_err(|error| unwritable(&error))?;
        check_bytes(length.0)
    }
}

fn unwritable(error: &serde_json::Error) -> Bug {
    Bug::new(format!("a plan's document cannot be written: {error}"))
}

/// How many bytes have been written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check_bytes(bytes: usize) -> Result<(), Problem> {
    if bytes <= DOCUMENT_MAX {
        return Ok(());
    }
    Err(Problem::bad_request(format!(
        "Valet error: the plan is too large: with all of its resources and the sizes of its servers it \
         has more than {DOCUMENT_MAX} bytes"
    )))
}

/// Bytes of the names in a size.
fn least_bytes(size: &Size) -> usize {
    let names = size.needs.keys().chain(&size.required).chain(&size.forbidden);
    names.map(String::len).sum()
}

/// Whether two servers are to be equally large.
pub(super) fn asks_the_same(one: &ServerEntry, other: &ServerEntry) -> bool {
    (&one.sizing, &one.required, &one.forbidden)
        == (&other.sizing, &other.required, &other.forbidden)
}

/// Names and ids of the flavors that servers ask for, each once.
pub(super) fn flavors(template: &Template) -> Vec<String> {
    let flavor = |server: &ServerEntry| match &server.sizing {
        Sizing::Flavor(flavor) => Some(flavor.clone()),
        Sizing::Resources(_) => None,
    };
    let flavors: HashSet<String> = template.servers.iter().filter_map(flavor).collect();
    flavors.into_iter().collect()
}

/// Flavors as they are looked up.
struct Flavors<'f> {
    by_name: HashMap<&'f str, &'f Flavor>,
    by_id: HashMap<&'f str, &'f Flavor>,
}

impl<'f> Flavors<'f> {
    fn of(flavors: &'f [Flavor]) -> Self {
        Self {
            by_name: flavors.iter().map(|flavor| (flavor.name.as_str(), flavor)).collect(),
            by_id: flavors.iter().map(|flavor| (flavor.id.as_str(), flavor)).collect(),
        }
    }

    fn size(&self, server: &ServerEntry) -> Result<Size, Problem> {
        let wrong = |why: String| Problem::bad_request(format!("Valet error: {why}"));
        let mut size = match &server.sizing {
            Sizing::Resources(needs) => Size { needs: needs.clone(), ..Size::default() },
            Sizing::Flavor(asked) => {
                let flavor =
                    self.by_name.get(asked.as_str()).or_else(|| self.by_id.get(asked.as_str()));
                let flavor = flavor.ok_or_else(|| wrong(format!("flavor '{asked}' not found")))?;
                flavor.size().map_err(|why| wrong(format!("flavor '{asked}': {why}")))?
            }
        };
        size.required.extend(server.required.iter().cloned());
        size.forbidden.extend(server.forbidden.iter().cloned());
        let forbidden: HashSet<&String> = size.forbidden.iter().collect();
        if let Some(both) = size.required.iter().find(|it| forbidden.contains(it)) {
            return Err(wrong(format!("server '{}' requires and forbids {both}", server.name)));
        }
        for list in [&mut size.required, &mut size.forbidden] {
            list.sort_unstable();
            list.dedup();
        }
        Ok(size)
    }
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
