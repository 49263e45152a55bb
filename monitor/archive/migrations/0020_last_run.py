"""When the rules were last evaluated and notifications sent out, so that a worker that stopped is noticed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("archive", "0019_bounds_of_records")]

    operations = [
        migrations.CreateModel(
            name="LastRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.TextField()),
                ("at", models.DateTimeField()),
            ],
            options={
                "db_table": "last_run",
                "constraints": [models.UniqueConstraint(fields=("name",), name="one_last_run_a_name")],
            },
        ),
    ]
