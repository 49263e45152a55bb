"""Results, their summaries, the records of deliveries, throughput sweeps, and the records of the archive about itself.

The time series are hypertables where the server has TimescaleDB; plain tables, with the same rows and indexes, where it
has not. Only functions of TimescaleDB's Apache edition. A server that has the extension's files but does not preload
its library cannot create it; it counts as a server without.
"""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

from monitor.archive.fields import MultirangeField, RealField

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

TIERS = ("hour", "day", "month", "year")
ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))
# Without an index of its own: each of these tables has a key that begins with it.
SITE = ("site", models.ForeignKey(db_index=False, on_delete=models.PROTECT, related_name="+", to="mesh.site"))
BURST_SUMMARY = [
    ("path_id", models.IntegerField()),
    ("packet_bytes", models.IntegerField()),
    ("bursts", models.IntegerField(help_text="measured, except during throughput tests")),
    ("bursts_all_lost", models.IntegerField()),
    ("bursts_none_lost", models.IntegerField()),
    ("bursts_during_test", models.IntegerField()),
    ("bursts_not_measured", models.IntegerField()),
    (
        "bursts_planned",
        models.IntegerField(help_text="planned by the mesh, to the end of the period; null without a plan", null=True),
    ),
    ("bursts_duplicated", models.IntegerField(db_default=0, help_text="with any duplicate")),
    ("bursts_reordered", models.IntegerField(db_default=0, help_text="with any reply out of order")),
    ("sent", models.IntegerField()),
    ("received", models.IntegerField()),
    ("late", models.IntegerField(db_default=0, help_text="lost packets with a reply after the timeout")),
    ("duplicates", models.IntegerField()),
    ("reordered", models.IntegerField()),
    (
        "losses_followed",
        models.IntegerField(db_default=0, help_text="losses followed by a packet of their burst"),
    ),
    (
        "losses_paired",
        models.IntegerField(db_default=0, help_text="losses followed by a loss"),
    ),
    (
        "loss_max_ratio",
        RealField(help_text="of the worst burst of an hour; of longer periods, of the worst hour", null=True),
    ),
    ("rtt_min_ms", RealField(null=True)),
    ("rtt_p25_ms", RealField(null=True)),
    ("rtt_median_ms", RealField(null=True)),
    ("rtt_p75_ms", RealField(null=True)),
    ("rtt_p90_ms", RealField(null=True)),
    ("rtt_p95_ms", RealField(null=True)),
    ("rtt_max_ms", RealField(null=True)),
    ("rtt_avg_ms", models.FloatField(null=True)),
    ("rtt_iqr_ms", models.FloatField(help_text="mean of the interquartile ranges of bursts", null=True)),
    ("ipdv_ms", RealField(help_text="interquartile range of the signed differences of consecutive RTTs", null=True)),
    (
        "received_avg_ratio",
        models.FloatField(help_text="mean of received / sent of bursts", null=True),
    ),
    ("received_max_ratio", models.FloatField(null=True)),
    (
        "rate_avg_per_ms",
        models.FloatField(help_text="mean of 1 / mean RTT of bursts", null=True),
    ),
    ("rate_max_per_ms", models.FloatField(null=True)),
    ("estimate_bps", models.FloatField(null=True)),
    ("estimate_is_floor", models.BooleanField(null=True)),
    ("rtt_sketch", models.BinaryField(help_text="monitor.analysis.sketches, in ms", null=True)),
    ("ipdv_sketch", models.BinaryField(help_text="of the signed differences of consecutive RTTs, in ms", null=True)),
]
THROUGHPUT_SUMMARY = [
    ("path_id", models.IntegerField()),
    ("tests", models.IntegerField()),
    ("tests_measured", models.IntegerField()),
    ("slots_planned", models.IntegerField()),
    ("throughput_min_bps", models.FloatField(null=True)),
    ("throughput_median_bps", models.FloatField(null=True)),
    ("throughput_max_bps", models.FloatField(null=True)),
    ("throughput_avg_bps", models.FloatField(null=True)),
    (
        "throughput_sketch",
        models.BinaryField(help_text="monitor.analysis.sketches, in bit/s", null=True),
    ),
]
BURST_SUMMARY_INDEXES = {
    "hour": [models.Index(fields=["hour"], name="burst_hour_by_hour")],
    "day": [models.Index(fields=["day"], name="burst_day_by_day")],
    "month": [models.Index(fields=["packet_bytes", "month"], name="burst_month_by_size_and_month")],
    "year": [],
}


def key(*columns):
    """The primary key of these columns."""
    return (
        "pk",
        models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False),
    )


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
        migrations.CreateModel(
            name="ReceivedBatch",
            fields=[
                ID,
                ("spool", models.TextField()),
                ("number", models.BigIntegerField()),
                ("received_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField()),
                ("agent_version", models.TextField()),
                ("accepted", models.IntegerField()),
                ("refused", models.IntegerField()),
                ("queued", models.IntegerField(help_text="results left in the agent's spool")),
                ("dropped", models.IntegerField(help_text="results dropped by the agent's spool, total")),
                SITE,
            ],
            options={
                "db_table": "received_batch",
                "indexes": [models.Index(fields=["site", "-received_at"], name="batch_by_site_and_time")],
                "constraints": [models.UniqueConstraint(fields=("site", "spool", "number"), name="batch_stored_once")],
            },
        ),
        migrations.CreateModel(
            name="RefusedResult",
            fields=[
                ID,
                ("spool", models.TextField()),
                ("sequence", models.BigIntegerField()),
                ("refused_at", models.DateTimeField()),
                ("reason", models.TextField()),
                ("result", models.JSONField()),
                SITE,
            ],
            options={
                "db_table": "refused_result",
                "constraints": [
                    models.UniqueConstraint(fields=("site", "spool", "sequence"), name="result_refused_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="DeliveredDay",
            fields=[
                ID,
                ("spool", models.TextField()),
                ("day", models.DateField()),
                ("sequences", MultirangeField(help_text="sequence numbers of the agent's spool")),
                SITE,
            ],
            options={
                "db_table": "delivered_day",
                "constraints": [
                    models.UniqueConstraint(fields=("site", "spool", "day"), name="one_row_a_spool_and_day")
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentAccount",
            fields=[
                (
                    "site",
                    models.OneToOneField(
                        on_delete=models.PROTECT, primary_key=True, related_name="+", serialize=False, to="mesh.site"
                    ),
                ),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
            ],
            options={"db_table": "agent_account"},
        ),
        migrations.CreateModel(
            name="AgentGap",
            fields=[
                ID,
                ("test", models.TextField(blank=True, help_text="empty for all tests")),
                ("every_s", models.IntegerField(default=0, help_text="0 for all periods")),
                ("reason", models.TextField()),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
                SITE,
            ],
            options={
                "db_table": "agent_gap",
                "indexes": [models.Index(fields=["site", "until"], name="gap_by_site_and_end")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("site", "test", "every_s", "reason", "since", "until"), name="gap_stored_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CycleDay",
            fields=[
                key("path_id", "test", "every_s", "day", "outcome"),
                ("path_id", models.IntegerField()),
                ("test", models.TextField()),
                ("every_s", models.IntegerField()),
                ("day", models.DateField()),
                ("outcome", models.TextField()),
                ("cycles", MultirangeField(help_text="cycle numbers")),
            ],
            options={"db_table": "cycle_day"},
        ),
        migrations.CreateModel(
            name="ThroughputSweep",
            fields=[
                ID,
                ("path_id", models.IntegerField()),
                ("name", models.TextField()),
                ("asked_at", models.DateTimeField()),
                ("asked_by", models.TextField()),
            ],
            options={"db_table": "throughput_sweep"},
        ),
        migrations.CreateModel(
            name="SweepCell",
            fields=[
                ID,
                ("place", models.SmallIntegerField(help_text="rank in the order of running")),
                ("parameters", models.JSONField(help_text="as monitor.mesh.schedule.on_demand.Settings")),
                ("slot_id", models.BigIntegerField(null=True)),
                ("outcome", models.TextField(null=True)),
                ("detail", models.TextField(null=True)),
                ("measured_at", models.DateTimeField(null=True)),
                ("throughput_bps", models.FloatField(null=True)),
                ("idle_rtt_ms", models.FloatField(null=True)),
                ("verdict", models.TextField(null=True)),
                ("sentence", models.TextField(null=True)),
                (
                    "sweep",
                    models.ForeignKey(
                        db_index=False, on_delete=models.CASCADE, related_name="cells", to="archive.throughputsweep"
                    ),
                ),
            ],
            options={
                "db_table": "throughput_sweep_cell",
                "constraints": [models.UniqueConstraint(fields=("sweep", "place"), name="one_cell_a_place")],
            },
        ),
        migrations.CreateModel(
            name="CentreSample",
            fields=[
                ("at", models.DateTimeField(primary_key=True, serialize=False)),
                ("since", models.DateTimeField(help_text="start of the counts: the previous sample")),
                ("accepted", models.IntegerField(help_text="results stored since then")),
                ("refused", models.IntegerField()),
                ("newest_measured_at", models.DateTimeField(help_text="newest of all results", null=True)),
                ("queued", models.BigIntegerField(help_text="results in all agents' spools, by their last reports")),
                (
                    "queue_length",
                    models.IntegerField(help_text="tasks queued in Redis; null while Redis is unreachable", null=True),
                ),
                ("hours_waiting", models.IntegerField(help_text="pending rollups")),
                ("waited_s", models.FloatField(help_text="age of the oldest; 0 without any")),
                ("database_bytes", models.BigIntegerField()),
            ],
            options={"db_table": "centre_sample"},
        ),
        migrations.CreateModel(
            name="TableSize",
            fields=[
                key("name", "at"),
                ("name", models.TextField()),
                ("at", models.DateTimeField()),
                ("row_estimate", models.BigIntegerField()),
                ("total_bytes", models.BigIntegerField()),
            ],
            options={"db_table": "table_size"},
        ),
        migrations.CreateModel(
            name="KeptSince",
            fields=[ID, ("key", models.TextField(help_text="ledger or slots")), ("since", models.DateTimeField())],
            options={
                "db_table": "kept_since",
                "constraints": [models.UniqueConstraint(fields=("key",), name="one_time_a_key")],
            },
        ),
        migrations.CreateModel(
            name="LastRun",
            fields=[ID, ("name", models.TextField()), ("at", models.DateTimeField())],
            options={
                "db_table": "last_run",
                "constraints": [models.UniqueConstraint(fields=("name",), name="one_last_run_a_name")],
            },
        ),
        migrations.RunPython(make_hypertables, migrations.RunPython.noop),
        migrations.RunSQL([KEEP_SKETCHES_OUT_OF_ROW.format(tier=tier) for tier in TIERS], migrations.RunSQL.noop),
    ]
