-- One row for each of the given hours (path_ids[i], hours[i]) in which a TCP throughput test began: how many there were and
-- what was measured, oldest first. Those that somebody asked for are left out: their settings are anybody's.
WITH marked AS (
    SELECT path_id, hour FROM unnest(%(path_ids)s::integer[], %(hours)s::timestamptz[]) AS m (path_id, hour)
),
counted AS (
    SELECT
        path_id, hour, count(*) AS tests, count(throughput_bps) AS tests_measured,
        coalesce(array_agg(throughput_bps ORDER BY measured_at) FILTER (WHERE throughput_bps IS NOT NULL), '{{}}')
            AS rates_bps
    FROM marked
    INNER JOIN throughput_test USING (path_id)
    WHERE
        protocol = 'tcp' AND test <> 'on-demand'
        AND measured_at >= hour AND measured_at < hour + interval '1 hour'
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    GROUP BY path_id, hour
)
SELECT counted.*, planned.slots_planned
FROM counted
CROSS JOIN LATERAL (
{planned}
) AS planned
ORDER BY path_id, hour
