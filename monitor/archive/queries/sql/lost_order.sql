-- One row: the measured bursts of these paths that began in [since, until), of all sizes, by path, size and time. Numbers as
-- float8 in binary; `packets` and `rtts` are the arrays of bursts of which some packets were lost, as PostgreSQL sends
-- them with NaN where lost, and empty ones of all others, which have no order to tell. A burst with packets during own
-- tests has the others alone. Reads raw bursts, as newest_bursts.
SELECT
    string_agg(float8send(path_id), '') AS path_id,
    string_agg(float8send(packet_bytes), '') AS packet_bytes,
    string_agg(float8send(date_part('epoch', measured_at)), '') AS at_s,
    string_agg(float8send(sent), '') AS sent,
    string_agg(float8send(received), '') AS received,
    string_agg(float8send(cardinality(rtts_ms)), '') AS packets,
    string_agg(array_send(rtts_ms), '') AS rtts
FROM (
    SELECT
        path_id, packet_bytes, measured_at, sent, received,
        CASE WHEN received > 0 AND received < sent THEN array_replace(rtts_ms, NULL, 'NaN'::real) ELSE '{}'::real[] END AS rtts_ms
    FROM burst
    WHERE
        path_id = ANY(%(path_ids)s::integer[])
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test AND sent > 0
    ORDER BY path_id, packet_bytes, measured_at
) AS raw
