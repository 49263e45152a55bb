-- Deletes up to %(most)s incidents that were closed before a moment, with all that belongs to them. One stays while a
-- notification of it is to be sent, and with its parts until all of them were closed by then. What was done about it
-- stays too, without it. One row: how many went.
WITH old AS (
    SELECT id FROM incident
    WHERE
        closed_at < %(before)s::timestamptz
        AND NOT EXISTS (
            SELECT FROM incident AS part
            WHERE part.merged_into_id = incident.id AND coalesce(part.closed_at, 'infinity') >= %(before)s::timestamptz
        )
        AND NOT EXISTS (
            SELECT FROM incident AS whole
            WHERE whole.id = incident.merged_into_id AND coalesce(whole.closed_at, 'infinity') >= %(before)s::timestamptz
        )
        AND NOT EXISTS (
            SELECT FROM notification
            WHERE notification.incident_id = incident.id AND notification.state IN ('waiting', 'sending')
        )
    LIMIT %(most)s
    FOR UPDATE SKIP LOCKED
),

parts AS (
    UPDATE incident SET merged_into_id = NULL
    WHERE merged_into_id IN (SELECT id FROM old) AND id NOT IN (SELECT id FROM old)
),

paths AS (DELETE FROM incident_path USING old WHERE incident_path.incident_id = old.id),

evidence AS (DELETE FROM incident_evidence USING old WHERE incident_evidence.incident_id = old.id),

turns AS (DELETE FROM incident_turn USING old WHERE incident_turn.incident_id = old.id),

notifications AS (DELETE FROM notification USING old WHERE notification.incident_id = old.id),

deeds AS (UPDATE deed SET incident_id = NULL FROM old WHERE deed.incident_id = old.id),

gone AS (DELETE FROM incident USING old WHERE incident.id = old.id RETURNING 1)

SELECT count(*) FROM gone
