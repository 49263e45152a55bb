-- One row for each STAMP cycle with delays of both directions of the paths that began in [since, until), own tests left out,
-- by path and time: when it began (seconds since the epoch), the raw median and minimum delay and the jitter of each
-- direction, the bounds of the clocks' offset, and the rank of its test among those of the path, that with the smallest
-- packets first.
SELECT
    path_id, date_part('epoch', measured_at) AS at_s,
    forward_median_ms AS forward_median, forward_min_ms AS forward_minimum,
    coalesce(forward_ipdv_ms, 0) AS forward_jitter,
    reverse_median_ms AS reverse_median, reverse_min_ms AS reverse_minimum,
    coalesce(reverse_ipdv_ms, 0) AS reverse_jitter,
    offset_lo_ms AS offset_lo, offset_hi_ms AS offset_hi,
    dense_rank() OVER (PARTITION BY path_id ORDER BY packet_bytes, test) AS test_rank
FROM direction_burst
WHERE
    path_id = ANY(%(path_ids)s::integer[])
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND outcome = 'measured' AND NOT during_test
    AND forward_median_ms IS NOT NULL AND reverse_median_ms IS NOT NULL
ORDER BY path_id, measured_at
