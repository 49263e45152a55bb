-- One row for each path and packet size of which packets were sent during our own tests in the period: how many, how many
-- of them were answered, and the sketches of their round trips, one after the other.
SELECT
    path_id, packet_bytes, sum(loaded_sent) AS sent, sum(loaded_received) AS received,
    string_agg(loaded_rtt_sketch, '') AS rtt_sketch
FROM (
{pieces}
) AS piece
WHERE loaded_sent > 0
GROUP BY path_id, packet_bytes
ORDER BY path_id, packet_bytes
