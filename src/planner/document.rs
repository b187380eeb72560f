//! The stored description of a plan: the resources as requested, and the size of each server when its flavor was
//! looked up, because plans do not change when flavors do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::demands::ProviderDemands;
use super::flavor::{Flavor, FlavorRules, Size};
use super::ids::canonical;
use super::json::Object;
use super::policy::{StoredLevel, StoredPolicy};
use super::rejection::Rejection;
use super::template::{self, RootDisk, ServerEntry, Sizing, Template};
use crate::model::{Bug, Goal, PlacementPolicy, traits};

/// Maximum size of the stored document, in bytes. Each update of a plan may add to it.
pub(crate) const DOCUMENT_MAX: usize = 4 << 20;

/// The stored description of a plan.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Document {
    /// The resources, by the ids of the orchestrator.
    pub(crate) resources: Object,
    /// The size of each server, by its canonical id.
    pub(crate) sizes: BTreeMap<String, Size>,
    /// The rules of each server's flavor besides the size, by the canonical id of the server. Servers without such
    /// rules are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) flavor_rules: BTreeMap<String, FlavorRules>,
    /// Whether volumes are placed: there was a storage backend when the plan was made or updated. Otherwise they
    /// are ignored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) volumes: bool,
    /// Whether pipes count: there was an inventory of bandwidth when the plan was made or updated. Otherwise they
    /// are ignored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) pipes: bool,
    /// The level at which attachments bind volumes to servers: that within which storage backends reached servers when
    /// the plan was made or updated. `None`: they reached all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attachment_level: Option<StoredLevel>,
    /// Hosts allowed for all servers.
    pub(crate) locations: Option<Vec<String>>,
    /// Whether the servers are spread, for versions without policies.
    pub(crate) spread: bool,
    /// The policy; versions without policies have stored none.
    pub(crate) policy: Option<StoredPolicy>,
}

impl Document {
    /// Creates a document of resources that have not been measured yet.
    pub(crate) fn new(
        resources: Object,
        locations: Option<Vec<String>>,
        policy: PlacementPolicy,
    ) -> Self {
        let mut document = Self { resources, locations, ..Self::default() };
        document.set_policy(policy);
        document
    }

    /// Sets the policy.
    pub(crate) fn set_policy(&mut self, policy: PlacementPolicy) {
        self.spread = policy.goal == Goal::Spread;
        self.policy = Some(StoredPolicy(policy));
    }

    /// The order of valid placements, the best first.
    pub(crate) fn policy(&self) -> PlacementPolicy {
        match self.policy {
            Some(StoredPolicy(policy)) => policy,
            None if self.spread => PlacementPolicy::of_hosts(Goal::Spread),
            None => PlacementPolicy::DEFAULT,
        }
    }

    /// The stored form.
    pub(crate) fn text(&self) -> Result<String, Bug> {
        serde_json::to_string(self).map_err(|error| unwritable(&error))
    }

    /// Parses the stored form.
    ///
    /// # Errors
    /// `Unreadable`.
    pub(crate) fn read(text: &str) -> Result<Self, Rejection> {
        serde_json::from_str(text).map_err(|error| Rejection::Unreadable(error.to_string()))
    }

    /// Parses the resources. The resources of a request have to be checked by [`Template::of_request`].
    ///
    /// # Errors
    /// `Invalid`, with the faulty resource.
    pub(crate) fn template(&self) -> Result<Template, Rejection> {
        Ok(self.limited(self.whole_template()?))
    }

    /// Like [`Self::template`], with the types of resources that this plan ignores.
    pub(crate) fn whole_template(&self) -> Result<Template, Rejection> {
        template::read(&self.resources)
    }

    /// Removes the types of resources that this plan ignores: volumes, attachments, pipes.
    pub(crate) fn limited(&self, template: Template) -> Template {
        let level = self.attachment_level.map(|StoredLevel(level)| level);
        let template = if self.volumes {
            template.with_attachments(level)
        } else {
            template.without_volumes()
        };
        if self.pipes { template } else { template.without_pipes() }
    }

    /// Adds resources that do not exist yet.
    pub(crate) fn put_new(&mut self, resources: &Object) {
        let known: HashSet<String> = self.resources.keys().map(|id| canonical(id)).collect();
        let new = resources.iter().filter(|(id, _)| !known.contains(&canonical(id)));
        let new: Object = new.map(|(id, it)| (id.clone(), it.clone())).collect();
        self.put(&new);
    }

    /// Adds resources, or replaces those with the same ids.
    pub(crate) fn put(&mut self, resources: &Object) {
        let known = self.resources.keys().map(|id| (canonical(id), id.clone()));
        let mut known: HashMap<String, String> = known.collect();
        for (id, resource) in resources {
            let known = known.entry(canonical(id)).or_insert_with(|| id.clone());
            self.resources.insert(known.clone(), resource.clone());
        }
    }

    /// Removes a server, including from its groups.
    pub(crate) fn remove(&mut self, server: &ServerEntry) {
        self.resources.retain(|id, _| canonical(id) != server.key);
        self.sizes.remove(&server.key);
        self.flavor_rules.remove(&server.key);
        let is_it = |reference: &Value| {
            template::reference(reference)
                .is_some_and(|it| canonical(it) == server.key || it == server.name)
        };
        let members = self.resources.values_mut().filter_map(Value::as_object_mut);
        for (_, properties) in members.flat_map(|resource| resource.iter_mut()) {
            let list = properties.get_mut("resources").and_then(Value::as_array_mut);
            if let Some(list) = list {
                list.retain(|reference| !is_it(reference));
            }
        }
    }

    /// Stores the sizes and rules of the flavors of the servers of a template. Servers with the same request as in
    /// `before` keep them.
    ///
    /// # Errors
    /// `Invalid`: a flavor does not exist, or the document is too large.
    pub(crate) fn measure(
        &mut self,
        template: &Template,
        before: &Template,
        flavors: &[Flavor],
    ) -> Result<(), Rejection> {
        let flavors = Flavors::of(flavors);
        let before = before.by_key();
        let (mut sizes, mut all_rules) = (BTreeMap::new(), BTreeMap::new());
        let mut bytes = 0;
        for server in &template.servers {
            let old = before.get(server.key.as_str());
            let old = old.filter(|old| asks_the_same(old, server));
            let known = old.and_then(|old| self.sizes.get_key_value(&old.key));
            let (size, rules) = match known {
                Some((key, size)) => (size.clone(), self.flavor_rules.get(key).cloned()),
                None => (flavors.size(server)?, flavors.rules(server)?),
            };
            // Checked in the loop, because many servers may have one flavor with many traits.
            bytes += least_bytes(&size, rules.as_ref());
            check_bytes(bytes)?;
            sizes.insert(server.key.clone(), size);
            all_rules.extend(rules.map(|rules| (server.key.clone(), rules)));
        }
        self.sizes = sizes;
        self.flavor_rules = all_rules;
        self.check_length()
    }

    /// Checks that the document does not exceed [`DOCUMENT_MAX`].
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check_length(&self) -> Result<(), Rejection> {
        let mut length = Length(0);
        serde_json::to_writer(&mut length, self).map_err(|error| unwritable(&error))?;
        check_bytes(length.0)
    }
}

fn unwritable(error: &serde_json::Error) -> Bug {
    Bug::new(format!("a plan's document cannot be written: {error}"))
}

/// Number of bytes written.
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

fn check_bytes(bytes: usize) -> Result<(), Rejection> {
    if bytes <= DOCUMENT_MAX {
        return Ok(());
    }
    Err(Rejection::Invalid(format!(
        "the plan is too large: with all of its resources and the sizes of its servers it \
         has more than {DOCUMENT_MAX} bytes"
    )))
}

/// A lower bound of the bytes of a size and of the rules of a flavor: their names.
fn least_bytes(size: &Size, rules: Option<&FlavorRules>) -> usize {
    let names = size.needs.keys().chain(&size.required).chain(&size.forbidden);
    let of_flavor = rules.into_iter().flat_map(|rules| {
        rules.groups.iter().chain(rules.aggregates.iter().flat_map(|(key, value)| [key, value]))
    });
    let words = size.demands.words();
    names.chain(of_flavor).chain(&words).map(String::len).sum()
}

/// Returns whether two servers request the same size.
pub(crate) fn asks_the_same(one: &ServerEntry, other: &ServerEntry) -> bool {
    (&one.sizing, &one.required, &one.forbidden, &one.demands, one.is_volume, &one.pipes)
        == (
            &other.sizing,
            &other.required,
            &other.forbidden,
            &other.demands,
            other.is_volume,
            &other.pipes,
        )
}

/// Names and ids of the flavors that servers request, each once.
pub(crate) fn flavors(template: &Template) -> Vec<String> {
    let flavor = |server: &ServerEntry| match &server.sizing {
        Sizing::Flavor(flavor, _) => Some(flavor.clone()),
        Sizing::Resources(_) => None,
    };
    let flavors: HashSet<String> = template.servers.iter().filter_map(flavor).collect();
    flavors.into_iter().collect()
}

/// Flavors by name and by id.
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

    fn find(&self, name: &str) -> Result<&'f Flavor, Rejection> {
        let flavor = self.by_name.get(name).or_else(|| self.by_id.get(name)).copied();
        flavor.ok_or_else(|| Rejection::Invalid(format!("flavor '{name}' not found")))
    }

    /// The rules of the server's flavor besides the size, if there are any.
    fn rules(&self, server: &ServerEntry) -> Result<Option<FlavorRules>, Rejection> {
        let Sizing::Flavor(name, _) = &server.sizing else { return Ok(None) };
        let rules = self.find(name)?.rules();
        let rules = rules.map_err(|why| Rejection::Invalid(format!("flavor '{name}': {why}")))?;
        Ok(Some(rules).filter(|rules| *rules != FlavorRules::default()))
    }

    fn size(&self, server: &ServerEntry) -> Result<Size, Rejection> {
        let wrong = Rejection::Invalid;
        let mut size = match &server.sizing {
            Sizing::Resources(needs) => Size { needs: needs.clone(), ..Size::default() },
            Sizing::Flavor(name, root_disk) => {
                let flavor = self.find(name)?;
                let size = match root_disk {
                    RootDisk::OnHost => flavor.size(),
                    RootDisk::OnVolume => flavor.without_root_disk().size(),
                };
                size.map_err(|why| wrong(format!("flavor '{name}': {why}")))?
            }
        };
        size.required.extend(server.required.iter().cloned());
        size.forbidden.extend(server.forbidden.iter().cloned());
        if server.is_volume {
            size.root_required.push(traits::STORAGE.to_owned());
        }
        let demands = size.demands.add(&server.demands).and_then(|()| size.demands.check());
        let demands = demands.and_then(|()| size.demands.add_pipes(&server.pipes));
        demands.map_err(|why| wrong(format!("server '{}': {why}", server.name)))?;
        let is_free = size.required.is_empty()
            && size.forbidden.is_empty()
            && size.demands.providers == ProviderDemands::default();
        if size.needs.is_empty() && !size.demands.groups.is_empty() && !is_free {
            let name = &server.name;
            return Err(wrong(format!(
                "server '{name}': traits, aggregates and trees outside of numbered groups require resources outside of them"
            )));
        }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DOCUMENT_MAX, Document};
    use crate::model::{Goal, PlacementPolicy};
    use crate::planner::flavor::Flavor;
    use crate::planner::json::Object;
    use crate::planner::rejection::Rejection;
    use crate::planner::template::Template;

    fn object(value: Value) -> Object {
        serde_json::from_value(value).unwrap()
    }

    fn server(flavor: &str) -> Value {
        json!({"type": "OS::Nova::Server", "properties": {"flavor": flavor}})
    }

    fn flavor(vcpus: i32) -> Flavor {
        let (id, name) = ("1".to_owned(), "m1".to_owned());
        Flavor { id, name, vcpus, ram_mb: 1024, ..Flavor::default() }
    }

    fn measured(mut document: Document, before: &Template, vcpus: i32) -> Document {
        let template = document.template().unwrap();
        document.measure(&template, before, &[flavor(vcpus)]).unwrap();
        document
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let resources = object(json!({"a": server("m1")}));
        let document =
            measured(Document { resources, ..Document::default() }, &Template::default(), 2);
        assert_eq!(Document::read(&document.text().unwrap()), Ok(document.clone()));
        // Versions without policies have stored whether servers are spread.
        for (spread, goal) in [(false, Goal::Pack), (true, Goal::Spread)] {
            let old = Document { spread, ..document.clone() };
            let text = old.text().unwrap().replace(r#","policy":null"#, "");
            let policy = Document::read(&text).unwrap().policy();
            assert_eq!(policy, PlacementPolicy::of_hosts(goal));
        }
        assert!(matches!(Document::read("{"), Err(Rejection::Unreadable(_))));
    }

    #[test]
    fn a_server_keeps_its_size_when_its_flavor_changes() {
        let resources = object(json!({"a": server("m1")}));
        let old = measured(Document { resources, ..Document::default() }, &Template::default(), 2);
        let before = old.template().unwrap();
        let mut new = old.clone();
        new.put(&object(json!({"b": server("m1")})));
        let new = measured(new, &before, 4);
        assert_eq!((new.sizes["a"].needs["VCPU"], new.sizes["b"].needs["VCPU"]), (2, 4));
    }

    #[test]
    fn resources_are_found_by_their_ids_in_any_spelling() {
        let id = "5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901";
        let mut document = Document::default();
        document.put(&object(json!({id: server("m1")})));
        document.put_new(&object(json!({(id.replace('-', "")): server("m2"), "b": server("m2")})));
        assert_eq!(document.resources[id], server("m1"));
        document.put(&object(json!({(id.to_uppercase()): server("m2")})));
        assert_eq!((document.resources.len(), &document.resources[id]), (2, &server("m2")));
    }

    #[test]
    fn a_server_is_removed_from_its_groups_too() {
        let group = json!({"type": "OS::Valet::GroupAssignment", "properties": {
            "group_type": "affinity", "resources": ["a", {"get_resource": "a"}, "b"],
        }});
        let resources = json!({"a": server("m1"), "b": server("m1"), "g": group});
        let mut document = Document { resources: object(resources), ..Document::default() };
        let template = document.template().unwrap();
        document.remove(&template.servers[0]);
        assert_eq!(document.resources["g"]["properties"]["resources"], json!(["b"]));
        assert_eq!(document.template().unwrap().servers.len(), 1);
    }

    #[test]
    fn it_is_bounded() {
        let resources = object(json!({"a": "x".repeat(DOCUMENT_MAX)}));
        let document = Document { resources, ..Document::default() };
        assert!(matches!(document.check_length(), Err(Rejection::Invalid(_))));
    }
}
