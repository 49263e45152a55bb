-- One row: the answered bursts of the given paths (path_ids[i]) and sizes (sizes[i]) that began in [since_s[i], until),
-- own tests left out, by path and time. Numbers as float8 in binary; `packets` has how many round trips each burst has,
-- `rtts` the bursts' arrays as PostgreSQL sends them, NaN where lost. Reads raw bursts: those of each path by themselves
-- from the index, where they lie in the order of time.
SELECT
    string_agg(float8send(path_id), '') AS path_id,
    string_agg(float8send(date_part('epoch', measured_at)), '') AS at_s,
    string_agg(float8send(coalesce(ttl, 'NaN'::double precision)), '') AS ttl,
    string_agg(float8send(cardinality(rtts_ms)), '') AS packets,
    string_agg(
        array_send(CASE WHEN received = sent THEN rtts_ms ELSE array_replace(rtts_ms, NULL, 'NaN'::real) END), ''
    ) AS rtts
FROM (
    SELECT raw.*
    FROM (
        SELECT path_id, packet_bytes, to_timestamp(since_s) AS since
        FROM unnest(%(path_ids)s::integer[], %(sizes)s::integer[], %(since_s)s::double precision[])
            AS each_path (path_id, packet_bytes, since_s)
        ORDER BY path_id
    ) AS asked
    CROSS JOIN LATERAL (
        SELECT path_id, measured_at, ttl, sent, received, rtts_ms
        FROM burst
        WHERE
            burst.path_id = asked.path_id AND burst.packet_bytes = asked.packet_bytes
            AND measured_at >= asked.since
            AND measured_at >= to_timestamp(%(earliest_s)s) AND measured_at < %(until)s::timestamptz
            AND outcome = 'measured' AND NOT during_test AND received > 0
        OFFSET 0
    ) AS raw
    ORDER BY asked.path_id, measured_at
) AS raw
