"""The turns of incidents that were there before their history was kept, as far as their rows still tell."""

from django.db import migrations

FROM_ROWS = """
INSERT INTO incident_turn (incident_id, at, turn, note)
SELECT id, at, turn, note FROM (
    SELECT id, opened_at AS at, 'found' AS turn, summary AS note FROM incident
    UNION ALL SELECT id, reopened_at, 'reopened', '' FROM incident WHERE reopened_at IS NOT NULL
    UNION ALL SELECT id, acknowledged_at, 'acknowledged', acknowledged_by FROM incident
        WHERE acknowledged_at IS NOT NULL
    UNION ALL SELECT id, closed_at, 'resolved', closing FROM incident WHERE closed_at IS NOT NULL
) AS told
WHERE NOT EXISTS (SELECT FROM incident_turn WHERE incident_turn.incident_id = told.id)
ORDER BY id, at
"""


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0004_history_and_deeds"),
    ]

    operations = [
        migrations.RunSQL(FROM_ROWS, migrations.RunSQL.noop),
    ]
