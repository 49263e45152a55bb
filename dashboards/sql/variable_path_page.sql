-- The page of the chosen path, packet size and period, or the home page without a path, as between a site and itself.
SELECT '/' || COALESCE(
    'paths/' || NULLIF(${path:sqlstring}, '') || '/?size=' || ${packet_bytes:sqlstring}
    || '&since=' || to_char($__timeFrom()::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI')
    || '&until=' || to_char($__timeTo()::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI'), ''
) AS __value
