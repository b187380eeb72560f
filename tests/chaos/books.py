"""What the database itself says of sums, capacity and exclusive units, in one snapshot each."""

import asyncio
import json
import time

from databases import Node, Unavailable
from history import OK, History, Operation
from world import MARKED, World

# Every sentence is a violation. `used` is what Berth keeps beside the allocations.
CHECKS = """
with sums as (
    select p.uuid, c.name, i.total, i.reserved, i.allocation_ratio, i.used,
           coalesce((select sum(a.used) from allocations a
                      where a.provider_id = i.provider_id and a.class_id = i.class_id), 0) as held
      from inventories i
      join providers p on p.id = i.provider_id
      join resource_classes c on c.id = i.class_id
     where p.uuid = any({providers})
), strangers as (
    select p.name as host, g.name as owner, c.uuid as consumer
      from exclusive_units e
      join planner_groups g on g.id = e.group_id
      join providers p on p.root_id = e.root_id
      join (select distinct consumer_id, provider_id from allocations) a on a.provider_id = p.id
      join consumers c on c.id = a.consumer_id
     where p.uuid = any({providers})
       and not exists (select from placements m join placement_groups mg on mg.placement_id = m.id
                        where mg.group_id = e.group_id and c.uuid in (m.consumer, m.ticket, m.id))
       and not exists (select from exclusive_tenants t
                        where t.group_id = e.group_id and t.consumer = c.uuid)
), together as (
    select p.name as host, array_agg(distinct g.name) as groups
      from placements m
      join placement_groups mg on mg.placement_id = m.id
      join planner_groups g on g.id = mg.group_id and g.kind = 'exclusivity'
      join consumers c on c.uuid = m.consumer
      join allocations a on a.consumer_id = c.id
      join providers p on p.id = a.provider_id
     where p.uuid = any({providers})
     group by p.name having count(distinct g.id) > 1
)
select json_build_object(
    'oversold', (select coalesce(json_agg(format('%s of %s %s are allocated on %s', held, total, name, uuid)), '[]')
                   from sums where held > (total - reserved) * allocation_ratio),
    'sums', (select coalesce(json_agg(format('%s %s are counted on %s, %s allocated', used, name, uuid, held)), '[]')
               from sums where held <> used),
    'shared', (select coalesce(json_agg(words), '[]') from (
        select format('%s is on %s, which is kept for %s', consumer, host, owner) as words from strangers
        union all select format('%s has servers of %s', host, groups) from together) as both_)
)
"""

# The whole state of the providers and of all that hold something of them, and the plans.
STATE = """
select json_build_object(
    'plans', (select coalesce(json_object_agg(stack_id, id), '{{}}') from plans where project = any({projects})),
    'totals', (select coalesce(json_object_agg(project, totals), '{{}}') from (
        select project, json_object_agg(name, held) as totals from (
            select o.external_id as project, r.name, sum(a.used) as held
              from allocations a join consumers c on c.id = a.consumer_id
              join projects o on o.id = c.project_id join resource_classes r on r.id = a.class_id
             where o.external_id = any({projects}) group by 1, 2) as sums group by 1) as all_),
    'used', (select coalesce(json_object_agg(uuid, used), '{{}}') from (
        select p.uuid, json_object_agg(r.name, i.used) as used
          from inventories i join providers p on p.id = i.provider_id
          join resource_classes r on r.id = i.class_id
         where p.uuid = any({providers}) group by 1) as all_),
    'providers', (select coalesce(json_object_agg(p.uuid, json_build_object(
            'generation', p.generation,
            'mark', (select case when min(max_unit) = max(max_unit) then min(max_unit) - {marked} end
                       from inventories i where i.provider_id = p.id),
            'traits', (select coalesce(json_agg(t.name order by t.name), '[]')
                         from provider_traits pt join traits t on t.id = pt.trait_id
                        where pt.provider_id = p.id and t.name like 'CUSTOM_CHAOS_%')
        )), '{{}}') from providers p where p.uuid = any({providers})),
    'consumers', (select coalesce(json_object_agg(c.uuid, json_build_object(
            'generation', c.generation, 'tag', u.external_id,
            'allocations', (select json_object_agg(uuid, resources) from (
                select p.uuid, json_object_agg(r.name, a.used) as resources
                  from allocations a join providers p on p.id = a.provider_id
                  join resource_classes r on r.id = a.class_id
                 where a.consumer_id = c.id group by p.uuid) as held)
        )), '{{}}') from consumers c join users u on u.id = c.user_id
        where c.id in (select consumer_id from allocations a join providers p on p.id = a.provider_id
                        where p.uuid = any({providers})))
)
"""


async def watch(primary, world: World, history: History, until: asyncio.Event) -> None:
    """Look at the sums about every second, at whoever is the primary. While it is away, wait."""
    while not until.is_set():
        await look(primary(), world, history)
        await asyncio.sleep(1)


async def look(node: Node, world: World, history: History) -> Operation:
    operation = history.begin("harness", "sql-sums", node.name, {})
    text = CHECKS.format(providers=_array(world.providers))
    return await _ask(node, operation, text, lambda found: found)


async def read_state(node: Node, world: World, history: History) -> Operation:
    """Read the whole state by SQL, as one more read in the history."""
    operation = history.begin("harness", "final", node.name, {})
    projects = "'{" + ",".join(world.projects) + "}'::text[]"
    text = STATE.format(providers=_array(world.providers), marked=MARKED, projects=projects)

    def view(state: dict) -> dict:
        # Traits of hosts that the planner keeps are set by the planner.
        hosts = {uuid: of for uuid, of in state["providers"].items() if uuid in world.hosts}
        return {
            "generations": {uuid: of["generation"] for uuid, of in state["providers"].items()},
            "mark": {uuid: of["mark"] for uuid, of in hosts.items()},
            "traits": {uuid: of["traits"] for uuid, of in hosts.items()},
            "states": {consumer: state["consumers"].get(consumer) for consumer in world.consumers},
            "plans": state["plans"],
            "totals": state["totals"],
            "used": state["used"],
            "all": state["consumers"],
        }

    return await _ask(node, operation, text, view)


async def _ask(node: Node, operation: Operation, text: str, view) -> Operation:
    try:
        answer = await asyncio.to_thread(node.sql, text)
    except Unavailable as away:
        operation.note = str(away)
    else:
        operation.response, operation.outcome = view(json.loads(answer)), OK
    operation.end = time.monotonic()
    return operation


def _array(uuids: list[str]) -> str:
    return "'{" + ",".join(uuids) + "}'::uuid[]"
