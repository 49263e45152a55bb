-- The packet sizes that there are summaries by the {tier} of, smallest first: one look into the index for each of them.
WITH RECURSIVE size AS (
    SELECT min(packet_bytes) AS packet_bytes FROM burst_{tier}
    UNION ALL
    SELECT (SELECT min(packet_bytes) FROM burst_{tier} WHERE packet_bytes > size.packet_bytes)
    FROM size
    WHERE size.packet_bytes IS NOT NULL
)
SELECT packet_bytes FROM size WHERE packet_bytes IS NOT NULL ORDER BY packet_bytes
