"""Diagnosis moves out of the delivery: which tests still await it. Those stored so far have theirs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0011_no_intervals"),
    ]

    operations = [
        migrations.CreateModel(
            name="UndiagnosedTest",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "measured_at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
            ],
            options={
                "db_table": "undiagnosed_test",
            },
        ),
    ]
