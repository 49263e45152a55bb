-- The packets of each path of the period with a metric's value, as rows of planned_paths.sql. A quantile has its own
-- rows, of medians_of_paths.sql.
SELECT
    path_id, NULL, NULL, sent, received,
    ({value})::double precision
FROM (
{pooled}
) AS summary
