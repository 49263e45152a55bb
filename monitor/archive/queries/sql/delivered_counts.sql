-- One row for each site that ever delivered: how many results of it ever came, those that were refused included.
SELECT site.name AS site, sum(upper(numbers) - lower(numbers))::bigint AS delivered
FROM delivered_day
CROSS JOIN unnest(sequences) AS numbers
INNER JOIN site ON site.id = delivered_day.site_id
GROUP BY site.name
ORDER BY site.name
