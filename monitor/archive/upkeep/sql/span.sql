-- One row: when the oldest and the newest burst began.
SELECT min(measured_at) AS oldest_at, max(measured_at) AS newest_at FROM burst
