-- The entries of the change log for the consumers of a round, which replicas keep in memory (src/store/log_entry.rs).
insert into change_log (providers, entries)
select '{}', json_agg(entry)::text
from (
    select row_number() over () / 100 as piece,
           case when c.id is null then json_build_object('ended', s.uuid)
                else json_build_object('consumer', json_build_object(
                    'uuid', c.uuid, 'id', c.id, 'generation', c.generation,
                    'owner', json_build_array(c.project_id, c.user_id, c.consumer_type_id),
                    'held', held.amounts, 'updated_at', held.updated_at))
           end as entry
    from scope_consumers s
    left join consumers c on c.uuid = s.uuid
    left join lateral (
        select json_agg(json_build_array(provider_id, class_id, used) order by provider_id, class_id) as amounts,
               max(extract(epoch from updated_at)::bigint) as updated_at
        from allocations where consumer_id = c.id
    ) held on true
) as each
group by piece;
