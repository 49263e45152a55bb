import django.db.models.deletion
from django.db import migrations, models

import monitor.archive.fields


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0001_initial"),
        ("archive", "0005_summaries_of_all_tiers"),
    ]

    operations = [
        migrations.CreateModel(
            name="DeliveredDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("spool", models.TextField()),
                ("day", models.DateField()),
                ("sequences", monitor.archive.fields.MultirangeField(help_text="of numbers in the agent's spool")),
                (
                    "site",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="+", to="mesh.site"),
                ),
            ],
            options={
                "db_table": "delivered_day",
                "constraints": [
                    models.UniqueConstraint(fields=("site", "spool", "day"), name="one_row_a_spool_and_day")
                ],
            },
        ),
    ]
