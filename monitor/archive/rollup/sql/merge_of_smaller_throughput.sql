-- One row for each of the given {tier}s (path_ids[i], starts[i]) with a throughput summary of a {smaller} in it, merged as in
-- merge_of_smaller.sql.
WITH marked AS (
    SELECT path_id, {tier} FROM unnest(%(path_ids)s::integer[], %(starts)s::timestamptz[]) AS m (path_id, {tier})
),
counted AS (
    SELECT
        marked.path_id, {tier},
        sum(tests)::integer AS tests,
        sum(tests_measured)::integer AS tests_measured,
        min(throughput_min_bps) AS throughput_min_bps,
        max(throughput_max_bps) AS throughput_max_bps,
        sum(throughput_avg_bps * tests_measured ORDER BY {smaller})
        / nullif(sum(tests_measured), 0) AS throughput_avg_bps,
        string_agg(throughput_sketch, '') AS throughput_sketch,
        {ranges}
    FROM marked
    CROSS JOIN LATERAL (
        SELECT *
        FROM throughput_{smaller} AS smaller
        WHERE
            smaller.path_id = marked.path_id
            AND {smaller} >= marked.{tier} AND {smaller} < marked.{tier} + interval '1 {tier}'
        OFFSET 0
    ) AS part
    GROUP BY marked.path_id, {tier}
)
SELECT counted.*, planned.slots_planned
FROM counted
CROSS JOIN LATERAL (
{planned}
) AS planned
ORDER BY path_id, {tier}
