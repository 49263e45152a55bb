-- The stored tests of these slots await their diagnosis anew. One that is being diagnosed now is waited for: it may have been
-- looked at before this.
INSERT INTO undiagnosed_test (path_id, measured_at)
SELECT throughput_test.path_id, throughput_test.measured_at
FROM slot
INNER JOIN measurement ON measurement.id = slot.measurement_id
INNER JOIN throughput_test
    ON
        throughput_test.path_id = measurement.path_id
        AND throughput_test.measured_at >= slot.starts_at - interval '1 hour'
        AND throughput_test.measured_at < slot.ends_at + interval '1 hour'
        AND throughput_test.slot_id = slot.id
WHERE slot.id = ANY(%(slot_ids)s::bigint[]) AND throughput_test.transfer IS NOT NULL
ON CONFLICT (path_id, measured_at) DO UPDATE SET measured_at = excluded.measured_at
