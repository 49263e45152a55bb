-- One row: how many bytes a day the mesh, as it is now, brings to each hypertable, its indexes included. A burst takes
-- 192 bytes and 4 for each round trip, as tests.bench measures; the others' rows are of one size.
SELECT
    sum(cycles * sizes * (192 + 4 * coalesce((parameters ->> 'count')::integer, 0))) FILTER (WHERE sizes > 0) AS burst,
    sum(least(cycles, 24) * sizes * 360) FILTER (WHERE sizes > 0) AS burst_hour,
    sum(cycles * 2000) FILTER (WHERE kind = 'throughput') AS throughput_test,
    sum(cycles * 300) FILTER (WHERE kind = 'capacity') AS capacity_result
FROM (
    SELECT
        test.kind,
        test.parameters,
        86400.0 / plan.every_s AS cycles,
        cardinality(plan.packet_bytes) AS sizes
    FROM measurement_period AS plan
    INNER JOIN measurement ON measurement.id = plan.measurement_id
    INNER JOIN test ON test.id = measurement.test_id
    WHERE plan.ended_at IS NULL
) AS planned
