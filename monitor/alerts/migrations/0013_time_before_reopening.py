from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("alerts", "0012_began_within")]

    operations = [
        migrations.AddField(
            model_name="incidentturn",
            name="earlier_began_at",
            field=models.DateTimeField(help_text="Of a reopening: the onset of the time before it.", null=True),
        ),
        migrations.AddField(
            model_name="incidentturn",
            name="earlier_ended_at",
            field=models.DateTimeField(help_text="Of a reopening: the last bad burst before it.", null=True),
        ),
    ]
