-- One row for each of the given {tier}s (path_ids[i], starts[i]) with a summary of directions of a {smaller} in it, merged
-- as in merge_of_smaller.sql: means are weighted by the bursts with delays.
WITH marked AS (
    SELECT path_id, {tier} FROM unnest(%(path_ids)s::integer[], %(starts)s::timestamptz[]) AS m (path_id, {tier})
)
SELECT
    marked.path_id, {tier},
    sum(bursts)::integer AS bursts,
    sum(bursts_counted)::integer AS bursts_counted,
    sum(bursts_delayed)::integer AS bursts_delayed,
    sum(sent)::bigint AS sent,
    sum(received)::bigint AS received,
    sum(counted)::bigint AS counted,
    sum(forward_lost)::bigint AS forward_lost,
    sum(forward_lossy)::integer AS forward_lossy,
    sum(forward_duplicates)::bigint AS forward_duplicates,
    sum(forward_reordered)::bigint AS forward_reordered,
    min(forward_min_ms) AS forward_min_ms,
    sum(forward_avg_ms * bursts_delayed ORDER BY {smaller}) / nullif(sum(bursts_delayed), 0) AS forward_avg_ms,
    sum(forward_variation_ms * bursts_delayed ORDER BY {smaller}) / nullif(sum(bursts_delayed), 0)
    AS forward_variation_ms,
    sum(forward_ipdv_ms * bursts_delayed ORDER BY {smaller})
    / nullif(sum(bursts_delayed) FILTER (WHERE forward_ipdv_ms IS NOT NULL), 0) AS forward_ipdv_ms,
    sum(reverse_lost)::bigint AS reverse_lost,
    sum(reverse_lossy)::integer AS reverse_lossy,
    sum(reverse_duplicates)::bigint AS reverse_duplicates,
    sum(reverse_reordered)::bigint AS reverse_reordered,
    min(reverse_min_ms) AS reverse_min_ms,
    sum(reverse_avg_ms * bursts_delayed ORDER BY {smaller}) / nullif(sum(bursts_delayed), 0) AS reverse_avg_ms,
    sum(reverse_variation_ms * bursts_delayed ORDER BY {smaller}) / nullif(sum(bursts_delayed), 0)
    AS reverse_variation_ms,
    sum(reverse_ipdv_ms * bursts_delayed ORDER BY {smaller})
    / nullif(sum(bursts_delayed) FILTER (WHERE reverse_ipdv_ms IS NOT NULL), 0) AS reverse_ipdv_ms,
    sum(offset_lo_ms * bursts_delayed ORDER BY {smaller}) / nullif(sum(bursts_delayed), 0) AS offset_lo_ms,
    sum(offset_hi_ms * bursts_delayed ORDER BY {smaller}) / nullif(sum(bursts_delayed), 0) AS offset_hi_ms
FROM marked
CROSS JOIN LATERAL (
    SELECT *
    FROM direction_{smaller} AS smaller
    WHERE
        smaller.path_id = marked.path_id
        AND {smaller} >= marked.{tier} AND {smaller} < marked.{tier} + interval '1 {tier}'
    OFFSET 0
) AS part
GROUP BY marked.path_id, {tier}
ORDER BY marked.path_id, {tier}
