-- One row for each pair and {tick} with a path that has a figure: source, destination, at, and the figures of its paths in
-- binary, for NumPy to take the median of: grouped in a hash and by several workers, where percentile_cont sorts all rows.
-- The pairs are found once for each path, not once for each of its summaries.
WITH place AS MATERIALIZED (
{places}
)
SELECT source, destination, {tick} AS at, string_agg(float8send(value), '') AS packed
FROM (
    SELECT source, destination, {tick}, ({value})::double precision AS value
    FROM {table} AS summary
    INNER JOIN place USING (path_id)
    WHERE
        {tick} >= %(since)s::timestamptz AND {tick} < %(until)s::timestamptz
        {size}
) AS figure
WHERE value IS NOT NULL
GROUP BY source, destination, {tick}
ORDER BY source, destination, at
