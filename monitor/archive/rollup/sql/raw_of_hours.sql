-- One row for each of the given hours (path_ids[i], hours[i]) and packet size with raw bursts: what can be counted, and
-- for the rest the round trips of its bursts in the order of time. `packets` has how many each burst sent, `rtts` the
-- bursts' arrays as PostgreSQL sends them, NaN where lost; `loaded_packets` and `loaded_rtts` those of the packets sent
-- during our own tests. `slots` has the 5 minutes of the hour in which each burst began, 0 to 11. Bursts without any other packet are counted, no more. A burst is not all lost if a packet under
-- load was answered, and its loss is of all its packets, so that the few left of it are not the worst loss.
WITH marked AS (
    SELECT path_id, hour FROM unnest(%(path_ids)s::integer[], %(hours)s::timestamptz[]) AS m (path_id, hour)
),
raw AS (
    SELECT
        path_id, packet_bytes, hour, measured_at, outcome = 'measured' AND NOT during_test AS counts, during_test, sent,
        received, duplicates, reordered, late, cardinality(rtts_ms)::smallint AS packets,
        (date_part('minute', measured_at - hour)::integer / 5)::smallint AS slot,
        CASE WHEN received = sent THEN rtts_ms ELSE array_replace(rtts_ms, NULL, 'NaN'::real) END AS rtts_ms,
        CASE WHEN loaded_rtts_ms IS NOT NULL THEN
            array_replace(CASE WHEN during_test THEN rtts_ms ELSE loaded_rtts_ms END, NULL, 'NaN'::real)
        END AS loaded_rtts_ms
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
        count(*) FILTER (
            WHERE counts AND received = 0 AND NOT coalesce('NaN'::real <> ANY (loaded_rtts_ms), FALSE)
        ) AS bursts_all_lost,
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
        max(CASE
            WHEN received < sent THEN (sent - received)::real / (sent + coalesce(cardinality(loaded_rtts_ms), 0))
            ELSE 0
        END) FILTER (WHERE counts) AS loss_max_ratio,
        sum(cardinality(loaded_rtts_ms)::double precision / (sent + cardinality(loaded_rtts_ms)))
            FILTER (WHERE counts) AS bursts_excluded,
        string_agg(int2send(packets), '') FILTER (WHERE counts) AS packets,
        string_agg(array_send(rtts_ms), '') FILTER (WHERE counts) AS rtts,
        string_agg(int2send(slot), '') FILTER (WHERE counts) AS slots,
        string_agg(int2send(cardinality(loaded_rtts_ms)::smallint), '') FILTER (WHERE loaded_rtts_ms IS NOT NULL)
            AS loaded_packets,
        string_agg(array_send(loaded_rtts_ms), '') FILTER (WHERE loaded_rtts_ms IS NOT NULL) AS loaded_rtts
    FROM raw
    GROUP BY path_id, packet_bytes, hour
)
SELECT counted.*, planned.bursts_planned
FROM counted
CROSS JOIN LATERAL (
{planned}
) AS planned
ORDER BY path_id, packet_bytes, hour
