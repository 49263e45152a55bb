-- One row: the answered bursts of these paths and of a size that began in [since, until), own tests left out, by path and
-- time. Numbers as float8 in binary; `packets` has how many round trips each burst has, `rtts` the bursts' arrays as
-- PostgreSQL sends them, NaN where lost. Reads raw bursts, as newest_bursts.
SELECT
    string_agg(float8send(path_id), '') AS path_id,
    string_agg(float8send(date_part('epoch', measured_at)), '') AS at_s,
    string_agg(float8send(coalesce(ttl, 'NaN'::double precision)), '') AS ttl,
    string_agg(float8send(cardinality(rtts_ms)), '') AS packets,
    string_agg(
        array_send(CASE WHEN received = sent THEN rtts_ms ELSE array_replace(rtts_ms, NULL, 'NaN'::real) END), ''
    ) AS rtts
FROM (
    SELECT path_id, measured_at, ttl, sent, received, rtts_ms
    FROM burst
    WHERE
        path_id = ANY(%(path_ids)s::integer[]) AND packet_bytes = %(packet_bytes)s
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test AND received > 0
    ORDER BY path_id, measured_at
) AS raw
