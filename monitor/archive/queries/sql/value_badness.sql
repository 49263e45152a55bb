-- All lost, a value, none or only failed tests, no data; then by value, then by path.
row_number() OVER (
    ORDER BY
        CASE
            WHEN sent IS NULL THEN 0 WHEN sent > 0 AND received = 0 THEN 4 WHEN sent = 0 OR value IS NULL THEN 1 ELSE 3
        END,
        {sign} value NULLS FIRST, path_id DESC
)
