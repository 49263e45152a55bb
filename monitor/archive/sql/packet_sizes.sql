-- The packet sizes that there are summaries of.
SELECT DISTINCT packet_bytes FROM burst_hour ORDER BY packet_bytes
