"""Results, their summaries, routes, the records of deliveries, sweeps, and the records of the archive about itself.

The time series are hypertables where the server has TimescaleDB; plain tables, with the same rows and indexes, where it
has not. Only functions of TimescaleDB's Apache edition. A server that has the extension's files but does not preload
its library cannot create it; it counts as a server without.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import migrations, models

from monitor.archive.fields import MultirangeField, RealField

TIERS = ("hour", "day", "month", "year")
CHUNK_INTERVALS = {
    ("burst", "measured_at"): "1 day",
    ("throughput_test", "measured_at"): "30 days",
    ("burst_hour", "hour"): "30 days",
    ("capacity_result", "measured_at"): "30 days",
    ("trace", "measured_at"): "7 days",
    ("direction_burst", "measured_at"): "1 day",
    ("interface_result", "measured_at"): "7 days",
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
        ALTER COLUMN loaded_rtt_sketch SET STORAGE EXTERNAL,
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


def key(*columns):
    """The primary key of these columns."""
    return models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False)


ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
# Without an index of its own: each of these tables has a key that begins with it.
SITE = models.ForeignKey("mesh.site", models.PROTECT, db_index=False, related_name="+")
PATH_AND_TIME = {
    "pk": key("path_id", "measured_at"),
    "path_id": models.IntegerField(),
    "measured_at": models.DateTimeField(),
}
OF_SLOT = {"test": models.TextField(), "slot_id": models.BigIntegerField(null=True), "outcome": models.TextField()}
BURST_SUMMARY = {
    **dict.fromkeys(("path_id", "packet_bytes"), models.IntegerField()),
    "bursts": models.IntegerField(help_text="measured, except during throughput tests"),
    **dict.fromkeys(
        ("bursts_all_lost", "bursts_none_lost", "bursts_during_test", "bursts_not_measured"),
        models.IntegerField(),
    ),
    "bursts_planned": models.IntegerField(
        help_text="planned by the mesh, to the end of the period; null without a plan", null=True
    ),
    "bursts_duplicated": models.IntegerField(db_default=0, help_text="with any duplicate"),
    "bursts_reordered": models.IntegerField(db_default=0, help_text="with any reply out of order"),
    **dict.fromkeys(("sent", "received"), models.IntegerField()),
    "late": models.IntegerField(db_default=0, help_text="lost packets with a reply after the timeout"),
    **dict.fromkeys(("duplicates", "reordered"), models.IntegerField()),
    "losses_followed": models.IntegerField(db_default=0, help_text="losses followed by a packet of their burst"),
    "losses_paired": models.IntegerField(db_default=0, help_text="losses followed by a loss"),
    "loss_max_ratio": RealField(
        help_text="of the worst burst of an hour; of longer periods, of the worst hour", null=True
    ),
    **dict.fromkeys(
        ("rtt_min_ms", "rtt_p25_ms", "rtt_median_ms", "rtt_p75_ms", "rtt_p90_ms", "rtt_p95_ms", "rtt_max_ms"),
        RealField(null=True),
    ),
    "rtt_avg_ms": models.FloatField(null=True),
    "rtt_iqr_ms": models.FloatField(help_text="mean of the interquartile ranges of bursts", null=True),
    "ipdv_ms": RealField(help_text="interquartile range of the signed differences of consecutive RTTs", null=True),
    "received_avg_ratio": models.FloatField(help_text="mean of received / sent of bursts", null=True),
    "received_max_ratio": models.FloatField(null=True),
    "rate_avg_per_ms": models.FloatField(help_text="mean of 1 / mean RTT of bursts", null=True),
    **dict.fromkeys(("rate_max_per_ms", "estimate_bps"), models.FloatField(null=True)),
    "estimate_is_floor": models.BooleanField(null=True),
    "rtt_sketch": models.BinaryField(help_text="monitor.analysis.sketches, in ms", null=True),
    "ipdv_sketch": models.BinaryField(help_text="of the signed differences of consecutive RTTs, in ms", null=True),
}
LOADED = {
    "bursts_excluded": models.FloatField(
        help_text="of bursts, their shares sent during our own tests, added", null=True
    ),
    "loaded_sent": models.IntegerField(help_text="during our own tests; null where none is known", null=True),
    "loaded_received": models.IntegerField(null=True),
    **dict.fromkeys(("loaded_rtt_median_ms", "loaded_rtt_p95_ms"), RealField(null=True)),
    "loaded_rtt_sketch": models.BinaryField(help_text="as rtt_sketch", null=True),
}
SLOT_MINIMA = {
    "slot_minima_ms": ArrayField(
        base_field=RealField(null=True),
        help_text="minimum RTT of each 5 minutes; null without replies",
        null=True,
    ),
}
BURST_SUMMARY_INDEXES = {
    "hour": [models.Index(fields=["hour"], name="burst_hour_by_hour")],
    "day": [models.Index(fields=["day"], name="burst_day_by_day")],
    "month": [models.Index(fields=["packet_bytes", "month"], name="burst_month_by_size_and_month")],
    "year": [],
}
THROUGHPUT_SUMMARY = {
    **dict.fromkeys(("path_id", "tests", "tests_measured", "slots_planned"), models.IntegerField()),
    **dict.fromkeys(
        ("throughput_min_bps", "throughput_median_bps", "throughput_max_bps", "throughput_avg_bps"),
        models.FloatField(null=True),
    ),
    "throughput_sketch": models.BinaryField(help_text="monitor.analysis.sketches, in bit/s", null=True),
}
DIRECTION_SUMMARY = {
    **dict.fromkeys(("path_id", "bursts"), models.IntegerField()),
    "bursts_counted": models.IntegerField(help_text="with counters of the reflector"),
    "bursts_delayed": models.IntegerField(help_text="with timestamps of the reflector"),
    **dict.fromkeys(("sent", "received", "counted", "forward_lost"), models.BigIntegerField()),
    "forward_lossy": models.IntegerField(),
    **dict.fromkeys(("forward_duplicates", "forward_reordered"), models.BigIntegerField(null=True)),
    **dict.fromkeys(
        ("forward_min_ms", "forward_avg_ms", "forward_variation_ms", "forward_ipdv_ms"),
        models.FloatField(null=True),
    ),
    "reverse_lost": models.BigIntegerField(),
    "reverse_lossy": models.IntegerField(),
    **dict.fromkeys(("reverse_duplicates", "reverse_reordered"), models.BigIntegerField(null=True)),
    **dict.fromkeys(
        (
            "reverse_min_ms",
            "reverse_avg_ms",
            "reverse_variation_ms",
            "reverse_ipdv_ms",
            "offset_lo_ms",
            "offset_hi_ms",
        ),
        models.FloatField(null=True),
    ),
}

TABLES = [
    migrations.CreateModel(
        "Burst",
        {
            "pk": key("path_id", "measured_at", "packet_bytes"),
            "path_id": models.IntegerField(),
            "measured_at": models.DateTimeField(),
            "packet_bytes": models.IntegerField(),
            "outcome": models.TextField(),
            **dict.fromkeys(("sent", "received", "duplicates", "reordered"), models.SmallIntegerField()),
            "ttl": models.SmallIntegerField(null=True),
            "during_test": models.BooleanField(),
            "stamp": models.TextField(null=True),
            "address": models.GenericIPAddressField(null=True),
            "detail": models.TextField(null=True),
            "rtts_ms": ArrayField(base_field=RealField(null=True), help_text="in sending order, null for lost packets"),
            "clock_source": models.TextField(null=True),
            "errors": models.JSONField(
                help_text="ICMP errors, as probes.packets.spec.IcmpError; null without any", null=True
            ),
            "late": models.SmallIntegerField(db_default=0, help_text="lost packets with a reply after the timeout"),
            "path_mtu_bytes": models.IntegerField(null=True),
            "rate_limited": models.BooleanField(
                help_text="ICMP rate limiting: loss grows with our own rate; null if unknown", null=True
            ),
            **dict.fromkeys(("stamps_lost", "ttl_changes"), models.SmallIntegerField(db_default=0)),
            "waited": models.SmallIntegerField(db_default=0, help_text="requests delayed by a full send buffer"),
            "loaded_rtts_ms": ArrayField(
                base_field=RealField(null=True),
                help_text="of packets sent during a throughput test of ours, in no other column; empty where all "
                "of them were",
                null=True,
            ),
            "flow": models.IntegerField(
                help_text="ICMP checksum of its requests, as in traces; null if not reported", null=True
            ),
            "source_address": models.GenericIPAddressField(help_text="local address of its requests", null=True),
        }.items(),
        {"db_table": "burst", "indexes": [models.Index(fields=["measured_at"], name="burst_by_time")]},
    ),
    migrations.CreateModel(
        "ThroughputTest",
        {
            **PATH_AND_TIME,
            **OF_SLOT,
            "streams": models.SmallIntegerField(),
            **dict.fromkeys(("duration_s", "throughput_bps"), models.FloatField(null=True)),
            **dict.fromkeys(("sent_bytes", "received_bytes"), models.BigIntegerField(null=True)),
            "retransmits": models.IntegerField(null=True),
            "rtt_mean_ms": RealField(null=True),
            **dict.fromkeys(("congestion_control", "tool", "detail"), models.TextField(null=True)),
            "average_bps": models.FloatField(
                help_text="of the whole test, without the tool's omitted seconds", null=True
            ),
            "steady_s": models.FloatField(help_text="null if throughput_bps is the average", null=True),
            "protocol": models.TextField(db_default="tcp", help_text="tcp or udp"),
            "asked_bps": models.FloatField(help_text="requested sending rate", null=True),
            "verdict": models.TextField(help_text="its bottleneck, as monitor.analysis.transfer.Verdict", null=True),
            "sentence": models.TextField(help_text="the verdict with its evidence, in words", null=True),
            "diagnosis": models.JSONField(
                help_text="details, as monitor.archive.diagnosis.findings.Findings", null=True
            ),
            "transfer": models.JSONField(help_text="as probes.transfers.spec.Transfer", null=True),
            **dict.fromkeys(
                ("receiver_inventory_id", "sender_inventory_id"),
                models.BigIntegerField(help_text="in host_inventory", null=True),
            ),
        }.items(),
        {"db_table": "throughput_test", "indexes": [models.Index(fields=["measured_at"], name="throughput_by_time")]},
    ),
    migrations.CreateModel(
        "DiskToDiskTest",
        {
            **PATH_AND_TIME,
            **OF_SLOT,
            "tool": models.TextField(help_text="fetch or iperf3"),
            "streams": models.SmallIntegerField(),
            "file_bytes": models.BigIntegerField(null=True),
            "moved_bytes": models.BigIntegerField(help_text="bytes of the file within the permitted time", null=True),
            "moving_s": models.FloatField(help_text="time until the last byte arrived", null=True),
            "syncing_s": models.FloatField(
                help_text="from then on, until the receiver's disk had all bytes", null=True
            ),
            "disk_to_disk_bps": models.FloatField(help_text="over both times together", null=True),
            "memory_to_memory_bps": models.FloatField(null=True),
            "read_bps": models.FloatField(help_text="of the sender's disk alone", null=True),
            "read_cached_ratio": models.FloatField(help_text="share of the file that was still in memory", null=True),
            "write_bps": models.FloatField(help_text="of the receiver's disk alone, including the sync", null=True),
            "is_verified": models.BooleanField(help_text="checksums match; null if not compared", null=True),
            **dict.fromkeys(("verdict", "sentence", "detail"), models.TextField(null=True)),
        }.items(),
        {
            "db_table": "disk_to_disk_test",
            "indexes": [models.Index(fields=["measured_at"], name="disk_to_disk_by_time")],
        },
    ),
    migrations.CreateModel(
        "CapacityResult",
        {
            **PATH_AND_TIME,
            **dict.fromkeys(("test", "outcome"), models.TextField()),
            "verdict": models.TextField(null=True),
            **dict.fromkeys(("capacity_bps", "capacity_low_bps", "capacity_high_bps"), models.FloatField(null=True)),
            "packet_bytes": models.IntegerField(help_text="of ICMP payload", null=True),
            **dict.fromkeys(("sent", "received"), models.SmallIntegerField()),
            "method": models.TextField(null=True),
            "during_test": models.BooleanField(),
            "address": models.GenericIPAddressField(null=True),
            "detail": models.TextField(null=True),
        }.items(),
        {"db_table": "capacity_result", "indexes": [models.Index(fields=["measured_at"], name="capacity_by_time")]},
    ),
    migrations.CreateModel("UndiagnosedTest", {**PATH_AND_TIME}.items(), {"db_table": "undiagnosed_test"}),
    *(
        migrations.CreateModel(
            f"Burst{tier.title()}",
            {
                "pk": key("path_id", "packet_bytes", tier),
                **BURST_SUMMARY,
                tier: models.DateTimeField(),
                **LOADED,
                **(SLOT_MINIMA if tier == "hour" else {}),
            }.items(),
            {"db_table": f"burst_{tier}", "indexes": BURST_SUMMARY_INDEXES[tier]},
        )
        for tier in TIERS
    ),
    *(
        migrations.CreateModel(
            f"Throughput{tier.title()}",
            {"pk": key("path_id", tier), **THROUGHPUT_SUMMARY, tier: models.DateTimeField()}.items(),
            {"db_table": f"throughput_{tier}"},
        )
        for tier in TIERS
    ),
    migrations.CreateModel(
        "DirtyHour",
        {
            "pk": key("path_id", "hour"),
            "path_id": models.IntegerField(),
            **dict.fromkeys(("hour", "marked_at"), models.DateTimeField()),
        }.items(),
        {"db_table": "dirty_hour"},
    ),
    migrations.CreateModel(
        "DirtySummary",
        {
            "pk": key("tier", "path_id", "starts_at"),
            "tier": models.TextField(help_text="day, month or year"),
            "path_id": models.IntegerField(),
            **dict.fromkeys(("starts_at", "marked_at"), models.DateTimeField()),
        }.items(),
        {"db_table": "dirty_summary"},
    ),
    migrations.CreateModel(
        "ReceivedBatch",
        {
            "id": ID,
            "spool": models.TextField(),
            "number": models.BigIntegerField(),
            **dict.fromkeys(("received_at", "sent_at"), models.DateTimeField()),
            "agent_version": models.TextField(),
            **dict.fromkeys(("accepted", "refused"), models.IntegerField()),
            "queued": models.IntegerField(help_text="results left in the agent's spool"),
            "dropped": models.IntegerField(help_text="results dropped by the agent's spool, total"),
            "site": SITE,
            "measured_from": models.DateTimeField(
                help_text="earliest start of its measurements; null without any", null=True
            ),
        }.items(),
        {
            "db_table": "received_batch",
            "indexes": [models.Index(fields=["site", "-received_at"], name="batch_by_site_and_time")],
            "constraints": [models.UniqueConstraint(fields=("site", "spool", "number"), name="batch_stored_once")],
        },
    ),
    migrations.CreateModel(
        "RefusedResult",
        {
            "id": ID,
            "spool": models.TextField(),
            "sequence": models.BigIntegerField(),
            "refused_at": models.DateTimeField(),
            "reason": models.TextField(),
            "result": models.JSONField(),
            "site": SITE,
        }.items(),
        {
            "db_table": "refused_result",
            "constraints": [models.UniqueConstraint(fields=("site", "spool", "sequence"), name="result_refused_once")],
        },
    ),
    migrations.CreateModel(
        "DeliveredDay",
        {
            "id": ID,
            "spool": models.TextField(),
            "day": models.DateField(),
            "sequences": MultirangeField(help_text="sequence numbers of the agent's spool"),
            "site": SITE,
        }.items(),
        {
            "db_table": "delivered_day",
            "constraints": [models.UniqueConstraint(fields=("site", "spool", "day"), name="one_row_a_spool_and_day")],
        },
    ),
    migrations.CreateModel(
        "AgentAccount",
        {
            "site": models.OneToOneField(
                "mesh.site", models.PROTECT, primary_key=True, related_name="+", serialize=False
            ),
            **dict.fromkeys(("since", "until"), models.DateTimeField()),
        }.items(),
        {"db_table": "agent_account"},
    ),
    migrations.CreateModel(
        "AgentGap",
        {
            "id": ID,
            "test": models.TextField(blank=True, help_text="empty for all tests"),
            "every_s": models.IntegerField(default=0, help_text="0 for all periods"),
            "reason": models.TextField(),
            **dict.fromkeys(("since", "until"), models.DateTimeField()),
            "site": SITE,
        }.items(),
        {
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
        "CycleDay",
        {
            "pk": key("path_id", "test", "every_s", "day", "outcome"),
            "path_id": models.IntegerField(),
            "test": models.TextField(),
            "every_s": models.IntegerField(),
            "day": models.DateField(),
            "outcome": models.TextField(),
            "cycles": MultirangeField(help_text="cycle numbers"),
        }.items(),
        {"db_table": "cycle_day"},
    ),
    migrations.CreateModel(
        "ThroughputSweep",
        {
            "id": ID,
            "path_id": models.IntegerField(),
            "name": models.TextField(),
            "asked_at": models.DateTimeField(),
            "asked_by": models.TextField(),
            "problem": models.TextField(help_text="why the next test of a schedule could not be requested", null=True),
            "schedule": models.TextField(
                help_text="name of the [[sweep]] table; null if a user asked for it", null=True
            ),
        }.items(),
        {
            "db_table": "throughput_sweep",
            "indexes": [
                models.Index(
                    condition=models.Q(("schedule__isnull", False)),
                    fields=["path_id", "-asked_at"],
                    name="scheduled_sweep_by_path",
                )
            ],
        },
    ),
    migrations.CreateModel(
        "SweepCell",
        {
            "id": ID,
            "place": models.SmallIntegerField(help_text="rank in the order of running"),
            "parameters": models.JSONField(help_text="as monitor.mesh.schedule.on_demand.Settings"),
            "slot_id": models.BigIntegerField(null=True),
            **dict.fromkeys(("outcome", "detail"), models.TextField(null=True)),
            "measured_at": models.DateTimeField(null=True),
            **dict.fromkeys(("throughput_bps", "idle_rtt_ms"), models.FloatField(null=True)),
            **dict.fromkeys(("verdict", "sentence"), models.TextField(null=True)),
            "sweep": models.ForeignKey("archive.throughputsweep", models.CASCADE, db_index=False, related_name="cells"),
            "asked_at": models.DateTimeField(
                help_text="of the test; null for a sweep that a user asked for", null=True
            ),
            "segment_bytes": models.IntegerField(help_text="payload of the segments that were sent", null=True),
        }.items(),
        {
            "db_table": "throughput_sweep_cell",
            "constraints": [models.UniqueConstraint(fields=("sweep", "place"), name="one_cell_a_place")],
        },
    ),
    migrations.CreateModel(
        "CentreSample",
        {
            "at": models.DateTimeField(primary_key=True, serialize=False),
            "since": models.DateTimeField(help_text="start of the counts: the previous sample"),
            "accepted": models.IntegerField(help_text="results stored since then"),
            "refused": models.IntegerField(),
            "newest_measured_at": models.DateTimeField(help_text="newest of all results", null=True),
            "queued": models.BigIntegerField(help_text="results in all agents' spools, by their last reports"),
            "queue_length": models.IntegerField(
                help_text="tasks queued in Redis; null while Redis is unreachable", null=True
            ),
            "hours_waiting": models.IntegerField(help_text="pending rollups"),
            "waited_s": models.FloatField(help_text="age of the oldest; 0 without any"),
            "database_bytes": models.BigIntegerField(),
            "evaluated_at": models.DateTimeField(
                help_text="of the alert rules; null in samples of earlier releases", null=True
            ),
        }.items(),
        {"db_table": "centre_sample"},
    ),
    migrations.CreateModel(
        "TableSize",
        {
            "pk": key("name", "at"),
            "name": models.TextField(),
            "at": models.DateTimeField(),
            **dict.fromkeys(("row_estimate", "total_bytes"), models.BigIntegerField()),
        }.items(),
        {"db_table": "table_size"},
    ),
    migrations.CreateModel(
        "KeptSince",
        {
            "id": ID,
            "key": models.TextField(help_text="ledger, slots, or slot_minima while earlier ones are computed"),
            "since": models.DateTimeField(),
        }.items(),
        {"db_table": "kept_since", "constraints": [models.UniqueConstraint(fields=("key",), name="one_time_a_key")]},
    ),
    migrations.CreateModel(
        "LastRun",
        {"id": ID, "name": models.TextField(), "at": models.DateTimeField()}.items(),
        {
            "db_table": "last_run",
            "constraints": [models.UniqueConstraint(fields=("name",), name="one_last_run_a_name")],
        },
    ),
    migrations.CreateModel(
        "PathRoute",
        {
            "id": ID,
            "path_id": models.IntegerField(),
            "protocol": models.TextField(),
            **dict.fromkeys(("flow", "route_id"), models.BigIntegerField()),
            "since": models.DateTimeField(help_text="first trace"),
            "last_at": models.DateTimeField(help_text="last trace"),
            "until": models.DateTimeField(
                help_text="first trace on the next route; null for the present route", null=True
            ),
        }.items(),
        {
            "db_table": "path_route",
            "indexes": [
                models.Index(fields=["route_id"], name="path_route_by_route"),
                models.Index(fields=["since"], name="path_route_by_time"),
            ],
            "constraints": [
                models.UniqueConstraint(fields=("path_id", "protocol", "flow", "since"), name="path_route_by_flow"),
                models.UniqueConstraint(
                    condition=models.Q(("until", None)),
                    fields=("path_id", "protocol", "flow"),
                    name="path_route_at_present",
                ),
            ],
        },
    ),
    migrations.CreateModel(
        "Route",
        {
            "id": ID,
            "path_id": models.IntegerField(),
            "number": models.IntegerField(help_text="among the routes of the path, in order of their first traces"),
            "hops": ArrayField(
                base_field=models.TextField(null=True), help_text="addresses from TTL 1 on, null if never seen"
            ),
            "learned_at": ArrayField(base_field=models.DateTimeField(null=True), help_text="of each hop"),
            "reached_at": models.DateTimeField(help_text="null if no trace has reached the destination", null=True),
            "first_at": models.DateTimeField(help_text="of the first trace on it"),
        }.items(),
        {
            "db_table": "route",
            "indexes": [
                models.Index(fields=["path_id"], name="route_by_path"),
                GinIndex(fields=["hops"], name="route_by_hop"),
            ],
        },
    ),
    migrations.CreateModel(
        "Trace",
        {
            "pk": key("path_id", "measured_at", "protocol", "flow"),
            "path_id": models.IntegerField(),
            "measured_at": models.DateTimeField(),
            "protocol": models.TextField(),
            "flow": models.BigIntegerField(help_text="-1 if not known"),
            **dict.fromkeys(("test", "outcome"), models.TextField()),
            "reason": models.TextField(help_text="as probes.trace.spec.TraceReason"),
            "reached": models.BooleanField(),
            "route_id": models.BigIntegerField(help_text="null if no router replied", null=True),
            "sent": ArrayField(base_field=models.SmallIntegerField()),
            "rtts_ms": ArrayField(base_field=RealField(null=True)),
            "unknown_ttls": ArrayField(
                base_field=models.SmallIntegerField(),
                help_text="of hops that were silent or ended the trace with an error",
                null=True,
            ),
            "inferred_ttls": ArrayField(
                base_field=models.SmallIntegerField(),
                help_text="of hops that were probed for another target",
                null=True,
            ),
            "mpls": models.JSONField(help_text="label, traffic class and TTL of each entry of the stack", null=True),
            "errors": models.JSONField(help_text="name and router of the ICMP error that ended the trace", null=True),
            "others": models.JSONField(help_text="routers of other flows", null=True),
            "address": models.GenericIPAddressField(null=True),
            "during_test": models.BooleanField(),
            "detail": models.TextField(null=True),
            "flow_effect": models.JSONField(help_text="null for a trace of a single flow", null=True),
        }.items(),
        {"db_table": "trace", "indexes": [models.Index(fields=["measured_at"], name="trace_by_time")]},
    ),
    *(
        migrations.CreateModel(
            f"Direction{tier.title()}",
            {"pk": key("path_id", tier), **DIRECTION_SUMMARY, tier: models.DateTimeField()}.items(),
            {"db_table": f"direction_{tier}"},
        )
        for tier in TIERS
    ),
    migrations.CreateModel(
        "DirectionBurst",
        {
            "pk": key("path_id", "measured_at", "packet_bytes"),
            "path_id": models.IntegerField(),
            "measured_at": models.DateTimeField(),
            "packet_bytes": models.IntegerField(help_text="of UDP payload"),
            **dict.fromkeys(("test", "outcome"), models.TextField()),
            "during_test": models.BooleanField(),
            **dict.fromkeys(("sent", "received"), models.SmallIntegerField()),
            "undecided": models.SmallIntegerField(help_text="lost packets whose direction is not known"),
            "is_stateful": models.BooleanField(
                help_text="whether the reflector counts; null if undetermined", null=True
            ),
            "dscp": models.SmallIntegerField(),
            **dict.fromkeys(
                ("forward_lost", "forward_duplicates", "forward_reordered", "forward_ttl"),
                models.SmallIntegerField(null=True),
            ),
            **dict.fromkeys(
                ("forward_min_ms", "forward_median_ms", "forward_p95_ms", "forward_max_ms", "forward_ipdv_ms"),
                models.FloatField(null=True),
            ),
            **dict.fromkeys(
                ("reverse_lost", "reverse_duplicates", "reverse_reordered", "reverse_ttl"),
                models.SmallIntegerField(null=True),
            ),
            **dict.fromkeys(
                (
                    "reverse_min_ms",
                    "reverse_median_ms",
                    "reverse_p95_ms",
                    "reverse_max_ms",
                    "reverse_ipdv_ms",
                    "offset_lo_ms",
                    "offset_hi_ms",
                ),
                models.FloatField(null=True),
            ),
            "are_clocks_synchronised": models.BooleanField(
                help_text="both, as they claim; null if not known", null=True
            ),
            "stamp": models.TextField(null=True),
            "address": models.GenericIPAddressField(null=True),
            "detail": models.TextField(null=True),
            "peer_packets": models.IntegerField(
                help_text="of the far end, received by our own reflector since the cycle before; null if not known",
                null=True,
            ),
            "source_address": models.GenericIPAddressField(help_text="local address of its packets", null=True),
        }.items(),
        {"db_table": "direction_burst", "indexes": [models.Index(fields=["measured_at"], name="direction_by_time")]},
    ),
    migrations.CreateModel(
        "StoredInventory",
        {
            "id": ID,
            "digest": models.BinaryField(help_text="SHA-256 of its JSON", unique=True),
            "inventory": models.JSONField(help_text="as probes.transfers.hosts.spec.HostInventory"),
            "last_at": models.DateTimeField(help_text="of the newest test with it"),
        }.items(),
        {"db_table": "host_inventory"},
    ),
    migrations.CreateModel(
        "StoredCapture",
        {
            "pk": key("slot_id", "role"),
            "slot_id": models.BigIntegerField(),
            "role": models.TextField(help_text="sender or receiver"),
            "path_id": models.IntegerField(),
            "captured_at": models.DateTimeField(),
            "packets": models.IntegerField(),
            "left_out_packets": models.BigIntegerField(help_text="of the test, not captured"),
            "reason": models.TextField(help_text="why there are no packets", null=True),
            "pcap_zlib": models.BinaryField(null=True),
            "findings": models.JSONField(
                help_text="as monitor.archive.diagnosis.capture_findings.CaptureFindings", null=True
            ),
            "losses": models.JSONField(
                help_text="as monitor.analysis.packets.CaptureLosses; in the row of the sender alone", null=True
            ),
            "parts": models.JSONField(
                help_text="as probes.transfers.spec.CapturedPart; null: all up to the last", null=True
            ),
        }.items(),
        {
            "db_table": "throughput_capture",
            "indexes": [
                models.Index(
                    condition=models.Q(("findings__isnull", True), ("reason__isnull", True)),
                    fields=["captured_at"],
                    name="capture_without_findings",
                )
            ],
        },
    ),
    migrations.CreateModel(
        "PolicerResult",
        {
            **PATH_AND_TIME,
            **OF_SLOT,
            "verdict": models.TextField(help_text="policer, shaper, link, no_limit or undetermined", null=True),
            "sustained_bps": models.FloatField(help_text="of IP packets, headers included", null=True),
            **dict.fromkeys(("sustained_low_bps", "sustained_high_bps"), models.FloatField(null=True)),
            "burst_bytes": models.FloatField(help_text="bytes that pass at once above the rate", null=True),
            **dict.fromkeys(("burst_low_bytes", "burst_high_bytes"), models.FloatField(null=True)),
            "peak_bps": models.FloatField(help_text="rate at which the trains were sent", null=True),
            "packet_bytes": models.IntegerField(null=True),
            **dict.fromkeys(("sent", "received"), models.IntegerField()),
            "sent_bytes": models.BigIntegerField(),
            "delay_rise_ms": models.FloatField(null=True),
            **dict.fromkeys(("sentence", "detail"), models.TextField(null=True)),
        }.items(),
        {"db_table": "policer_result", "indexes": [models.Index(fields=["measured_at"], name="policer_by_time")]},
    ),
    migrations.CreateModel(
        "RequestResponseResult",
        {
            **PATH_AND_TIME,
            **dict.fromkeys(("test", "outcome"), models.TextField()),
            **dict.fromkeys(("request_bytes", "response_bytes"), models.IntegerField()),
            **dict.fromkeys(("transactions", "errors"), models.SmallIntegerField(db_default=0)),
            **dict.fromkeys(("minimum_ms", "median_ms", "p95_ms", "p99_ms", "maximum_ms"), RealField(null=True)),
            "transactions_per_s": models.FloatField(null=True),
            "payload_bytes_per_s": models.FloatField(help_text="requests and responses together", null=True),
            "connect_ms": RealField(help_text="TCP handshake", null=True),
            "setup_ms": RealField(help_text="exchange of the key", null=True),
            "first_ms": RealField(help_text="first transaction of the connection, in no other figure", null=True),
            "after_idle_ms": RealField(help_text="first transaction after idle, in no other figure", null=True),
            "retransmits": models.IntegerField(help_text="segments of requests", null=True),
            "far_retransmits": models.IntegerField(help_text="segments of responses", null=True),
            "during_test": models.BooleanField(),
            "address": models.GenericIPAddressField(null=True),
            "detail": models.TextField(null=True),
            "latencies_ms": ArrayField(base_field=RealField(), help_text="in their order"),
        }.items(),
        {
            "db_table": "request_response",
            "indexes": [models.Index(fields=["measured_at"], name="request_response_by_time")],
        },
    ),
    migrations.CreateModel(
        "AggregateMember",
        {
            **PATH_AND_TIME,
            "began_at": models.DateTimeField(
                help_text="begin of its data, by the sender's clock, corrected where it was wrong"
            ),
            "test": models.TextField(),
            "slot_id": models.BigIntegerField(null=True),
            "outcome": models.TextField(),
            "streams": models.SmallIntegerField(),
            "duration_s": models.FloatField(null=True),
            "throughput_bps": models.FloatField(
                help_text="of the whole test, without the tool's omitted seconds", null=True
            ),
            "protocol": models.TextField(),
            "asked_bps": models.FloatField(null=True),
            **dict.fromkeys(("sent_bytes", "received_bytes"), models.BigIntegerField(null=True)),
            "retransmits": models.IntegerField(null=True),
            "rtt_mean_ms": RealField(null=True),
            **dict.fromkeys(("congestion_control", "tool", "detail"), models.TextField(null=True)),
            "transfer": models.JSONField(help_text="as probes.transfers.spec.Transfer", null=True),
        }.items(),
        {
            "db_table": "aggregate_member",
            "indexes": [
                models.Index(fields=["measured_at"], name="aggregate_member_by_time"),
                models.Index(fields=["slot_id"], name="aggregate_member_by_slot"),
            ],
        },
    ),
    migrations.CreateModel(
        "AggregateRun",
        {
            "slot_id": models.BigIntegerField(help_text="of its first member", primary_key=True, serialize=False),
            **dict.fromkeys(("test", "shape"), models.TextField()),
            **dict.fromkeys(("starts_at", "ends_at"), models.DateTimeField()),
            "state": models.TextField(help_text="as monitor.analysis.aggregate.AggregateState"),
            "is_final": models.BooleanField(),
            "members": models.SmallIntegerField(),
            "measured": models.SmallIntegerField(help_text="members with a rate"),
            **dict.fromkeys(("sum_bps", "partial_sum_bps"), models.FloatField(null=True)),
            "fairness": models.FloatField(
                help_text="Jain's index of the members measured; null for fewer than two", null=True
            ),
            "common_began_at": models.DateTimeField(null=True),
            "common_s": models.FloatField(help_text="time in which all those sent", null=True),
            "start_spread_s": models.FloatField(help_text="from the first member's begin to the last's", null=True),
            "path_ids": models.JSONField(help_text="of its members"),
            "details": models.JSONField(help_text="as monitor.archive.queries.throughput.aggregates.AggregateDetails"),
            "computed_at": models.DateTimeField(),
        }.items(),
        {"db_table": "aggregate_run", "indexes": [models.Index(fields=["starts_at"], name="aggregate_run_by_time")]},
    ),
    migrations.CreateModel(
        "IdleRestartResult",
        {
            **PATH_AND_TIME,
            **OF_SLOT,
            "restarted": models.BooleanField(help_text="null where it cannot be told", null=True),
            "before_bps": models.FloatField(null=True),
            "is_steady": models.BooleanField(null=True),
            **dict.fromkeys(("cwnd_before", "cwnd_after"), models.IntegerField(help_text="segments", null=True)),
            **dict.fromkeys(
                ("timeout_s", "rtt_ms", "pause_s", "duration_s", "rise_s", "back_s"), models.FloatField(null=True)
            ),
            "setting": models.TextField(help_text="the sender's net.ipv4.tcp_slow_start_after_idle", null=True),
            "sent_bytes": models.BigIntegerField(null=True),
            **dict.fromkeys(("sentence", "detail"), models.TextField(null=True)),
        }.items(),
        {"db_table": "idle_restart", "indexes": [models.Index(fields=["measured_at"], name="idle_restart_by_time")]},
    ),
    migrations.CreateModel(
        "InterfaceResult",
        {
            "pk": key("path_id", "measured_at", "test"),
            "path_id": models.IntegerField(),
            "measured_at": models.DateTimeField(),
            **dict.fromkeys(("test", "outcome"), models.TextField()),
            **dict.fromkeys(("router", "interface", "alias"), models.TextField(null=True)),
            "speed_bps": models.FloatField(null=True),
            "interval_s": RealField(null=True),
            "in_bps": models.FloatField(help_text="received by the interface, with link headers", null=True),
            "out_bps": models.FloatField(help_text="sent by the interface, with link headers", null=True),
            **dict.fromkeys(
                ("in_errors", "out_errors", "in_drops", "out_drops"),
                models.BigIntegerField(help_text="packets", null=True),
            ),
            "during_test": models.BooleanField(),
            "detail": models.TextField(null=True),
        }.items(),
        {
            "db_table": "interface_result",
            "indexes": [models.Index(fields=["measured_at"], name="interface_result_by_time")],
        },
    ),
    migrations.CreateModel(
        "InterfaceWeek",
        {
            "pk": key("path_id", "test", "week"),
            "path_id": models.IntegerField(),
            "test": models.TextField(),
            "week": models.DateField(),
            "is_dirty": models.BooleanField(),
            "five_minutes": models.SmallIntegerField(
                help_text="averages that the percentiles are of, of 2,016", null=True
            ),
            **dict.fromkeys(("in_p95_bps", "out_p95_bps"), models.FloatField(null=True)),
            "speed_bps": models.FloatField(help_text="newest speed of the interface in the week", null=True),
        }.items(),
        {
            "db_table": "interface_week",
            "indexes": [
                models.Index(condition=models.Q(("is_dirty", True)), fields=["week"], name="interface_week_dirty")
            ],
        },
    ),
    migrations.CreateModel(
        "ColdFile",
        {
            "id": ID,
            "day": models.DateField(),
            "name": models.TextField(help_text="below the folder of cold bursts"),
            **dict.fromkeys(("first_path_id", "last_path_id"), models.IntegerField()),
            **dict.fromkeys(("bursts", "size_bytes"), models.BigIntegerField()),
            "sha256": models.TextField(),
            "day_bursts": models.BigIntegerField(
                help_text="of the whole day, in all files that were written with this file"
            ),
            "day_keys": models.DecimalField(
                decimal_places=0, help_text="sum of the hashes of their keys", max_digits=40
            ),
        }.items(),
        {
            "db_table": "cold_file",
            "constraints": [models.UniqueConstraint(fields=("day", "first_path_id", "name"), name="cold_file_by_day")],
        },
    ),
]


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("archive", "0001_tables"), ("archive", "0003_packets_under_load"), ("archive", "0004_evaluated_at"),
        ("archive", "0009_traces"), ("archive", "0012_burst_flow"), ("archive", "0013_directions"),
        ("archive", "0014_burst_source"), ("archive", "0015_flow_effect"), ("archive", "0016_host_inventory"),
        ("archive", "0017_peer_packets"), ("archive", "0019_direction_source"), ("archive", "0020_throughput_capture"),
        ("archive", "0021_scheduled_sweeps"), ("archive", "0023_policer_result"), ("archive", "0025_request_response"),
        ("archive", "0026_aggregates"), ("archive", "0027_slot_minima"), ("archive", "0028_capture_parts"),
        ("archive", "0029_idle_restart"), ("archive", "0030_interfaces"), ("archive", "0033_cold_files"),
        ("archive", "0034_measured_from"),
    ]  # fmt: skip

    dependencies = [("mesh", "0001_squashed_0014_tables")]

    operations = [
        *TABLES,
        migrations.RunPython(make_hypertables),
        migrations.RunSQL([KEEP_SKETCHES_OUT_OF_ROW.format(tier=tier) for tier in TIERS]),
    ]
