-- One row for each site and day of the period on which results began that came: the fields of
-- monitor.archive.queries.operation.completeness.SiteDay. A gap in the numbers of a spool counts for the day of the result after it; a spool
-- counts from 1. A gap of more than `largest_gap` numbers is no gap: the numbers go on from there. Reads all that is known of a spool, a row a day, since a gap may have begun long before the period.
WITH stretch AS (
    SELECT site_id, spool, day, unnest(sequences) AS numbers
    FROM delivered_day
    WHERE (%(site_ids)s::integer[] IS NULL OR site_id = ANY(%(site_ids)s::integer[])) AND day < %(until)s::date
),

gap AS (
    SELECT
        site_id,
        day,
        upper(numbers) - lower(numbers) AS delivered,
        lower(numbers) - coalesce(
            max(upper(numbers)) OVER (
                PARTITION BY site_id, spool ORDER BY lower(numbers) ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            least(lower(numbers), 1)
        ) AS missing
    FROM stretch
)

SELECT site_id, day, sum(delivered)::bigint AS delivered, coalesce(sum(missing) FILTER (WHERE missing BETWEEN 0 AND %(largest_gap)s), 0)::bigint AS missing
FROM gap
WHERE day >= %(since)s::date
GROUP BY site_id, day
ORDER BY site_id, day
