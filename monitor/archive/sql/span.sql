-- One row: when the oldest and the newest burst began, how many hours wait for their summary and since when, how
-- many results were refused.
SELECT
    (SELECT min(measured_at) FROM burst) AS oldest_at,
    (SELECT max(measured_at) FROM burst) AS newest_at,
    (SELECT count(*) FROM dirty_hour) AS dirty_hours,
    (SELECT min(marked_at) FROM dirty_hour) AS dirty_since,
    (SELECT count(*) FROM refused_result) AS refused
