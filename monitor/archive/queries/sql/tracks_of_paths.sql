-- The condition of each track, when its newest burst was, and the loss of its newest segment, as rows of planned_paths.sql.
SELECT
    path_id, NULL, NULL, CASE WHEN %(is_current)s THEN condition END, newest_at,
    CASE WHEN packet_bytes = %(packet_bytes)s THEN loss_ratio END, CASE WHEN packet_bytes = 0 THEN loss_ratio END
FROM (
    SELECT
        path_id, condition, newest_at, packet_bytes,
        CASE
            WHEN signal = 0 AND way = ''
                THEN (segments -> -1 ->> 5)::double precision / nullif((segments -> -1 ->> 4)::double precision, 0)
        END AS loss_ratio
    FROM path_track
) AS track
