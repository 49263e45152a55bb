-- The packet sizes that there are summaries of, smallest first: those by month, by one look into the index for each, and
-- those of the newest hour, whose month may not have been merged yet.
WITH RECURSIVE size AS (
    SELECT min(packet_bytes) AS packet_bytes FROM burst_month
    UNION ALL
    SELECT (SELECT min(packet_bytes) FROM burst_month WHERE packet_bytes > size.packet_bytes)
    FROM size
    WHERE size.packet_bytes IS NOT NULL
)
SELECT packet_bytes FROM size WHERE packet_bytes IS NOT NULL
UNION
SELECT packet_bytes FROM burst_hour WHERE hour = (SELECT max(hour) FROM burst_hour)
ORDER BY packet_bytes
