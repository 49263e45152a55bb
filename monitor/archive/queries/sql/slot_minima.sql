-- Of each of these paths with replies in [since, until): its hours with replies, as `int8send` of their seconds since the
-- epoch, and the minimum RTTs of their slots of 5 minutes in ms, as `array_send` of them, NaN without replies. An hour comes
-- once for each packet size.
SELECT
    path_id,
    string_agg(int8send(date_part('epoch', hour)::bigint), '' ORDER BY hour, packet_bytes) AS hours,
    string_agg(array_send(array_replace(slot_minima_ms, NULL, 'NaN'::real)), '' ORDER BY hour, packet_bytes) AS minima
FROM burst_hour
WHERE
    path_id = ANY(%(path_ids)s) AND hour >= %(since)s::timestamptz AND hour < %(until)s::timestamptz
    AND slot_minima_ms IS NOT NULL
GROUP BY path_id
