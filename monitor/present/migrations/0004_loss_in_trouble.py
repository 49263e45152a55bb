"""The loss of a path in trouble is that of the size or way that loses, as in the sentences."""

from django.db import migrations

WORDS = "'normal', 'awaited', 'own_tests', 'overdue', 'suspect', 'bad', 'flaps', 'dead', 'set_aside', 'not_permitted'"

# As in 0001, where a segment is explained.
VIEW = f"""
    CREATE OR REPLACE VIEW reporting.path_condition AS
    SELECT
        path.path_id, path.name, path.source, path.destination, path.family,
        (ARRAY[{WORDS}])[worst.condition + 1] AS condition,
        (loss.segment ->> 5)::double precision / nullif((loss.segment ->> 4)::double precision, 0) AS loss_ratio,
        to_timestamp((worst.segments -> -1 ->> 1)::double precision) AS since,
        pooled.newest_at,
        CASE WHEN worst.condition BETWEEN 4 AND 7 THEN (
            SELECT to_timestamp((stretch.segment ->> 1)::double precision)
            FROM (
                SELECT
                    segment, number, (segment ->> 0)::integer AS state,
                    lag((segment ->> 0)::integer, 1, 0) OVER (ORDER BY number) AS state_before
                FROM jsonb_array_elements(worst.segments) WITH ORDINALITY AS listed (segment, number)
            ) AS stretch
            WHERE stretch.state <> 0 AND stretch.state_before = 0
            ORDER BY stretch.number DESC
            LIMIT 1
        ) END AS onset_at
    FROM reporting.path AS path
    INNER JOIN (
        SELECT DISTINCT ON (path_id) path_id, condition, signal, segments
        FROM path_track
        ORDER BY path_id, condition DESC, signal, way, packet_bytes
    ) AS worst ON worst.path_id = path.path_id
    LEFT JOIN path_track AS pooled
        ON pooled.path_id = path.path_id AND pooled.signal = 0 AND pooled.way = '' AND pooled.packet_bytes = 0
    CROSS JOIN LATERAL (
        SELECT
            CASE WHEN worst.condition BETWEEN 4 AND 7 AND worst.signal = 0 THEN worst.segments ELSE pooled.segments END
            -> -1 AS segment
    ) AS loss
    WHERE NOT path.is_retired
"""


class Migration(migrations.Migration):
    dependencies = [("present", "0001_squashed_0003_tracks")]

    operations = [migrations.RunSQL(VIEW)]
