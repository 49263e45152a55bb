-- The begin of the first hour in which any of these paths has a measured packet or a measured throughput test; null where none
-- has.
SELECT least(
    (SELECT min(hour) FROM burst_hour WHERE path_id = ANY(%(path_ids)s::integer[]) AND sent > 0),
    (
        SELECT date_trunc('hour', min(measured_at))
        FROM throughput_test
        WHERE path_id = ANY(%(path_ids)s::integer[]) AND throughput_bps IS NOT NULL
    )
) AS since
