-- The sketches of the round trips of a path in a period, one after the other; null where nothing was received.
SELECT string_agg(rtt_sketch, '') AS rtt_sketch
FROM (
{pieces}
) AS piece
