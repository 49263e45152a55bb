-- One row: the measured bursts of these paths that began in [since, until), by path and time, those during our own tests
-- included. Numbers as float8 in binary; `packets` has how many round trips each burst has, `rtts` the bursts' arrays as
-- PostgreSQL sends them, NaN where lost. Reads raw bursts.
SELECT
    string_agg(float8send(path_id), '') AS path_id,
    string_agg(float8send(extract(epoch FROM measured_at)::double precision), '') AS at_s,
    string_agg(float8send(packet_bytes), '') AS packet_bytes,
    string_agg(float8send(sent), '') AS sent,
    string_agg(float8send(received), '') AS received,
    string_agg(float8send(duplicates), '') AS duplicates,
    string_agg(float8send(reordered), '') AS reordered,
    string_agg(float8send(during_test::integer), '') AS during_test,
    string_agg(float8send(coalesce(ttl::double precision, 'NaN')), '') AS ttl,
    string_agg(float8send(cardinality(rtts_ms)), '') AS packets,
    string_agg(
        array_send(CASE WHEN received = sent THEN rtts_ms ELSE array_replace(rtts_ms, NULL, 'NaN'::real) END), ''
    ) AS rtts
FROM (
    SELECT burst.*
    FROM burst
    WHERE
        path_id = ANY(%(path_ids)s::integer[])
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured'
    ORDER BY path_id, measured_at, packet_bytes
) AS raw
