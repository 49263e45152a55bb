-- What the plan of a site depends on besides its measurements, as one row: name, has_agent; mesh, pings_until and
-- traces_until, null before the first apply; has_reflectors and has_servers, whether tests of these kinds are in use;
-- epoch and slots_epoch; has_slots, whether an open slot of the site begins before `horizon`; enters_at, the begin of
-- the first that begins later.
SELECT
    site.name, site.has_agent, mesh.name AS mesh, mesh.pings_until, mesh.traces_until,
    EXISTS (SELECT FROM test WHERE test.retired_at IS NULL AND test.kind = %(reflected)s) AS has_reflectors,
    EXISTS (SELECT FROM test WHERE test.retired_at IS NULL AND test.kind = %(answered)s) AS has_servers,
    plan_epoch.epoch, plan_epoch.slots_epoch, open_slot.has_slots, open_slot.enters_at
FROM site
LEFT JOIN mesh ON TRUE
LEFT JOIN plan_epoch ON TRUE
CROSS JOIN LATERAL (
    SELECT
        coalesce(bool_or(slot.starts_at < %(horizon)s), FALSE) AS has_slots,
        min(slot.starts_at) FILTER (WHERE slot.starts_at >= %(horizon)s) AS enters_at
    FROM slot
    INNER JOIN measurement ON measurement.id = slot.measurement_id
    INNER JOIN path ON path.id = measurement.path_id
    INNER JOIN host AS source ON source.id = path.source_id
    INNER JOIN host AS destination ON destination.id = path.destination_id
    WHERE
        slot.outcome IS NULL AND slot.ends_at > %(now)s
        AND (source.site_id = site.id OR destination.site_id = site.id)
) AS open_slot
WHERE site.id = %(site_id)s
