//! Generates requests for allocation candidates from the providers' data, so that most of them have results.

use std::collections::{HashMap, HashSet};

use fastrand::Rng;
use serde_json::Value;

use super::pair::Pair;
use super::paths::path_of;
use crate::moving::placement_client::{Error, ListedProvider, Microversion};

/// First microversion at which `in_tree` names a tree.
const IN_TREE: Microversion = Microversion(31);
/// Query for the sharing providers.
const SHARING: &str = "?required=MISC_SHARES_VIA_AGGREGATE";
/// Maximum number of classes in a request.
const CLASSES_MAX: usize = 3;

/// The data of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Profile {
    root: String,
    inventories: Vec<Inventory>,
    traits: Vec<String>,
    aggregates: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Inventory {
    class: String,
    total: u64,
    min_unit: u64,
    max_unit: u64,
    step_size: u64,
}

impl Profile {
    /// A provider of a tree, without data.
    pub(super) fn new(root: &str) -> Self {
        Self { root: root.to_owned(), ..Self::default() }
    }

    /// Adds the data of a response about the provider's inventories, traits or aggregates.
    pub(super) fn learn(&mut self, body: &Value) {
        let texts = |name: &str| -> Option<Vec<String>> {
            let values = body.get(name)?.as_array()?;
            let mut texts: Vec<String> =
                values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            texts.sort_unstable();
            Some(texts)
        };
        self.traits.extend(texts("traits").into_iter().flatten());
        self.aggregates.extend(texts("aggregates").into_iter().flatten());
        let inventories = body.get("inventories").and_then(Value::as_object);
        for (class, fields) in inventories.into_iter().flatten() {
            let field = |name: &str| fields.get(name).and_then(Value::as_u64);
            let units = (field("total"), field("min_unit"), field("max_unit"), field("step_size"));
            if let (Some(total), Some(min_unit), Some(max_unit), Some(step_size)) = units {
                let class = class.clone();
                self.inventories.push(Inventory { class, total, min_unit, max_unit, step_size });
            }
        }
        self.inventories.sort_unstable_by(|one, other| one.class.cmp(&other.class));
    }
}

/// The spellings of aggregates in the providers' data.
///
/// OpenStack Placement keeps an aggregate for each spelling, and Berth one for the UUID (U1 of docs/differences.md).
/// A request that names an aggregate with several spellings has two correct responses, and so has one for a resource
/// class that a sharing provider has in such an aggregate.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    /// The first spelling of each aggregate, by its normalized UUID.
    first: HashMap<String, String>,
    /// Aggregates with several spellings.
    several: HashSet<String>,
    /// Resource classes of sharing providers in these aggregates.
    shared_classes: HashSet<String>,
}

impl Spellings {
    /// Adds a response about the aggregates of a provider.
    pub(super) fn learn(&mut self, body: &Value) {
        for spelling in aggregates(body) {
            let first = self.first.entry(bare(spelling)).or_insert_with(|| spelling.to_owned());
            if first != spelling {
                self.several.insert(bare(spelling));
            }
        }
    }

    /// Reads the resource classes of sharing providers in aggregates with several spellings. Most clouds have no such
    /// aggregates.
    pub(super) async fn read_sharing(&mut self, pair: &Pair) -> Result<(), Error> {
        if self.several.is_empty() {
            return Ok(());
        }
        for client in [&pair.left, &pair.right] {
            let sharing: Vec<ListedProvider> = client.providers(SHARING, pair.version).await?;
            for provider in sharing {
                let of = |part| path_of("/resource_providers/", &provider.uuid, part);
                let (aggregates, inventories) = (of("/aggregates"), of("/inventories"));
                let aggregates = client.read(&aggregates, pair.version).await?;
                let inventories = client.read(&inventories, pair.version).await?;
                self.learn_of_sharing(&aggregates, &inventories);
            }
        }
        Ok(())
    }

    /// Adds the responses about the aggregates and the inventories of a sharing provider.
    fn learn_of_sharing(&mut self, its_aggregates: &Value, inventories: &Value) {
        if aggregates(its_aggregates).any(|it| self.has_several(it)) {
            let classes = inventories.get("inventories").and_then(Value::as_object);
            self.shared_classes.extend(classes.into_iter().flat_map(|it| it.keys().cloned()));
        }
    }

    fn has_several(&self, aggregate: &str) -> bool {
        self.several.contains(&bare(aggregate))
    }

    /// A copy of a profile without the data that would make a request ambiguous.
    fn without_ambiguous(&self, profile: &Profile) -> Profile {
        let mut profile = profile.clone();
        profile.inventories.retain(|it| !self.shared_classes.contains(&it.class));
        profile.aggregates.retain(|it| !self.has_several(it));
        profile
    }
}

fn aggregates(body: &Value) -> impl Iterator<Item = &str> {
    let list = body.get("aggregates").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// The normalized form of a UUID.
fn bare(uuid: &str) -> String {
    uuid.replace('-', "").to_ascii_lowercase()
}

/// Generates requests from the profiles, the spellings of aggregates and the seed alone; none if no profile has an
/// inventory.
pub(super) fn queries(
    profiles: &[Profile],
    spellings: &Spellings,
    count: usize,
    seed: u64,
    version: Microversion,
) -> Vec<String> {
    let mut random = Rng::with_seed(seed);
    let profiles = profiles.iter().map(|it| spellings.without_ambiguous(it));
    let usable: Vec<Profile> = profiles.filter(|it| !it.inventories.is_empty()).collect();
    let mut queries = Vec::new();
    while queries.len() < count {
        let Some(profile) = random.choice(usable.iter()) else { break };
        queries.push(query(profile, &mut random, version));
    }
    queries
}

fn query(profile: &Profile, random: &mut Rng, version: Microversion) -> String {
    // Some requests use a numbered group for the resources.
    let group = if random.u8(0..4) == 0 { "1" } else { "" };
    let resources = resources(profile, random);
    let mut query = format!("/allocation_candidates?resources{group}={resources}");
    let one_trait = random.choice(profile.traits.iter());
    let aggregate = random.choice(profile.aggregates.iter());
    // Few requests cover the whole cloud: these are slow, and have large responses.
    match random.u8(0..8) {
        0 => {}
        1 | 2 if one_trait.is_some() => {
            // Requires the trait in three of four cases, and forbids it in the fourth.
            let not = if random.u8(0..4) == 0 { "%21" } else { "" };
            let before = format!("&required{group}={not}");
            query.extend(one_trait.map(|name| path_of(&before, name, "")));
        }
        3 | 4 if aggregate.is_some() => {
            let before = format!("&member_of{group}=");
            query.extend(aggregate.map(|uuid| path_of(&before, uuid, "")));
        }
        _ if version >= IN_TREE => {
            query.push_str(&path_of(&format!("&in_tree{group}="), &profile.root, ""));
        }
        _ => {}
    }
    query
}

fn resources(profile: &Profile, random: &mut Rng) -> String {
    let most = profile.inventories.len().min(CLASSES_MAX);
    let count = random.usize(1..=most.max(1));
    let mut chosen = random.choose_multiple(profile.inventories.iter(), count);
    chosen.sort_unstable_by(|one, other| one.class.cmp(&other.class));
    let amounts: Vec<String> = chosen
        .into_iter()
        .map(|inventory| format!("{}%3A{}", inventory.class, amount(inventory, random)))
        .collect();
    amounts.join("%2C")
}

/// A random amount that the inventory allows, if its units allow any.
fn amount(inventory: &Inventory, random: &mut Rng) -> u64 {
    let step = inventory.step_size.max(1);
    let least = inventory.min_unit.max(1).div_ceil(step) * step;
    let most = inventory.max_unit.min(inventory.total).max(least);
    match random.u8(0..4) {
        // The remaining capacity may be less than this.
        0 => most / step * step,
        1 => least,
        _ => {
            // An eighth of the total is often still free.
            let steps = (most.saturating_sub(least) / step) / 8;
            least + random.u64(0..=steps) * step
        }
    }
    .max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Profile, Spellings, queries};
    use crate::moving::placement_client::Microversion;

    fn profile() -> Profile {
        let mut profile = Profile::new("root");
        let inventory = |total: u64, step: u64| json!({"total": total, "min_unit": 2, "max_unit": total, "step_size": step});
        profile.learn(
            &json!({"inventories": {"VCPU": inventory(64, 1), "DISK_GB": inventory(990, 10)}}),
        );
        profile.learn(&json!({"traits": ["HW_CPU_X86_AVX", "CUSTOM_A"]}));
        profile.learn(&json!({"aggregates": ["11111111-1111-4111-8111-111111111111"]}));
        profile
    }

    #[test]
    fn questions_depend_on_data_and_seed_alone() {
        let profiles = [profile(), Profile::new("empty")];
        let mut spellings = Spellings::default();
        let of = |seed| queries(&profiles, &spellings, 200, seed, Microversion(39));
        let found = of(7);
        assert_eq!((found.len(), &found), (200, &of(7)));
        assert_ne!(found, of(8));
        for part in ["&required=", "&required=%21", "&member_of", "&in_tree=root", "resources1="] {
            assert!(found.iter().any(|query| query.contains(part)), "{part}");
        }
        let amounts = found.iter().filter_map(|query| {
            let after = query.split("DISK_GB%3A").nth(1)?;
            after.split(['&', '%']).next()?.parse::<u64>().ok()
        });
        for amount in amounts {
            assert!(amount % 10 == 0 && (10..=990).contains(&amount), "{amount}");
        }
        let old = queries(&profiles, &spellings, 200, 7, Microversion(30));
        assert!(!old.iter().any(|query| query.contains("in_tree")));
        let empty = queries(&profiles[1..], &spellings, 200, 7, Microversion(39));
        assert_eq!(empty, Vec::<String>::new());
        // With two spellings, one service has two aggregates and the other has one.
        let aggregates = json!({"aggregates": ["11111111-1111-4111-8111-111111111111"]});
        spellings.learn(&aggregates);
        spellings.learn(&json!({"aggregates": ["11111111111141118111111111111111"]}));
        let member_of = |query: &String| query.contains("&member_of");
        let disk = |query: &String| query.contains("DISK_GB");
        let found = queries(&profiles, &spellings, 200, 7, Microversion(39));
        assert!(!found.iter().any(member_of) && found.iter().any(disk));
        spellings.learn_of_sharing(&aggregates, &json!({"inventories": {"DISK_GB": {}}}));
        let found = queries(&profiles, &spellings, 200, 7, Microversion(39));
        assert!(found.len() == 200 && !found.iter().any(disk));
    }
}
