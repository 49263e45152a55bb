"""When the rules were last evaluated and notifications sent out, so that a worker that stopped is noticed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("archive", "0019_bounds_of_records")]

    operations = [
        migrations.CreateModel(
            name="LastRun",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
            ],
            options={"db_table": "last_run"},
        ),
    ]
