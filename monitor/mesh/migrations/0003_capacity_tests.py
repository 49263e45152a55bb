from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("mesh", "0002_periods_and_exclusive_slots"),
    ]

    operations = [
        migrations.AlterField(
            model_name="test",
            name="kind",
            field=models.TextField(choices=[("ping", "Ping"), ("throughput", "Throughput"), ("capacity", "Capacity")]),
        ),
    ]
