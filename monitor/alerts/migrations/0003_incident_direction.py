from django.db import migrations, models

BEGAN_OF_EVIDENCE = """
UPDATE incident SET began_at = (incident_evidence.facts -> 'began' ->> 'at')::timestamptz
FROM incident_evidence
WHERE incident_evidence.incident_id = incident.id AND incident.began_at IS NULL
"""


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0002_levels_and_onset"),
    ]

    operations = [
        migrations.AddField(
            model_name="incident",
            name="toward",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="Direction that loses packets, as throughput tests tell it where pings cannot; "
                "empty if unknown.",
            ),
        ),
        migrations.AlterField(
            model_name="incidentpath",
            name="since",
            field=models.DateTimeField(
                help_text="Start as the rule dates it: of its window of packets or tests, the last reply before, or "
                "the first burst at a new RTT. The onset is the incident's began_at."
            ),
        ),
        # The title has the onset from here; that of incidents from before 0002 lies in their evidence only.
        migrations.RunSQL(BEGAN_OF_EVIDENCE, migrations.RunSQL.noop),
    ]
