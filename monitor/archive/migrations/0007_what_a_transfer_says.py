"""What a throughput test leaves behind, in columns by interval, and what it says about the transfer.

The tests that are there are moved by 0010: nobody delivers while this one holds their table.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("archive", "0006_delivered_day")]

    operations = [
        migrations.AddField(
            "throughputtest",
            "average_bps",
            models.FloatField(help_text="of the whole test, what the tool omitted left out", null=True),
        ),
        migrations.AddField(
            "throughputtest",
            "steady_s",
            models.FloatField(help_text="null where throughput_bps is the average", null=True),
        ),
        migrations.AddField("throughputtest", "protocol", models.TextField(db_default="tcp", help_text="tcp or udp")),
        migrations.AddField(
            "throughputtest",
            "asked_bps",
            models.FloatField(help_text="the rate that the sender was told to keep to", null=True),
        ),
        migrations.AddField(
            "throughputtest",
            "verdict",
            models.TextField(help_text="what limited it, as monitor.analysis.transfer.Verdict", null=True),
        ),
        migrations.AddField(
            "throughputtest",
            "sentence",
            models.TextField(help_text="the verdict with its evidence, in words", null=True),
        ),
        migrations.AddField(
            "throughputtest",
            "diagnosis",
            models.JSONField(help_text="the rest of it, as monitor.archive.diagnosis.findings.Findings", null=True),
        ),
        migrations.AddField(
            "throughputtest", "transfer", models.JSONField(help_text="as probes.throughput.spec.Transfer", null=True)
        ),
    ]
