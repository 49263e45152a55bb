-- The directions of a path over a period: the fields of monitor.archive.queries.directions.DirectionFigures; no row without
-- a STAMP cycle.
SELECT {columns}
FROM (
    SELECT
        counted, forward_lost, reverse_lost, undecided,
        CASE WHEN forward_ms - offset_hi_ms IS NOT NULL THEN greatest(0, forward_ms - offset_hi_ms) END
        AS forward_delay_lo_ms,
        CASE WHEN forward_ms - offset_lo_ms IS NOT NULL THEN greatest(0, forward_ms - offset_lo_ms) END
        AS forward_delay_hi_ms,
        CASE WHEN reverse_ms + offset_lo_ms IS NOT NULL THEN greatest(0, reverse_ms + offset_lo_ms) END
        AS reverse_delay_lo_ms,
        CASE WHEN reverse_ms + offset_hi_ms IS NOT NULL THEN greatest(0, reverse_ms + offset_hi_ms) END
        AS reverse_delay_hi_ms
    FROM (
        SELECT
            sum(counted)::bigint AS counted,
            sum(forward_lost)::bigint AS forward_lost,
            sum(reverse_lost)::bigint AS reverse_lost,
            sum(undecided)::bigint AS undecided,
            sum(forward_avg_ms * bursts_delayed) / nullif(sum(bursts_delayed), 0) AS forward_ms,
            sum(reverse_avg_ms * bursts_delayed) / nullif(sum(bursts_delayed), 0) AS reverse_ms,
            sum(offset_lo_ms * bursts_delayed) / nullif(sum(bursts_delayed), 0) AS offset_lo_ms,
            sum(offset_hi_ms * bursts_delayed) / nullif(sum(bursts_delayed), 0) AS offset_hi_ms
        FROM (
{pieces}
        ) AS part
        HAVING count(*) > 0
    ) AS total
) AS figures
