-- Part of sql/table.sql: a {tick} from shorter summaries, a row for each path and packet size.
    UNION ALL
    SELECT
        source, destination, %(tick_{number})s::timestamptz, ({value})::double precision AS value,
        ({packets})::double precision AS packets, {outage} AS outage
    FROM (
{pooled}
    ) AS summary
    INNER JOIN place USING (path_id)
