-- One row: the answered bursts of the given paths (path_ids[i]) and sizes (sizes[i]) that began in [since[i], until), own
-- tests left out, by path and time. Numbers as float8 in binary; `packets` has how many round trips each burst has,
-- `rtts` the bursts' arrays as PostgreSQL sends them, NaN where lost. Reads raw bursts.
SELECT
    string_agg(float8send(path_id), '') AS path_id,
    string_agg(float8send(extract(epoch FROM measured_at)::double precision), '') AS at_s,
    string_agg(float8send(coalesce(ttl::double precision, 'NaN')), '') AS ttl,
    string_agg(float8send(cardinality(rtts_ms)), '') AS packets,
    string_agg(
        array_send(CASE WHEN received = sent THEN rtts_ms ELSE array_replace(rtts_ms, NULL, 'NaN'::real) END), ''
    ) AS rtts
FROM (
    SELECT burst.*
    FROM unnest(%(path_ids)s::integer[], %(sizes)s::integer[], %(since)s::timestamptz[])
        AS asked (path_id, packet_bytes, since)
    INNER JOIN burst USING (path_id, packet_bytes)
    WHERE
        measured_at >= asked.since AND measured_at >= %(earliest)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND outcome = 'measured' AND NOT during_test AND received > 0
    ORDER BY path_id, measured_at
) AS raw
