-- Those of these throughput slots that there are: slot_id and the path that it is for.
SELECT slot.id AS slot_id, measurement.path_id
FROM slot
INNER JOIN measurement ON measurement.id = slot.measurement_id
WHERE slot.id = ANY(%(slot_ids)s::bigint[])
