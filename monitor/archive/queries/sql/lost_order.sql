-- One row: the bursts of these paths that began in [since, until), of all sizes, by path, size and time. Numbers as float8
-- in binary; `result` is 0 where the burst counts, 1 where all its packets were sent during own tests, else 1 plus the place
-- of its outcome in `outcomes`; `loaded_sent` and `loaded_received` are packets of a burst that counts that were sent during
-- own tests. `packets` and `rtts` are the arrays of bursts of which some packets were lost, as PostgreSQL
-- sends them with NaN where lost, and empty ones of all others, which have no order to tell. A burst with some packets
-- during own tests has the others alone. Reads raw bursts, as newest_bursts.
SELECT
    string_agg(float8send(path_id), '') AS path_id,
    string_agg(float8send(packet_bytes), '') AS packet_bytes,
    string_agg(float8send(date_part('epoch', measured_at)), '') AS at_s,
    string_agg(float8send(sent), '') AS sent,
    string_agg(float8send(received), '') AS received,
    string_agg(float8send(result), '') AS result,
    string_agg(float8send(loaded_sent), '') AS loaded_sent,
    string_agg(float8send(loaded_received), '') AS loaded_received,
    string_agg(float8send(cardinality(rtts_ms)), '') AS packets,
    string_agg(array_send(rtts_ms), '') AS rtts
FROM (
    SELECT
        path_id, packet_bytes, measured_at, coalesce(sent, 0) AS sent, coalesce(received, 0) AS received,
        CASE
            WHEN outcome <> 'measured' THEN 1 + array_position(%(outcomes)s::text[], outcome)
            WHEN during_test OR sent = 0 THEN 1
            ELSE 0
        END AS result,
        coalesce(cardinality(loaded_rtts_ms), 0) AS loaded_sent,
        coalesce(cardinality(array_remove(loaded_rtts_ms, NULL)), 0) AS loaded_received,
        CASE
            WHEN outcome = 'measured' AND NOT during_test AND received > 0 AND received < sent
                THEN array_replace(rtts_ms, NULL, 'NaN'::real)
            ELSE '{}'::real[]
        END AS rtts_ms
    FROM burst
    WHERE
        path_id = ANY(%(path_ids)s::integer[])
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    ORDER BY path_id, packet_bytes, measured_at
) AS raw
