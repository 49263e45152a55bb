-- One row for each of the newest `most` TCP tests of each of the paths in [since, until), measured or failed since
-- failed_since, those that somebody asked for included unless a rate was requested: the fields of
-- monitor.archive.queries.around.TestAround, newest first.
--   resent_ratio  the share of segments that were retransmitted, of those delivered and retransmitted; null for fewer
--                 than 100 segments, without intervals, and before its diagnosis
--   has_queue     its verdict is a queue that raised the RTT: its losses are its own queue's
SELECT
    asked.path_id,
    newest.measured_at AS at,
    newest.throughput_bps,
    newest.test = 'on-demand' AS is_on_demand,
    newest.outcome,
    newest.transferred_bytes,
    newest.duration_s,
    CASE WHEN newest.segments >= 100 AND newest.is_diagnosed
        THEN newest.retransmits / newest.segments
    END AS resent_ratio,
    newest.has_queue
FROM unnest(%(path_ids)s::integer[]) AS asked (path_id)
CROSS JOIN LATERAL (
    SELECT
        measured_at, throughput_bps, test, outcome, duration_s, retransmits,
        coalesce(received_bytes, sent_bytes) AS transferred_bytes,
        retransmits + received_bytes / coalesce((transfer ->> 'mss_bytes')::double precision, 1448) AS segments,
        NOT EXISTS (
            SELECT FROM undiagnosed_test AS pending
            WHERE pending.path_id = throughput_test.path_id AND pending.measured_at = throughput_test.measured_at
        ) AS is_diagnosed,
        coalesce(jsonb_path_exists(diagnosis, '$.evidence[*] ? (@.name == $name)', jsonb_build_object(
            'name', %(queue_figure)s::text
        )), FALSE) AS has_queue
    FROM throughput_test
    WHERE
        throughput_test.path_id = asked.path_id
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND protocol = 'tcp' AND (throughput_bps IS NOT NULL OR measured_at >= %(failed_since)s::timestamptz)
        AND (test <> 'on-demand' OR asked_bps IS NULL)
    ORDER BY measured_at DESC
    LIMIT %(most)s
) AS newest
ORDER BY newest.measured_at DESC, asked.path_id
