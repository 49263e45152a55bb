-- Common table expressions of baselines: the ranges of hours left out of each path, and the days of those before
-- hours_since.
left_out AS MATERIALIZED (
    SELECT path_id, to_timestamp(first_hour * 3600.0) AS begins, to_timestamp(end_hour * 3600.0) AS ends
    FROM
        unnest(%(left_out_paths)s::integer[], %(left_out_first)s::bigint[], %(left_out_end)s::bigint[])
            AS hours_of_path (path_id, first_hour, end_hour)
),
left_out_days AS (
    SELECT DISTINCT path_id, day
    FROM
        left_out,
        generate_series(date_trunc('day', begins, 'UTC'), ends - interval '1 hour', '1 day') AS day
    WHERE day < %(hours_since)s::timestamptz
)
