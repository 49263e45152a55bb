-- One row for each step of step_s seconds, aligned to the epoch, in which a burst of this path and size in [since,
-- until) began: counts, the worst loss of a burst, and the bursts' round trips for NumPy: `packets` has how many each
-- sent, `rtts` the arrays as PostgreSQL sends them, NaN where lost. Bursts during our own tests are left out.
SELECT
    date_bin(make_interval(secs => %(step_s)s), measured_at, 'epoch') AS at, sum(sent) AS sent,
    sum(received) AS received, count(*) FILTER (WHERE outcome <> 'measured') AS bursts_not_measured,
    max((sent - received)::real / nullif(sent + coalesce(cardinality(loaded_rtts_ms), 0), 0)) AS loss_max_ratio,
    string_agg(int2send(cardinality(rtts_ms)::smallint), '') AS packets,
    string_agg(array_send(
        CASE WHEN received = sent THEN rtts_ms ELSE array_replace(rtts_ms, NULL, 'NaN'::real) END
    ), '') AS rtts
FROM burst
WHERE
    path_id = %(path_id)s AND packet_bytes = %(packet_bytes)s
    AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
    AND NOT during_test
GROUP BY at
ORDER BY at
