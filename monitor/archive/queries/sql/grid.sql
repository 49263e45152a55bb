-- One row for each path and packet size with a summary in the period: the fields of monitor.archive.queries.tables.GridCell, then
-- what the value is made from where it is a quantile (see pooled.sql).
SELECT
    path_id, packet_bytes, {value} AS value, bursts, bursts_all_lost, bursts_during_test, bursts_not_measured, sent,
    received, {quantiles} AS quantiles, {weights} AS weights
FROM (
{pooled}
) AS summary
{places}
ORDER BY path_id, packet_bytes
