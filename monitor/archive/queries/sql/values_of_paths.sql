-- The packets of each path of the period with a metric's value, as rows of planned_figures.sql. A quantile has its own
-- rows, of medians_of_paths.sql.
SELECT
    path_id, NULL, NULL, NULL, bursts, bursts_all_lost, bursts_during_test, bursts_not_measured, sent, received,
    ({value})::double precision
FROM (
{pooled}
) AS summary
