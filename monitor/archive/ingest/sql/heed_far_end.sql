-- Tests of these slots that were refused, and whose slots have ended in the outcome of the end that could not listen, take
-- that outcome too.
UPDATE throughput_test
SET outcome = slot.outcome, detail = slot.detail
FROM slot
INNER JOIN measurement ON measurement.id = slot.measurement_id
WHERE
    slot.id = ANY(%(slot_ids)s::bigint[])
    AND throughput_test.path_id = measurement.path_id
    AND throughput_test.measured_at >= slot.starts_at - interval '1 hour'
    AND throughput_test.measured_at < slot.ends_at + interval '1 hour'
    AND throughput_test.slot_id = slot.id
    AND throughput_test.outcome = 'refused'
    AND slot.outcome IN ('not_permitted', 'tool_failure', 'dns_failure')
