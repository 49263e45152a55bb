-- One row for each step of step_s seconds, aligned to the epoch, in which a STAMP cycle of a path began: the fields of
-- monitor.archive.queries.directions.DirectionPoint.
WITH step AS (
    SELECT
        date_bin(make_interval(secs => %(step_s)s), measured_at, 'epoch') AS at,
        sum(sent)::bigint AS sent,
        sum(received)::bigint AS received,
        coalesce(sum(sent - undecided) FILTER (WHERE forward_lost IS NOT NULL), 0)::bigint AS counted,
        coalesce(sum(forward_lost), 0)::bigint AS forward_lost,
        coalesce(sum(reverse_lost), 0)::bigint AS reverse_lost,
        min(forward_min_ms) AS forward_min_ms,
        avg(forward_median_ms) AS forward_avg_ms,
        avg(forward_p95_ms - forward_min_ms) AS forward_variation_ms,
        min(reverse_min_ms) AS reverse_min_ms,
        avg(reverse_median_ms) AS reverse_avg_ms,
        avg(reverse_p95_ms - reverse_min_ms) AS reverse_variation_ms,
        avg(offset_lo_ms) FILTER (WHERE forward_median_ms IS NOT NULL) AS offset_lo_ms,
        avg(offset_hi_ms) FILTER (WHERE forward_median_ms IS NOT NULL) AS offset_hi_ms
    FROM direction_burst
    WHERE
        path_id = %(path_id)s AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test
    GROUP BY 1
)
SELECT {columns}
FROM (
    SELECT
        *, forward_lost::double precision / nullif(counted, 0) AS forward_loss_ratio,
        reverse_lost::double precision / nullif(counted - forward_lost, 0) AS reverse_loss_ratio,
        CASE WHEN forward_avg_ms - offset_hi_ms IS NOT NULL THEN greatest(0, forward_avg_ms - offset_hi_ms) END AS forward_delay_lo_ms,
        CASE WHEN forward_avg_ms - offset_lo_ms IS NOT NULL THEN greatest(0, forward_avg_ms - offset_lo_ms) END AS forward_delay_hi_ms,
        CASE WHEN reverse_avg_ms + offset_lo_ms IS NOT NULL THEN greatest(0, reverse_avg_ms + offset_lo_ms) END AS reverse_delay_lo_ms,
        CASE WHEN reverse_avg_ms + offset_hi_ms IS NOT NULL THEN greatest(0, reverse_avg_ms + offset_hi_ms) END AS reverse_delay_hi_ms
    FROM step
) AS point
ORDER BY at
