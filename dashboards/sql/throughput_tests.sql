-- One row per throughput test of the chosen path in the period, newest first, at most 200: what came of it, and what
-- limited it. A test that failed has an outcome and a reason and no figures.
SELECT
    measured_at AS "time",
    test AS "Test",
    outcome AS "Outcome",
    throughput_bps AS "Throughput",
    streams AS "Streams",
    duration_s AS "Duration",
    retransmits AS "Retransmits",
    rtt_mean_ms AS "RTT mean",
    COALESCE(sentence, detail) AS "Limit or error"
FROM reporting.throughput_test
WHERE path_id = NULLIF(${path:sqlstring}, '')::integer
    AND $__timeFilter(measured_at)
ORDER BY measured_at DESC
LIMIT 200
