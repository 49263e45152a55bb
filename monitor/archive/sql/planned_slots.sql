-- How many throughput slots of a path were to begin in one {tier}.
SELECT count(*)::integer AS slots_planned
FROM slot
INNER JOIN measurement ON measurement.id = slot.measurement_id
INNER JOIN test ON test.id = measurement.test_id
WHERE
    test.kind = 'throughput' AND test.name <> 'on-demand'
    AND measurement.path_id = counted.path_id
    AND slot.starts_at >= {tier} AND slot.starts_at < {tier} + interval '1 {tier}'
