-- One row for each path (path_ids[i]) with a burst of this size in its window [begins[i], until): what can be counted, a
-- value made of that, and the round trips of its bursts in the order of time, as sql/raw_of_hours.sql has them. Reads raw
-- bursts, one look into their key for each path, but not by the size (+ 0, as in sql/states_before.sql); `since` is
-- the earliest beginning.
WITH wanted AS MATERIALIZED (
    SELECT path_id, begins FROM unnest(%(path_ids)s::integer[], %(begins)s::timestamptz[]) AS w (path_id, begins)
),
counted AS (
    SELECT
        wanted.path_id,
        count(*) FILTER (WHERE counts) AS bursts,
        count(*) FILTER (WHERE counts AND is_all_lost) AS bursts_all_lost,
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
        max((sent - received)::real / nullif(sent + loaded, 0)) FILTER (WHERE counts) AS loss_max_ratio,
        coalesce(
            sum(loaded::double precision / (sent + loaded)) FILTER (WHERE counts AND loaded > 0), 0
        ) AS bursts_excluded,
        {packets} AS packets,
        {rtts} AS rtts
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT
            measured_at, outcome = 'measured' AND NOT during_test AS counts, during_test, sent, received, duplicates, reordered,
            late, cardinality(rtts_ms)::smallint AS packets,
            CASE WHEN received = sent THEN rtts_ms ELSE array_replace(rtts_ms, NULL, 'NaN'::real) END AS rtts_ms,
            coalesce(cardinality(loaded_rtts_ms), 0) AS loaded,
            CASE WHEN received = 0 THEN coalesce(cardinality(array_remove(loaded_rtts_ms, NULL)), 0) = 0
                ELSE FALSE END AS is_all_lost
        FROM burst
        WHERE
            burst.path_id = wanted.path_id AND packet_bytes + 0 = %(packet_bytes)s
            AND measured_at >= wanted.begins
            AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        ORDER BY measured_at
    ) AS raw
    GROUP BY wanted.path_id
)
SELECT *, ({value})::double precision AS value
FROM counted
ORDER BY path_id
