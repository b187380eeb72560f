//! Invariants under all concurrent requests, read from the database in one snapshot.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use crate::requests::text;
use crate::site::Site;

/// Independent changes by clients, for which the planner is not responsible.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Consumers that took over what a server held, to migrate it.
    pub migrations: HashSet<Uuid>,
    /// Instances that were reserved in a stack, with the exclusivity groups of that.
    pub former: HashSet<(Uuid, Uuid)>,
    /// Placements whose holds were deleted as if they were anybody's.
    pub dropped: HashSet<Uuid>,
    /// Stacks of which servers have been reserved for instances, which go where they like.
    pub inhabited: HashSet<String>,
}

/// No inventory is overdrawn.
const CAPACITY: &str = "
    select format('%s: %s of class %s is used', p.name, i.used, i.class_id)
    from inventories i join providers p on p.id = i.provider_id
    where i.used > floor((i.total - i.reserved) * i.allocation_ratio)";

/// Every hold of a plan belongs to a placement.
const HOLDS_OF_NOBODY: &str = "
    select format('hold %s is of no placement', c.uuid)
    from consumers c join consumer_types t on t.id = c.consumer_type_id
    where t.name = 'VALET_PLAN' and not exists (select from placements p where p.consumer = c.uuid)";

/// Nothing is held for a placement beside its instance.
const COUNTED_TWICE: &str = "
    with own as (
        select p.id, p.root_id from providers p where not exists (
            select from provider_traits pt join traits t on t.id = pt.trait_id
            where pt.provider_id = p.id and t.name = 'MISC_SHARES_VIA_AGGREGATE')
    ), at as (
        select distinct c.uuid, own.root_id
        from consumers c join allocations a on a.consumer_id = c.id join own on own.id = a.provider_id
    )
    select format('placement %s is held beside %s, who took it over', p.id, p.consumer)
    from placements p join consumers c on c.uuid = p.id where p.consumer <> p.id
    union all
    select format('placement %s is held beside %s, who is there already', p.id, p.ticket)
    from placements p join at hold on hold.uuid = p.consumer
    join at instance on instance.uuid = p.ticket and instance.root_id = hold.root_id";

/// Exclusive units have no consumers outside their group. $1: see
/// [`Known::migrations`]; $2, $3: see [`Known::former`].
const STRANGERS: &str = "
    select distinct format('%s is on %s, which is kept for %s', c.uuid, r.name, e.group_id)
    from exclusive_units e join providers r on r.id = e.root_id
    join providers p on p.root_id = e.root_id
    join allocations a on a.provider_id = p.id join consumers c on c.id = a.consumer_id
    where c.uuid <> all($1) and not exists (
        select from placements s join placement_groups g on g.placement_id = s.id
        where g.group_id = e.group_id
          and (c.uuid in (s.consumer, s.ticket) or s.resource_key = c.uuid::text)
    ) and not exists (
        select from exclusive_tenants t where t.consumer = c.uuid and t.group_id = e.group_id
    ) and not exists (
        select from unnest($2::uuid[], $3::uuid[]) as f (consumer, group_id)
        where f.consumer = c.uuid and f.group_id = e.group_id)";

/// The trait is on those hosts that are kept, and on no other provider.
const TRAITS: &str = "
    with marked as (
        select pt.provider_id as id from provider_traits pt join traits t on t.id = pt.trait_id
        where t.name = 'CUSTOM_VALET_EXCLUSIVE'
    ), kept as (select distinct root_id as id from exclusive_units)
    select format('provider %s is marked, and not kept', id) from (table marked except table kept) as it
    union all
    select format('provider %s is kept, and not marked', id) from (table kept except table marked) as it";

/// Servers that plans hold a place for are in the stored groups that the plans name. The tests name
/// them with the server.
const MEMBERS: &str = "
    with requested as (
        select p.id, requested.name from placements p join plans s on s.id = p.plan_id,
               jsonb_array_elements_text(s.document::jsonb -> 'resources' -> p.orchestration_id
                   -> 'properties' -> 'metadata' -> 'valet' -> 'groups') as requested (name)
        where not p.leaving and p.consumer = p.id
          and exists (select from consumers c where c.uuid = p.id)
    ), joined as (
        select p.id, g.name from placements p join placement_groups pg on pg.placement_id = p.id
        join planner_groups g on g.id = pg.group_id
        where not p.leaving and p.consumer = p.id
          and exists (select from consumers c where c.uuid = p.id)
    )
    select format('placement %s is not in %s', id, name) from (table requested except table joined) as it
    union all
    select format('placement %s is in %s', id, name) from (table joined except table requested) as it";

/// Every placement without an instance has its hold. $1: see [`Known::dropped`].
const HELD: &str = "
    select format('nothing is held for placement %s', p.id) from placements p
    where p.consumer = p.id and p.id <> all($1)
      and not exists (select from consumers c where c.uuid = p.id)";

/// Where the holds of plans are, and whether they are no part of them any more.
const SPOTS: &str = "
    select distinct p.plan_id, p.orchestration_id, g.id, g.kind, coalesce(g.level, 'host'),
           r.name, coalesce(rack.name, ''),
           exists (select from exclusive_units e where e.root_id = r.id and e.group_id = g.id
                   and e.level = coalesce(g.level, 'host')),
           p.leaving
    from placements p
    join consumers c on c.uuid = p.id join allocations a on a.consumer_id = c.id
    join providers own on own.id = a.provider_id and not exists (
        select from provider_traits pt join traits t on t.id = pt.trait_id
        where pt.provider_id = own.id and t.name = 'MISC_SHARES_VIA_AGGREGATE')
    join providers r on r.id = own.root_id
    left join (select pt.provider_id, t.name from provider_traits pt join traits t
               on t.id = pt.trait_id where t.name like 'CUSTOM\\_RACK\\_%') rack
         on rack.provider_id = r.id
    left join placement_groups pg on pg.placement_id = p.id
    left join planner_groups g on g.id = pg.group_id
    where p.consumer = p.id";

type SpotRow = (Uuid, String, Option<Uuid>, Option<String>, String, String, String, bool, bool);

/// The host of a server that the planner placed.
#[derive(Clone, Debug)]
struct Spot {
    host: String,
    rack: String,
}

impl Spot {
    fn unit(&self, level: &str) -> &str {
        if level == "rack" { &self.rack } else { &self.host }
    }
}

/// Returns all violations, one sentence each. The known changes are read after the snapshot is taken: clients
/// record a change before they make it.
pub async fn faults(session: &mut PgConnection, known: impl FnOnce() -> Known) -> Vec<String> {
    let mut faults = berth::store::consistency::faults(session).await.unwrap();
    let mut snapshot = session.begin().await.unwrap();
    sqlx::query("set transaction isolation level repeatable read read only")
        .execute(&mut *snapshot)
        .await
        .unwrap();
    for question in [CAPACITY, HOLDS_OF_NOBODY, COUNTED_TWICE, MEMBERS, TRAITS] {
        let found = sqlx::query_scalar::<_, String>(question).fetch_all(&mut *snapshot).await;
        faults.extend(found.unwrap());
    }
    let known = known();
    let list = |set: &HashSet<Uuid>| set.iter().copied().collect::<Vec<_>>();
    let (instances, groups): (Vec<Uuid>, Vec<Uuid>) = known.former.iter().copied().unzip();
    let strangers = sqlx::query_scalar::<_, String>(STRANGERS)
        .bind(list(&known.migrations))
        .bind(instances)
        .bind(groups)
        .fetch_all(&mut *snapshot)
        .await;
    faults.extend(strangers.unwrap());
    let without = sqlx::query_scalar::<_, String>(HELD)
        .bind(list(&known.dropped))
        .fetch_all(&mut *snapshot)
        .await;
    faults.extend(without.unwrap());
    let spots: Vec<SpotRow> = sqlx::query_as(SPOTS).fetch_all(&mut *snapshot).await.unwrap();
    let plans: Vec<(Uuid, String, String, Vec<String>)> = sqlx::query_as(
        "select s.id, s.stack_id, s.document,
                array(select orchestration_id from placements p
                      where p.plan_id = s.id and not p.leaving order by position)
         from plans s",
    )
    .fetch_all(&mut *snapshot)
    .await
    .unwrap();
    snapshot.rollback().await.unwrap();
    faults.extend(stored_groups(&spots));
    let mut by_plan: HashMap<Uuid, BTreeMap<String, Spot>> = HashMap::new();
    for (plan, server, _, _, _, host, rack, ..) in spots.into_iter().filter(|spot| !spot.8) {
        by_plan.entry(plan).or_default().insert(server, Spot { host, rack });
    }
    for (id, stack, document, placements) in plans {
        let spots = by_plan.remove(&id).unwrap_or_default();
        let document: Value = serde_json::from_str(&document).unwrap();
        let whole = !known.inhabited.contains(&stack);
        faults.extend(plan(&stack, &document["resources"], &placements, &spots, whole));
    }
    faults
}

/// Checks the rules of stored groups on servers that the planner placed.
fn stored_groups(spots: &[SpotRow]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut taken: HashMap<(Uuid, String), String> = HashMap::new();
    for (plan, server, group, kind, level, host, rack, kept, _) in spots {
        let Some(group) = group else { continue };
        let spot = Spot { host: host.clone(), rack: rack.clone() };
        match kind.as_deref() {
            Some("exclusivity") if !kept => {
                faults.push(format!("{server} of {plan} is on {host}: not kept for {group}"));
            }
            Some("diversity") => {
                let unit = spot.unit(level).to_owned();
                let place = (*group, unit);
                let server = format!("{server} of {plan}");
                if let Some(other) = taken.insert(place.clone(), server.clone()) {
                    faults.push(format!("{server} and {other} of diversity group {place:?}"));
                }
            }
            _ => {}
        }
    }
    faults
}

/// That a plan has all its placements, and keeps the groups of its own.
fn plan(
    stack: &str,
    resources: &Value,
    placements: &[String],
    spots: &BTreeMap<String, Spot>,
    whole: bool,
) -> Vec<String> {
    let mut faults = Vec::new();
    let resources = resources.as_object().unwrap();
    let is = |entry: &Value, kind: &str| text(&entry["type"]).ends_with(kind);
    let is_placed = |it: &Value| is(it, "Server") || is(it, "Volume");
    let mut servers: Vec<&String> =
        resources.iter().filter(|(_, it)| is_placed(it)).map(|(id, _)| id).collect();
    let mut placed: Vec<&String> = placements.iter().collect();
    servers.sort_unstable();
    placed.sort_unstable();
    if servers != placed {
        faults.push(format!("{stack} asks for {servers:?} and has {placed:?}"));
    }
    for entry in resources.values().filter(|it| is(it, "Assignment")) {
        let properties = &entry["properties"];
        let members = properties["resources"].as_array().unwrap().iter().map(text);
        let at: Vec<&Spot> = members.filter_map(|id| spots.get(id)).collect();
        let units = at.iter().map(|it| it.unit(text(&properties["level"])));
        if breaks(text(&properties["group_type"]), properties, &units.collect::<Vec<_>>(), whole) {
            faults.push(format!("{stack} breaks {properties}: {at:?}"));
        }
    }
    for (id, entry) in resources.iter().filter(|(_, it)| is(it, "ServerGroup")) {
        let properties = &entry["properties"];
        let members = servers.iter().filter(|server| {
            resources[server.as_str()]["properties"]["scheduler_hints"]["group"] == id.as_str()
        });
        let at: Vec<&Spot> = members.filter_map(|id| spots.get(*id)).collect();
        let units: Vec<&str> = at.iter().map(|it| it.unit("host")).collect();
        let most = &properties["rules"]["max_server_per_host"];
        let terms = json!({"max_per_unit": most});
        let kind = match text(&properties["policies"][0]) {
            "anti-affinity" => "diversity",
            other => other,
        };
        if breaks(kind, &terms, &units, whole) {
            faults.push(format!("{stack} breaks {properties}: {at:?}"));
        }
    }
    faults
}

/// Whether servers in these units break a hard group. Whether a distribution is even depends on the domains
/// that there were when it was chosen, so it is not looked at.
fn breaks(kind: &str, terms: &Value, units: &[&str], whole: bool) -> bool {
    if terms["soft"] == true || terms["max_skew"].is_u64() {
        return false;
    }
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for unit in units {
        *counts.entry(unit).or_default() += 1;
    }
    match kind {
        "diversity" => {
            let most = terms["max_per_unit"].as_u64().unwrap_or(1);
            counts.values().any(|count| *count > most)
        }
        "affinity" => whole && counts.len() > 1,
        _ => false,
    }
}

impl Site {
    /// Fails unless all invariants hold, in this state and for these responses.
    pub async fn assert_true(&self, known: &Known) {
        let faults = faults(&mut self.session().await, || known.clone()).await;
        assert!(faults.is_empty(), "{faults:#?}");
        self.assert_answers_are_true().await;
    }

    /// Fails unless there are no allocations and no exclusive hosts.
    pub async fn assert_empty(&self) {
        self.assert_consistent().await;
        let left: Vec<String> = sqlx::query_scalar(
            "select format('%s holds something', uuid) from consumers
             union all select format('%s of %s is used', used, class_id) from inventories where used > 0
             union all select format('%s is kept for %s', unit, group_id) from exclusive_units
             union all select format('%s is a tenant of %s', consumer, group_id) from exclusive_tenants
             union all select 'a host is marked' from provider_traits pt join traits t
                       on t.id = pt.trait_id where t.name = 'CUSTOM_VALET_EXCLUSIVE'",
        )
        .fetch_all(&mut self.session().await)
        .await
        .unwrap();
        assert!(left.is_empty(), "{left:#?}");
    }

    /// Fails unless every plan names the host of each of its servers. Must be called while nothing changes.
    pub async fn assert_answers_are_true(&self) {
        let places: Vec<(Uuid, String, Option<String>)> = sqlx::query_as(
            "select p.plan_id, p.orchestration_id, min(r.name)
             from placements p left join consumers c on c.uuid = p.consumer
             left join allocations a on a.consumer_id = c.id
             left join providers own on own.id = a.provider_id and not exists (
                 select from provider_traits pt join traits t on t.id = pt.trait_id
                 where pt.provider_id = own.id and t.name = 'MISC_SHARES_VIA_AGGREGATE')
             left join providers r on r.id = own.root_id
             where not p.leaving group by 1, 2",
        )
        .fetch_all(&mut self.session().await)
        .await
        .unwrap();
        let mut plans: HashMap<Uuid, Value> = HashMap::new();
        for (plan, server, host) in places {
            if let std::collections::hash_map::Entry::Vacant(entry) = plans.entry(plan) {
                entry.insert(
                    self.admin().get(&format!("/v1/plans/{plan}")).await.expect(200).json(),
                );
            }
            let message = &plans[&plan]["placements"][&server]["location"];
            assert_eq!(message.as_str(), host.as_deref(), "{server} of {plan}");
        }
    }
}
