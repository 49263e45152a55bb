-- Summarize up to `most` dirty weeks in [since, before): five-minute averages outside our own tests, weighted by the time
-- that each reading covers, and the 95th percentiles of these averages. The count of rows is the number of weeks.
WITH due AS (
    SELECT path_id, test, week, week::timestamp AT TIME ZONE 'UTC' AS begins_at
    FROM interface_week
    WHERE is_dirty AND week >= %(since)s AND week < %(before)s
    ORDER BY week, path_id, test
    LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
),
averages AS (
    SELECT
        due.path_id, due.test, due.week,
        sum(reading.in_bps * reading.interval_s) / sum(reading.interval_s) AS in_bps,
        sum(reading.out_bps * reading.interval_s) / sum(reading.interval_s) AS out_bps
    FROM due
    JOIN interface_result AS reading
        ON reading.path_id = due.path_id AND reading.test = due.test
        AND reading.measured_at >= due.begins_at AND reading.measured_at < due.begins_at + interval '7 days'
    WHERE reading.in_bps IS NOT NULL AND reading.interval_s BETWEEN 1 AND 600 AND NOT reading.during_test
    GROUP BY
        due.path_id, due.test, due.week,
        floor((extract(epoch FROM reading.measured_at) - reading.interval_s / 2) / 300)
),
figures AS (
    SELECT
        path_id, test, week, count(*) AS five_minutes,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY in_bps) AS in_p95_bps,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY out_bps) AS out_p95_bps
    FROM averages
    GROUP BY path_id, test, week
)
UPDATE interface_week AS summary
SET
    is_dirty = false,
    five_minutes = coalesce(figures.five_minutes, 0),
    in_p95_bps = figures.in_p95_bps,
    out_p95_bps = figures.out_p95_bps,
    speed_bps = (
        SELECT reading.speed_bps FROM interface_result AS reading
        WHERE
            reading.path_id = due.path_id AND reading.test = due.test AND reading.speed_bps IS NOT NULL
            AND reading.measured_at >= due.begins_at AND reading.measured_at < due.begins_at + interval '7 days'
        ORDER BY reading.measured_at DESC
        LIMIT 1
    )
FROM due
LEFT JOIN figures USING (path_id, test, week)
WHERE summary.path_id = due.path_id AND summary.test = due.test AND summary.week = due.week
