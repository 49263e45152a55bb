-- One row for each of the given hours (path_ids[i], hours[i]) and packet size with raw bursts: what can be counted, and
-- for the rest the round trips of its bursts in the order of time. `packets` has how many each burst sent, `rtts` the
-- bursts' arrays as PostgreSQL sends them, NaN where lost. Bursts that overlap our own tests are counted, no more.
WITH marked AS (
    SELECT path_id, hour FROM unnest(%(path_ids)s::integer[], %(hours)s::timestamptz[]) AS m (path_id, hour)
),
raw AS (
    SELECT
        path_id, packet_bytes, hour, measured_at, outcome = 'measured' AND NOT during_test AS counts, during_test, sent,
        received, duplicates, reordered, late, cardinality(rtts_ms)::smallint AS packets,
        CASE WHEN received = sent THEN rtts_ms ELSE array_replace(rtts_ms, NULL, 'NaN'::real) END AS rtts_ms
    FROM marked
    INNER JOIN burst USING (path_id)
    WHERE
        measured_at >= hour AND measured_at < hour + interval '1 hour'
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    ORDER BY path_id, packet_bytes, hour, measured_at
),
counted AS (
    SELECT
        path_id, packet_bytes, hour,
        count(*) FILTER (WHERE counts) AS bursts,
        count(*) FILTER (WHERE counts AND received = 0) AS bursts_all_lost,
        count(*) FILTER (WHERE counts AND received = sent) AS bursts_none_lost,
        count(*) FILTER (WHERE during_test) AS bursts_during_test,
        count(*) FILTER (WHERE NOT counts AND NOT during_test) AS bursts_not_measured,
        count(*) FILTER (WHERE counts AND duplicates > 0) AS bursts_duplicated,
        count(*) FILTER (WHERE counts AND reordered > 0) AS bursts_reordered,
        coalesce(sum(sent) FILTER (WHERE counts), 0) AS sent,
        coalesce(sum(received) FILTER (WHERE counts), 0) AS received,
        coalesce(sum(late) FILTER (WHERE counts), 0) AS late,
        coalesce(sum(duplicates) FILTER (WHERE counts), 0) AS duplicates,
        coalesce(sum(reordered) FILTER (WHERE counts), 0) AS reordered,
        string_agg(int2send(packets), '') FILTER (WHERE counts) AS packets,
        string_agg(array_send(rtts_ms), '') FILTER (WHERE counts) AS rtts
    FROM raw
    GROUP BY path_id, packet_bytes, hour
)
SELECT counted.*, planned.bursts_planned
FROM counted
CROSS JOIN LATERAL (
{planned}
) AS planned
ORDER BY path_id, packet_bytes, hour
