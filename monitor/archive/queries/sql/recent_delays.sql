-- One row for each STAMP cycle with delays of both directions of the paths (path_ids[i]) that began in
-- [since_s[i], until), own tests left out, by path and time: when it began (seconds since the epoch), the raw median and
-- minimum delay and the jitter of each direction, and the bounds of the clocks' offset. Of several tests of a path that
-- with the smallest packets.
SELECT
    path_id, at_s, forward_median, forward_minimum, forward_jitter, reverse_median, reverse_minimum, reverse_jitter,
    offset_lo, offset_hi
FROM (
    SELECT path_id, to_timestamp(since_s) AS since
    FROM unnest(%(path_ids)s::integer[], %(since_s)s::double precision[]) AS each_path (path_id, since_s)
) AS asked
CROSS JOIN LATERAL (
    SELECT
        date_part('epoch', measured_at) AS at_s,
        forward_median_ms AS forward_median, forward_min_ms AS forward_minimum,
        coalesce(forward_ipdv_ms, 0) AS forward_jitter,
        reverse_median_ms AS reverse_median, reverse_min_ms AS reverse_minimum,
        coalesce(reverse_ipdv_ms, 0) AS reverse_jitter,
        offset_lo_ms AS offset_lo, offset_hi_ms AS offset_hi,
        test, first_value(test) OVER (ORDER BY packet_bytes, test) AS smallest
    FROM direction_burst
    WHERE
        direction_burst.path_id = asked.path_id AND measured_at >= asked.since
        AND measured_at >= to_timestamp(%(earliest_s)s) AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test
        AND forward_median_ms IS NOT NULL AND reverse_median_ms IS NOT NULL
    OFFSET 0
) AS raw
WHERE test = smallest
ORDER BY path_id, at_s
