-- One row for each {tier} that overlaps [since, until) with a summary of a path's directions: the fields of
-- monitor.archive.queries.directions.DirectionPoint.
SELECT {columns}
FROM (
    SELECT
        *, {tier} AS at, forward_lost::double precision / nullif(counted, 0) AS forward_loss_ratio,
        reverse_lost::double precision / nullif(counted - forward_lost, 0) AS reverse_loss_ratio,
        CASE WHEN forward_avg_ms - offset_hi_ms IS NOT NULL THEN greatest(0, forward_avg_ms - offset_hi_ms) END AS forward_delay_lo_ms,
        CASE WHEN forward_avg_ms - offset_lo_ms IS NOT NULL THEN greatest(0, forward_avg_ms - offset_lo_ms) END AS forward_delay_hi_ms,
        CASE WHEN reverse_avg_ms + offset_lo_ms IS NOT NULL THEN greatest(0, reverse_avg_ms + offset_lo_ms) END AS reverse_delay_lo_ms,
        CASE WHEN reverse_avg_ms + offset_hi_ms IS NOT NULL THEN greatest(0, reverse_avg_ms + offset_hi_ms) END AS reverse_delay_hi_ms
    FROM direction_{tier}
    WHERE
        path_id = %(path_id)s AND {tier} >= %(since)s::timestamptz AND {tier} < %(until)s::timestamptz
) AS point
ORDER BY at
