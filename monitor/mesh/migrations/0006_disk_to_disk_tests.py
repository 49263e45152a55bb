from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mesh", "0005_uplinks_requests_and_budgets")]

    operations = [
        migrations.AlterField(
            model_name="test",
            name="kind",
            field=models.TextField(
                choices=[
                    ("ping", "Ping"),
                    ("throughput", "Throughput"),
                    ("capacity", "Capacity"),
                    ("disk-to-disk", "Disk To Disk"),
                ]
            ),
        ),
    ]
