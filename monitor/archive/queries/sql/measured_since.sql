-- One row for each site in use: when the first of its paths in use, from it or to it, began to be pinged or tested.
SELECT ends.site_id, min(measurement.started_at) AS since
FROM path
INNER JOIN measurement ON measurement.path_id = path.id
INNER JOIN test ON test.id = measurement.test_id
INNER JOIN host AS source ON source.id = path.source_id
INNER JOIN host AS destination ON destination.id = path.destination_id
CROSS JOIN LATERAL (VALUES (source.site_id), (destination.site_id)) AS ends (site_id)
INNER JOIN site ON site.id = ends.site_id
WHERE path.retired_at IS NULL AND site.retired_at IS NULL AND test.kind IN ('ping', 'tcp-ping', 'stamp', 'throughput')
GROUP BY ends.site_id
