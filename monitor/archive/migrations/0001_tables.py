"""Results, their summaries, the records of deliveries, throughput sweeps, and the records of the archive about itself.

The time series are hypertables where the server has TimescaleDB; plain tables, with the same rows and indexes, where it
has not. Only functions of TimescaleDB's Apache edition. A server that has the extension's files but does not preload
its library cannot create it; it counts as a server without.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

from monitor.archive.fields import RealField
from monitor.archive.migrations._fields import BURST_SUMMARY, BURST_SUMMARY_INDEXES, THROUGHPUT_SUMMARY, TIERS, key
from monitor.archive.migrations._records import RECORDS

CHUNK_INTERVALS = {
    ("burst", "measured_at"): "1 day",
    ("throughput_test", "measured_at"): "30 days",
    ("burst_hour", "hour"): "30 days",
    ("capacity_result", "measured_at"): "30 days",
}
USABLE = """
    SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'timescaledb')
        OR (EXISTS (SELECT FROM pg_available_extensions WHERE name = 'timescaledb')
            AND EXISTS (SELECT FROM pg_settings WHERE name = 'shared_preload_libraries'
                        AND 'timescaledb' = ANY(string_to_array(replace(setting, ' ', ''), ','))))
"""
MAKE_HYPERTABLE = "SELECT create_hypertable(%s, by_range(%s, %s::interval), create_default_indexes => FALSE)"

# A sketch that would make a row wide is kept beside the table, so that queries of counts alone stay fast.
KEEP_SKETCHES_OUT_OF_ROW = """
    ALTER TABLE burst_{tier}
        ALTER COLUMN rtt_sketch SET STORAGE EXTERNAL,
        ALTER COLUMN ipdv_sketch SET STORAGE EXTERNAL,
        SET (toast_tuple_target = 512)
"""


def make_hypertables(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(USABLE)
        (usable,) = cursor.fetchone()
        if not usable:
            return
        cursor.execute("CREATE EXTENSION IF NOT EXISTS timescaledb")
        for (table, column), interval in CHUNK_INTERVALS.items():
            cursor.execute(MAKE_HYPERTABLE, [table, column, interval])


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("archive", "0001_initial"),
        ("archive", "0002_hypertables"),
        ("archive", "0003_what_a_burst_says"),
        ("archive", "0004_capacity_result"),
        ("archive", "0005_summaries_of_all_tiers"),
        ("archive", "0006_delivered_day"),
        ("archive", "0007_what_a_transfer_says"),
        ("archive", "0008_ledger"),
        ("archive", "0009_no_index_twice"),
        ("archive", "0010_transfers_in_columns"),
        ("archive", "0011_no_intervals"),
        ("archive", "0012_undiagnosed_tests"),
        ("archive", "0014_disk_to_disk"),
        ("archive", "0015_throughput_sweeps"),
        ("archive", "0019_bounds_of_records"),
        ("archive", "0020_last_run"),
    ]

    dependencies = [("mesh", "0001_mesh")]

    operations = [
        migrations.CreateModel(
            name="Burst",
            fields=[
                key("path_id", "measured_at", "packet_bytes"),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
                ("packet_bytes", models.IntegerField()),
                ("outcome", models.TextField()),
                ("sent", models.SmallIntegerField()),
                ("received", models.SmallIntegerField()),
                ("duplicates", models.SmallIntegerField()),
                ("reordered", models.SmallIntegerField()),
                ("ttl", models.SmallIntegerField(null=True)),
                ("during_test", models.BooleanField()),
                ("stamp", models.TextField(null=True)),
                ("address", models.GenericIPAddressField(null=True)),
                ("detail", models.TextField(null=True)),
                (
                    "rtts_ms",
                    ArrayField(
                        base_field=RealField(null=True), help_text="in sending order, null for lost packets", size=None
                    ),
                ),
                ("clock_source", models.TextField(null=True)),
                (
                    "errors",
                    models.JSONField(
                        help_text="ICMP errors, as probes.ping.spec.IcmpError; null without any", null=True
                    ),
                ),
                (
                    "late",
                    models.SmallIntegerField(db_default=0, help_text="lost packets with a reply after the timeout"),
                ),
                ("path_mtu_bytes", models.IntegerField(null=True)),
                (
                    "rate_limited",
                    models.BooleanField(
                        help_text="ICMP rate limiting: loss grows with our own rate; null if unknown", null=True
                    ),
                ),
                ("stamps_lost", models.SmallIntegerField(db_default=0)),
                ("ttl_changes", models.SmallIntegerField(db_default=0)),
                (
                    "waited",
                    models.SmallIntegerField(db_default=0, help_text="requests delayed by a full send buffer"),
                ),
            ],
            options={"db_table": "burst", "indexes": [models.Index(fields=["measured_at"], name="burst_by_time")]},
        ),
        migrations.CreateModel(
            name="ThroughputTest",
            fields=[
                key("path_id", "measured_at"),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
                ("test", models.TextField()),
                ("slot_id", models.BigIntegerField(null=True)),
                ("outcome", models.TextField()),
                ("streams", models.SmallIntegerField()),
                ("duration_s", models.FloatField(null=True)),
                ("throughput_bps", models.FloatField(null=True)),
                ("sent_bytes", models.BigIntegerField(null=True)),
                ("received_bytes", models.BigIntegerField(null=True)),
                ("retransmits", models.IntegerField(null=True)),
                ("rtt_mean_ms", RealField(null=True)),
                ("congestion_control", models.TextField(null=True)),
                ("tool", models.TextField(null=True)),
                ("detail", models.TextField(null=True)),
                (
                    "average_bps",
                    models.FloatField(help_text="of the whole test, without the tool's omitted seconds", null=True),
                ),
                ("steady_s", models.FloatField(help_text="null if throughput_bps is the average", null=True)),
                ("protocol", models.TextField(db_default="tcp", help_text="tcp or udp")),
                ("asked_bps", models.FloatField(help_text="requested sending rate", null=True)),
                (
                    "verdict",
                    models.TextField(help_text="its bottleneck, as monitor.analysis.transfer.Verdict", null=True),
                ),
                ("sentence", models.TextField(help_text="the verdict with its evidence, in words", null=True)),
                (
                    "diagnosis",
                    models.JSONField(help_text="details, as monitor.archive.diagnosis.findings.Findings", null=True),
                ),
                ("transfer", models.JSONField(help_text="as probes.throughput.spec.Transfer", null=True)),
            ],
            options={
                "db_table": "throughput_test",
                "indexes": [models.Index(fields=["measured_at"], name="throughput_by_time")],
            },
        ),
        migrations.CreateModel(
            name="DiskToDiskTest",
            fields=[
                key("path_id", "measured_at"),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
                ("test", models.TextField()),
                ("slot_id", models.BigIntegerField(null=True)),
                ("outcome", models.TextField()),
                ("tool", models.TextField(help_text="fetch or iperf3")),
                ("streams", models.SmallIntegerField()),
                ("file_bytes", models.BigIntegerField(null=True)),
                (
                    "moved_bytes",
                    models.BigIntegerField(help_text="bytes of the file within the permitted time", null=True),
                ),
                ("moving_s", models.FloatField(help_text="time until the last byte arrived", null=True)),
                (
                    "syncing_s",
                    models.FloatField(help_text="from then on, until the receiver's disk had all bytes", null=True),
                ),
                ("disk_to_disk_bps", models.FloatField(help_text="over both times together", null=True)),
                ("memory_to_memory_bps", models.FloatField(null=True)),
                ("read_bps", models.FloatField(help_text="of the sender's disk alone", null=True)),
                (
                    "read_cached_ratio",
                    models.FloatField(help_text="share of the file that was still in memory", null=True),
                ),
                (
                    "write_bps",
                    models.FloatField(help_text="of the receiver's disk alone, including the sync", null=True),
                ),
                (
                    "is_verified",
                    models.BooleanField(help_text="checksums match; null if not compared", null=True),
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
        migrations.CreateModel(
            name="CapacityResult",
            fields=[
                key("path_id", "measured_at"),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
                ("test", models.TextField()),
                ("outcome", models.TextField()),
                ("verdict", models.TextField(null=True)),
                ("capacity_bps", models.FloatField(null=True)),
                ("capacity_low_bps", models.FloatField(null=True)),
                ("capacity_high_bps", models.FloatField(null=True)),
                ("packet_bytes", models.IntegerField(help_text="of ICMP payload", null=True)),
                ("sent", models.SmallIntegerField()),
                ("received", models.SmallIntegerField()),
                ("method", models.TextField(null=True)),
                ("during_test", models.BooleanField()),
                ("address", models.GenericIPAddressField(null=True)),
                ("detail", models.TextField(null=True)),
            ],
            options={
                "db_table": "capacity_result",
                "indexes": [models.Index(fields=["measured_at"], name="capacity_by_time")],
            },
        ),
        migrations.CreateModel(
            name="UndiagnosedTest",
            fields=[
                key("path_id", "measured_at"),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
            ],
            options={"db_table": "undiagnosed_test"},
        ),
        *(
            migrations.CreateModel(
                name=f"Burst{tier.title()}",
                fields=[
                    key("path_id", "packet_bytes", tier),
                    *BURST_SUMMARY,
                    (tier, models.DateTimeField()),
                ],
                options={"db_table": f"burst_{tier}", "indexes": BURST_SUMMARY_INDEXES[tier]},
            )
            for tier in TIERS
        ),
        *(
            migrations.CreateModel(
                name=f"Throughput{tier.title()}",
                fields=[
                    key("path_id", tier),
                    *THROUGHPUT_SUMMARY,
                    (tier, models.DateTimeField()),
                ],
                options={"db_table": f"throughput_{tier}"},
            )
            for tier in TIERS
        ),
        migrations.CreateModel(
            name="DirtyHour",
            fields=[
                key("path_id", "hour"),
                ("path_id", models.IntegerField()),
                ("hour", models.DateTimeField()),
                ("marked_at", models.DateTimeField()),
            ],
            options={"db_table": "dirty_hour"},
        ),
        migrations.CreateModel(
            name="DirtySummary",
            fields=[
                key("tier", "path_id", "starts_at"),
                ("tier", models.TextField(help_text="day, month or year")),
                ("path_id", models.IntegerField()),
                ("starts_at", models.DateTimeField()),
                ("marked_at", models.DateTimeField()),
            ],
            options={"db_table": "dirty_summary"},
        ),
        *RECORDS,
        migrations.RunPython(make_hypertables, migrations.RunPython.noop),
        migrations.RunSQL([KEEP_SKETCHES_OUT_OF_ROW.format(tier=tier) for tier in TIERS], migrations.RunSQL.noop),
    ]
