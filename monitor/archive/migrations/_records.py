"""Tables of `0001_tables` that hold records: of deliveries, of sweeps, of the archive about itself."""

from django.db import migrations, models

from monitor.archive.fields import MultirangeField
from monitor.archive.migrations._fields import ID, SITE, key

RECORDS = [
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
            "constraints": [models.UniqueConstraint(fields=("site", "spool", "sequence"), name="result_refused_once")],
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
            "constraints": [models.UniqueConstraint(fields=("site", "spool", "day"), name="one_row_a_spool_and_day")],
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
]
