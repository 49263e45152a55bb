-- One row for each of the given hours (path_ids[i], hours[i]) with raw results of directions: the columns of
-- monitor.archive.models.DirectionHour. Results during our own tests are left out, as those that were not measured.
WITH marked AS (
    SELECT path_id, hour FROM unnest(%(path_ids)s::integer[], %(hours)s::timestamptz[]) AS m (path_id, hour)
),
raw AS (
    SELECT direction_burst.*, hour, sent - undecided AS told, forward_lost IS NOT NULL AS is_counted
    FROM marked
    INNER JOIN direction_burst USING (path_id)
    WHERE
        measured_at >= hour AND measured_at < hour + interval '1 hour'
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test
)
SELECT
    path_id, hour,
    count(*) AS bursts,
    count(*) FILTER (WHERE is_counted) AS bursts_counted,
    count(forward_median_ms) AS bursts_delayed,
    sum(sent) AS sent,
    sum(received) AS received,
    coalesce(sum(told) FILTER (WHERE is_counted), 0) AS counted,
    coalesce(sum(forward_lost), 0) AS forward_lost,
    count(*) FILTER (WHERE forward_lost > 0) AS forward_lossy,
    sum(forward_duplicates) AS forward_duplicates,
    sum(forward_reordered) AS forward_reordered,
    min(forward_min_ms) AS forward_min_ms,
    avg(forward_median_ms ORDER BY measured_at) AS forward_avg_ms,
    avg(forward_p95_ms - forward_min_ms ORDER BY measured_at) AS forward_variation_ms,
    avg(forward_ipdv_ms ORDER BY measured_at) AS forward_ipdv_ms,
    coalesce(sum(reverse_lost), 0) AS reverse_lost,
    count(*) FILTER (WHERE reverse_lost > 0) AS reverse_lossy,
    sum(reverse_duplicates) AS reverse_duplicates,
    sum(reverse_reordered) AS reverse_reordered,
    min(reverse_min_ms) AS reverse_min_ms,
    avg(reverse_median_ms ORDER BY measured_at) AS reverse_avg_ms,
    avg(reverse_p95_ms - reverse_min_ms ORDER BY measured_at) AS reverse_variation_ms,
    avg(reverse_ipdv_ms ORDER BY measured_at) AS reverse_ipdv_ms,
    avg(offset_lo_ms ORDER BY measured_at) FILTER (WHERE forward_median_ms IS NOT NULL) AS offset_lo_ms,
    avg(offset_hi_ms ORDER BY measured_at) FILTER (WHERE forward_median_ms IS NOT NULL) AS offset_hi_ms
FROM raw
GROUP BY path_id, hour
ORDER BY path_id, hour
