-- How many throughput slots of a path were to begin in one {tier}, of all kinds that store throughput tests; the count of the
-- summary before where its slots are not kept.
SELECT CASE
    WHEN {tier} < (SELECT since FROM kept_since WHERE key = 'slots') THEN coalesce((
        SELECT summary.slots_planned FROM throughput_{tier} AS summary
        WHERE summary.path_id = counted.path_id AND summary.{tier} = counted.{tier}
    ), 0)
    ELSE (
        SELECT count(*)::integer
        FROM slot
        INNER JOIN measurement ON measurement.id = slot.measurement_id
        INNER JOIN test ON test.id = measurement.test_id
        WHERE
            test.kind = ANY(%(throughput_kinds)s::text[]) AND test.name <> 'on-demand'
            AND measurement.path_id = counted.path_id
            AND slot.starts_at >= {tier} AND slot.starts_at < {tier} + interval '1 {tier}'
    )
END AS slots_planned
