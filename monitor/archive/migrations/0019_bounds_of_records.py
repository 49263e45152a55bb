"""From when on records are kept, and how large each table was. New tables, small."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("archive", "0018_leaps_are_no_gaps")]

    operations = [
        migrations.CreateModel(
            name="KeptSince",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.TextField(help_text="ledger or slots")),
                ("since", models.DateTimeField()),
            ],
            options={
                "db_table": "kept_since",
                "constraints": [models.UniqueConstraint(fields=("key",), name="one_time_a_key")],
            },
        ),
        migrations.CreateModel(
            name="TableSize",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "name", "at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.TextField()),
                ("at", models.DateTimeField()),
                ("row_estimate", models.BigIntegerField()),
                ("total_bytes", models.BigIntegerField()),
            ],
            options={"db_table": "table_size"},
        ),
    ]
