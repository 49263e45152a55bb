"""Sites, hosts, tests and paths of mesh.toml, the slots of their schedule, and requests for single measurements."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

ID = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
RETIRED_AT = models.DateTimeField(help_text="When it left mesh.toml; null while it is in use.", null=True)
FAMILY = models.SmallIntegerField(choices=[(4, "IPv4"), (6, "IPv6")])
OUTCOMES = ("measured", "dns_failure", "not_permitted", "no_route", "tool_failure", "busy", "refused", "missed")
PERIOD = dict.fromkeys(("starts_at", "ends_at"), models.DateTimeField())


def exclusive(what, name):
    """The constraint that reservations of the same host or uplink do not overlap."""
    return ExclusionConstraint(
        expressions=[
            (models.Func(what, what, models.Value("[]"), function="int8range"), "&&"),
            (models.Func("starts_at", "ends_at", function="tstzrange"), "&&"),
        ],
        name=name,
    )


TABLES = [
    migrations.CreateModel(
        "Mesh",
        {
            "id": models.SmallIntegerField(default=1, primary_key=True, serialize=False),
            "name": models.TextField(),
            "home_site": models.TextField(blank=True, help_text="Site whose agent `manage.py up` runs."),
            "alerts": models.JSONField(
                default=dict, help_text="The [alerts] tables, as monitor.mesh.document.reader reads them."
            ),
            "applied_at": models.DateTimeField(),
            "service_levels": models.JSONField(default=dict, help_text="The [service_level] table, likewise."),
            "budgets": models.JSONField(default=dict, help_text="The [budget] tables, likewise."),
            "pings_until": models.DateTimeField(
                help_text="Until when agents are given on-demand pings; null if nobody has asked for any.", null=True
            ),
            "networks": models.JSONField(
                db_default={},
                default=dict,
                help_text="Name and AS number of own networks, by prefix: the [[network]] tables.",
            ),
            "traces_until": models.DateTimeField(
                help_text="Until when agents are given on-demand traces; null if none was asked for.", null=True
            ),
            "sweeps": models.JSONField(
                db_default={}, default=dict, help_text="Keys of the [[sweep]] tables, by name of the sweep."
            ),
        }.items(),
        {
            "db_table": "mesh",
            "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="only_one_mesh")],
        },
    ),
    migrations.CreateModel(
        "Site",
        {
            "id": ID,
            "name": models.TextField(unique=True),
            "title": models.TextField(),
            **dict.fromkeys(("latitude_deg", "longitude_deg"), models.FloatField()),
            "country": models.TextField(help_text="ISO 3166 alpha-2 code."),
            "region": models.TextField(),
            "has_agent": models.BooleanField(),
            "retired_at": RETIRED_AT,
            "contact": models.TextField(db_default="", default="", help_text="Contact, as free text."),
            "former_names": ArrayField(
                base_field=models.TextField(), db_default=[], default=list, help_text="Earlier names, as in mesh.toml."
            ),
        }.items(),
        {"db_table": "site", "ordering": ["name"]},
    ),
    migrations.CreateModel(
        "Uplink",
        {
            "id": ID,
            "name": models.TextField(),
            "retired_at": RETIRED_AT,
            "site": models.ForeignKey("mesh.site", models.PROTECT, related_name="uplinks"),
        }.items(),
        {
            "db_table": "uplink",
            "constraints": [models.UniqueConstraint(fields=("site", "name"), name="one_uplink_of_a_name_per_site")],
        },
    ),
    migrations.CreateModel(
        "Host",
        {
            "id": ID,
            "name": models.TextField(unique=True),
            "address": models.TextField(),
            "family": FAMILY,
            **dict.fromkeys(("for_ping", "for_throughput"), models.BooleanField(default=True)),
            "retired_at": RETIRED_AT,
            "site": models.ForeignKey("mesh.site", models.PROTECT, related_name="hosts"),
            "uplink": models.ForeignKey("mesh.uplink", models.PROTECT, null=True, related_name="hosts"),
            "interface": models.TextField(help_text="Interface or VRF by which its pings leave.", null=True),
            "namespace": models.TextField(help_text="Network namespace from which its pings are sent.", null=True),
            "peers": models.JSONField(
                db_default=[], default=list, help_text="Other addresses for some sites: as PeerEntry of mesh.toml."
            ),
            "iperf3_ports": ArrayField(
                base_field=models.IntegerField(), help_text="First and last port of a public iperf3 server.", null=True
            ),
            "behind_nat": models.BooleanField(
                db_default=False, default=False, help_text="Whether no other host can reach it first, as in mesh.toml."
            ),
        }.items(),
        {"db_table": "host", "ordering": ["name"]},
    ),
    migrations.CreateModel(
        "Group",
        {
            "id": ID,
            "name": models.TextField(unique=True),
            "shape": models.TextField(),
            "retired_at": RETIRED_AT,
            "sites": models.ManyToManyField("mesh.site", related_name="groups"),
        }.items(),
        {"db_table": "site_group", "ordering": ["name"]},
    ),
    migrations.CreateModel(
        "Test",
        {
            "id": ID,
            "name": models.TextField(unique=True),
            "kind": models.TextField(help_text="Name of its kind in probes.kinds."),
            "every_s": models.PositiveIntegerField(),
            "parameters": models.JSONField(default=dict),
            "retired_at": RETIRED_AT,
            "priority": models.SmallIntegerField(db_default=0, help_text="of throughput tests: higher goes first"),
            "slip_s": models.PositiveIntegerField(
                help_text="maximum delay of its slots; null: within the period", null=True
            ),
        }.items(),
        {"db_table": "test", "ordering": ["name"]},
    ),
    migrations.CreateModel(
        "Path",
        {
            "id": ID,
            "family": FAMILY,
            "retired_at": RETIRED_AT,
            "destination": models.ForeignKey("mesh.host", models.PROTECT, related_name="paths_in"),
            "source": models.ForeignKey("mesh.host", models.PROTECT, related_name="paths_out"),
        }.items(),
        {
            "db_table": "path",
            "constraints": [models.UniqueConstraint(fields=("source", "destination"), name="one_path_per_pair")],
        },
    ),
    migrations.CreateModel(
        "Measurement",
        {
            "id": ID,
            "started_at": models.DateTimeField(),
            "retired_at": RETIRED_AT,
            "path": models.ForeignKey("mesh.path", models.PROTECT, related_name="measurements"),
            "test": models.ForeignKey("mesh.test", models.PROTECT, related_name="measurements"),
        }.items(),
        {
            "db_table": "measurement",
            "constraints": [models.UniqueConstraint(fields=("path", "test"), name="one_measurement_per_path_and_test")],
        },
    ),
    migrations.CreateModel(
        "MeasurementPeriod",
        {
            "id": ID,
            "every_s": models.PositiveIntegerField(),
            "packet_bytes": ArrayField(base_field=models.IntegerField(), default=list),
            "started_at": models.DateTimeField(),
            "ended_at": models.DateTimeField(help_text="Null while active.", null=True),
            "measurement": models.ForeignKey("mesh.measurement", models.PROTECT, related_name="periods"),
            "pattern": models.TextField(db_default="burst", default="burst", help_text="of pings: burst or even"),
        }.items(),
        {
            "db_table": "measurement_period",
            "constraints": [
                models.UniqueConstraint(
                    condition=models.Q(("ended_at__isnull", True)), fields=("measurement",), name="one_period_at_a_time"
                )
            ],
        },
    ),
    migrations.CreateModel(
        "Slot",
        {
            "id": ID,
            **PERIOD,
            "outcome": models.TextField(
                choices=[(outcome, outcome) for outcome in OUTCOMES],
                null=True,
            ),
            "detail": models.TextField(blank=True),
            "measurement": models.ForeignKey("mesh.measurement", models.PROTECT, related_name="slots"),
            "carried_bytes": models.BigIntegerField(
                help_text="bytes sent by the test; null without figures", null=True
            ),
            "served": models.JSONField(
                help_text="as probes.transfers.spec.ServerReport; null without a report", null=True
            ),
            "lead": models.ForeignKey(
                "mesh.slot",
                models.CASCADE,
                db_constraint=False,
                db_index=False,
                help_text="of an aggregate test's other members: the slot of its first, which has the reservations",
                null=True,
                related_name="members",
            ),
        }.items(),
        {
            "db_table": "slot",
            "indexes": [
                models.Index(fields=["measurement", "starts_at"], name="slot_by_measurement"),
                models.Index(
                    condition=models.Q(("outcome__isnull", True)), fields=["ends_at"], name="open_slot_by_end"
                ),
                models.Index(condition=models.Q(("lead__isnull", False)), fields=["lead"], name="slot_by_lead"),
            ],
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="slot_ends_after_start"
                )
            ],
        },
    ),
    migrations.CreateModel(
        "SlotHost",
        {
            "id": ID,
            **PERIOD,
            "host": models.ForeignKey("mesh.host", models.PROTECT, related_name="+"),
            "slot": models.ForeignKey("mesh.slot", models.CASCADE, related_name="hosts"),
        }.items(),
        {
            "db_table": "slot_host",
            "constraints": [exclusive("host", "one_slot_per_host_at_a_time")],
            "indexes": [models.Index(fields=["ends_at"], name="slot_host_by_end")],
        },
    ),
    migrations.CreateModel(
        "SlotUplink",
        {
            "id": ID,
            **PERIOD,
            "slot": models.ForeignKey("mesh.slot", models.CASCADE, related_name="uplinks"),
            "uplink": models.ForeignKey("mesh.uplink", models.PROTECT, related_name="+"),
        }.items(),
        {
            "db_table": "slot_uplink",
            "constraints": [exclusive("uplink", "one_slot_per_uplink_at_a_time")],
        },
    ),
    migrations.CreateModel(
        "SlotRequest",
        {
            "slot": models.OneToOneField(
                "mesh.slot", models.CASCADE, primary_key=True, related_name="request", serialize=False
            ),
            "asked_at": models.DateTimeField(),
            "asked_by": models.TextField(),
            "parameters": models.JSONField(),
        }.items(),
        {"db_table": "slot_request"},
    ),
    migrations.CreateModel(
        "PingRequest",
        {
            "id": ID,
            "asked_at": models.DateTimeField(),
            "asked_by": models.TextField(),
            "path": models.ForeignKey("mesh.path", models.PROTECT, related_name="ping_requests"),
        }.items(),
        {
            "db_table": "ping_request",
            "indexes": [models.Index(fields=["path", "-asked_at"], name="ping_request_by_path")],
        },
    ),
    migrations.CreateModel(
        "PingRun",
        {
            "id": ID,
            "fetched_at": models.DateTimeField(help_text="When its agent got it with its plan.", null=True),
            "started_at": models.DateTimeField(help_text="By the centre's clock, as the agent reported it.", null=True),
            "rtts_ms": ArrayField(
                base_field=models.FloatField(null=True),
                default=list,
                help_text="In sending order, null without a reply.",
            ),
            "awaited": ArrayField(
                base_field=models.SmallIntegerField(),
                default=list,
                help_text="Indices of rtts_ms that may still be answered.",
            ),
            "outcome": models.TextField(
                help_text="Of probes.contract.Outcome, or not_taken_up; null until it ended.", null=True
            ),
            "detail": models.TextField(blank=True),
            "ended_at": models.DateTimeField(null=True),
            "path": models.ForeignKey("mesh.path", models.PROTECT, related_name="ping_runs"),
            "request": models.ForeignKey("mesh.pingrequest", models.CASCADE, related_name="runs"),
        }.items(),
        {
            "db_table": "ping_run",
            "constraints": [
                models.UniqueConstraint(
                    condition=models.Q(("ended_at", None)), fields=("path",), name="one_ping_run_per_path_at_a_time"
                )
            ],
        },
    ),
    migrations.CreateModel(
        "TraceRequest",
        {
            "id": ID,
            "reason": models.TextField(help_text="As probes.trace.spec.TraceReason."),
            "asked_at": models.DateTimeField(),
            "asked_by": models.TextField(help_text="A user, or an incident."),
            "fetched_at": models.DateTimeField(help_text="When its agent got it with its plan.", null=True),
            "path": models.ForeignKey("mesh.path", models.PROTECT, related_name="trace_requests"),
        }.items(),
        {
            "db_table": "trace_request",
            "indexes": [models.Index(fields=["path", "-asked_at"], name="trace_request_by_path")],
        },
    ),
]


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("mesh", "0001_mesh"), ("mesh", "0002_on_demand_pings"), ("mesh", "0003_networks"),
        ("mesh", "0004_on_demand_traces"), ("mesh", "0005_measurement_pattern"), ("mesh", "0006_host_egress"),
        ("mesh", "0007_host_iperf3_ports"), ("mesh", "0008_slot_host_by_end"), ("mesh", "0009_sweeps"),
        ("mesh", "0010_slot_lead"), ("mesh", "0011_slot_by_lead"), ("mesh", "0013_former_names"),
        ("mesh", "0014_host_behind_nat"),
    ]  # fmt: skip

    dependencies = []

    operations = TABLES
