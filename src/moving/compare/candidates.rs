//! Questions for allocation candidates, made of what providers have: most of them have an answer.

use std::collections::{HashMap, HashSet};

use fastrand::Rng;
use serde_json::Value;

use super::pair::Pair;
use super::paths::path_of;
use crate::moving::placement_client::{Error, ListedProvider, Microversion};

/// Since this microversion, `in_tree` names a tree.
const IN_TREE: Microversion = Microversion(31);
/// The query of the list of sharing providers.
const SHARING: &str = "?required=MISC_SHARES_VIA_AGGREGATE";
/// The most classes in a question.
const CLASSES_MAX: usize = 3;

/// What a provider has.
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
    /// A provider in a tree, of which nothing is known yet.
    pub(super) fn new(root: &str) -> Self {
        Self { root: root.to_owned(), ..Self::default() }
    }

    /// Learns from the answer about inventories, traits or aggregates of the provider.
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

/// The spellings in which providers name aggregates.
///
/// OpenStack Placement keeps an aggregate for each spelling, and Berth keeps one for the UUID (U1 of
/// docs/differences.md). A question for an aggregate in several spellings has two right answers, and so has one for what
/// a sharing provider has in such an aggregate.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    /// The first spelling of each aggregate, by its UUID without what spellings differ in.
    first: HashMap<String, String>,
    /// The aggregates that have several.
    several: HashSet<String>,
    /// Resource classes that sharing providers have in these aggregates.
    shared_classes: HashSet<String>,
}

impl Spellings {
    /// Learns from the answer about the aggregates of a provider.
    pub(super) fn learn(&mut self, body: &Value) {
        for spelling in aggregates(body) {
            let first = self.first.entry(bare(spelling)).or_insert_with(|| spelling.to_owned());
            if first != spelling {
                self.several.insert(bare(spelling));
            }
        }
    }

    /// Reads which resource classes sharing providers have in aggregates with several spellings. Most clouds have no
    /// such aggregates.
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

    /// Learns from the answers about the aggregates and the inventories of a sharing provider.
    fn learn_of_sharing(&mut self, its_aggregates: &Value, inventories: &Value) {
        if aggregates(its_aggregates).any(|it| self.has_several(it)) {
            let classes = inventories.get("inventories").and_then(Value::as_object);
            self.shared_classes.extend(classes.into_iter().flat_map(|it| it.keys().cloned()));
        }
    }

    fn has_several(&self, aggregate: &str) -> bool {
        self.several.contains(&bare(aggregate))
    }

    /// A provider without what questions must not ask for.
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

/// A UUID without what spellings differ in.
fn bare(uuid: &str) -> String {
    uuid.replace('-', "").to_ascii_lowercase()
}

/// So many questions, which depend on the profiles, the spellings of aggregates and the seed alone; none if no profile
/// has an inventory.
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
    // Sometimes the resources come from a group of their own.
    let group = if random.u8(0..4) == 0 { "1" } else { "" };
    let resources = resources(profile, random);
    let mut query = format!("/allocation_candidates?resources{group}={resources}");
    let one_trait = random.choice(profile.traits.iter());
    let aggregate = random.choice(profile.aggregates.iter());
    // Few questions are for the whole cloud: these take long, and their answers are large.
    match random.u8(0..8) {
        0 => {}
        1 | 2 if one_trait.is_some() => {
            // In three of four cases, the trait is wanted.
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

/// An amount that an inventory allows, as far as its units allow any.
fn amount(inventory: &Inventory, random: &mut Rng) -> u64 {
    let step = inventory.step_size.max(1);
    let least = inventory.min_unit.max(1).div_ceil(step) * step;
    let most = inventory.max_unit.min(inventory.total).max(least);
    match random.u8(0..4) {
        // What is left may be less than this.
        0 => most / step * step,
        1 => least,
        _ => {
            // An eighth of what there is has often not been taken yet.
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
        // In two spellings, the aggregate is two to one service and one to the other, whoever names it.
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
