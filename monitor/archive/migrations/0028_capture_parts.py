from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0027_slot_minima"),
    ]

    operations = [
        migrations.AddField(
            model_name="storedcapture",
            name="parts",
            field=models.JSONField(
                help_text="as probes.throughput.spec.CapturedPart; null: all up to the last", null=True
            ),
        ),
        migrations.AlterField(
            model_name="storedcapture",
            name="left_out_packets",
            field=models.BigIntegerField(help_text="of the test, not captured"),
        ),
    ]
