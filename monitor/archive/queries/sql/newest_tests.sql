-- One row for each of the newest `most` TCP throughput tests of each of the paths that were measured in [since, until):
-- its place counted back from the newest, when it began (seconds since the epoch), and its rate.
-- Those that somebody asked for, whose settings are anybody's, are left out, or are the only ones.
SELECT asked.path_id, place - 1 AS place, extract(epoch FROM measured_at) AS at_s, throughput_bps
FROM unnest(%(path_ids)s::integer[]) AS asked (path_id)
CROSS JOIN LATERAL (
    SELECT measured_at, throughput_bps, row_number() OVER (ORDER BY measured_at DESC) AS place
    FROM throughput_test
    WHERE
        throughput_test.path_id = asked.path_id
        AND measured_at >= %(since)s::timestamptz AND measured_at < %(until)s::timestamptz
        AND protocol = 'tcp' AND throughput_bps IS NOT NULL
        AND (test = 'on-demand') = %(on_demand)s
    ORDER BY measured_at DESC
    LIMIT %(most)s
) AS newest
