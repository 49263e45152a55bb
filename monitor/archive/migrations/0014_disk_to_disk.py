"""Disk-to-disk measurements. A plain table: a path has a few of them a day."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("archive", "0013_reporting")]

    operations = [
        migrations.CreateModel(
            name="DiskToDiskTest",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id", "measured_at", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
                ("test", models.TextField()),
                ("slot_id", models.BigIntegerField(null=True)),
                ("outcome", models.TextField()),
                ("tool", models.TextField(help_text="fetch or iperf3")),
                ("streams", models.SmallIntegerField()),
                ("file_bytes", models.BigIntegerField(null=True)),
                ("moved_bytes", models.BigIntegerField(help_text="of the file, in the time that it had", null=True)),
                ("moving_s", models.FloatField(help_text="until the last byte had arrived", null=True)),
                (
                    "syncing_s",
                    models.FloatField(help_text="from then on, until the receiver's disk had all", null=True),
                ),
                ("disk_to_disk_bps", models.FloatField(help_text="of both times together", null=True)),
                ("memory_to_memory_bps", models.FloatField(null=True)),
                ("read_bps", models.FloatField(help_text="of the sender's disk alone", null=True)),
                (
                    "read_cached_ratio",
                    models.FloatField(help_text="of the file that memory still held then", null=True),
                ),
                (
                    "write_bps",
                    models.FloatField(help_text="of the receiver's disk alone, until it had all", null=True),
                ),
                (
                    "is_verified",
                    models.BooleanField(help_text="checksums are alike; null where nobody looked", null=True),
                ),
                ("verdict", models.TextField(null=True)),
                ("sentence", models.TextField(null=True)),
                ("detail", models.TextField(null=True)),
            ],
            options={
                "db_table": "disk_to_disk_test",
                "indexes": [models.Index(fields=["measured_at"], name="disk_to_disk_by_time")],
            },
        ),
    ]
