-- One row for each of the given {tier}s (path_ids[i], starts[i]) and packet size with a summary of a {smaller} in it: counts
-- added, extremes of extremes, means weighted by what they are means of, sketches one after the other. Sums of floats go
-- by time, so that the same rows give the same sums. OFFSET 0 keeps the planner at one look into the key for each of
-- them: a join of all would read the path's whole history.
WITH marked AS (
    SELECT path_id, {tier} FROM unnest(%(path_ids)s::integer[], %(starts)s::timestamptz[]) AS m (path_id, {tier})
),
counted AS (
    SELECT
        marked.path_id, packet_bytes, {tier},
        sum(bursts)::integer AS bursts,
        sum(bursts_all_lost)::integer AS bursts_all_lost,
        sum(bursts_none_lost)::integer AS bursts_none_lost,
        sum(bursts_during_test)::integer AS bursts_during_test,
        sum(bursts_not_measured)::integer AS bursts_not_measured,
        sum(bursts_duplicated)::integer AS bursts_duplicated,
        sum(bursts_reordered)::integer AS bursts_reordered,
        sum(sent)::integer AS sent,
        sum(received)::integer AS received,
        sum(late)::integer AS late,
        sum(duplicates)::integer AS duplicates,
        sum(reordered)::integer AS reordered,
        sum(losses_followed)::integer AS losses_followed,
        sum(losses_paired)::integer AS losses_paired,
        max({loss_max_ratio}) AS loss_max_ratio,
        min(rtt_min_ms) AS rtt_min_ms,
        max(rtt_max_ms) AS rtt_max_ms,
        sum(rtt_avg_ms * received ORDER BY {smaller}) / nullif(sum(received), 0) AS rtt_avg_ms,
        sum(rtt_iqr_ms * (bursts - bursts_all_lost) ORDER BY {smaller})
        / nullif(sum(bursts - bursts_all_lost), 0) AS rtt_iqr_ms,
        sum(received_avg_ratio * bursts ORDER BY {smaller}) / nullif(sum(bursts), 0) AS received_avg_ratio,
        max(received_max_ratio) AS received_max_ratio,
        sum(rate_avg_per_ms * (bursts - bursts_all_lost) ORDER BY {smaller})
        / nullif(sum(bursts - bursts_all_lost), 0) AS rate_avg_per_ms,
        max(rate_max_per_ms) AS rate_max_per_ms,
        string_agg(rtt_sketch, '') AS rtt_sketch,
        string_agg(ipdv_sketch, '') AS ipdv_sketch,
        sum(bursts_excluded ORDER BY {smaller}) AS bursts_excluded,
        sum(loaded_sent)::integer AS loaded_sent,
        sum(loaded_received)::integer AS loaded_received,
        string_agg(loaded_rtt_sketch, '') AS loaded_rtt_sketch,
        {ranges}
    FROM marked
    CROSS JOIN LATERAL (
        SELECT *
        FROM burst_{smaller} AS smaller
        WHERE
            smaller.path_id = marked.path_id
            AND {smaller} >= marked.{tier} AND {smaller} < marked.{tier} + interval '1 {tier}'
            AND {smaller} >= %(since)s::timestamptz
            AND {smaller} < %(until)s::timestamptz + interval '1 {tier}'
        OFFSET 0
    ) AS part
    GROUP BY marked.path_id, packet_bytes, {tier}
)
SELECT counted.*, planned.bursts_planned
FROM counted
CROSS JOIN LATERAL (
{planned}
) AS planned
ORDER BY path_id, packet_bytes, {tier}
