-- One row for each pair and {tick} with a path that has a figure: source, destination, at, and the figures of its paths in
-- binary, for NumPy to take the median of: grouped in a hash and by several workers, where percentile_cont sorts all rows.
-- `packets` has what each path sent, in the same order, where that is asked for; `has_outage` is whether any of them had
-- a burst without any reply, and others. The pairs are found once for each path,
-- not once for each of its summaries. Ticks that their summaries do not have in full yet come from `running`.
WITH place AS MATERIALIZED (
{places}
)
SELECT
    source, destination, {tick} AS at, string_agg(float8send(value), '') AS packed,
    string_agg(float8send(packets), '') AS packets, coalesce(bool_or(outage), FALSE) AS has_outage
FROM (
    SELECT
        source, destination, {tick}, ({value})::double precision AS value, ({packets})::double precision AS packets,
        {outage} AS outage
    FROM {table} AS summary
    INNER JOIN place USING (path_id)
    WHERE
        {tick} >= %(since)s::timestamptz AND {tick} < %(until)s::timestamptz
        {size}
{running}
) AS figure
WHERE value IS NOT NULL
GROUP BY source, destination, {tick}
ORDER BY source, destination, at
