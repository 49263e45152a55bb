"""Sites, hosts, tests and paths of mesh.toml, and the slots of their schedule."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

ID = ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"))
RETIRED_AT = (
    "retired_at",
    models.DateTimeField(help_text="When it left mesh.toml; null while it is in use.", null=True),
)


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("mesh", "0001_initial"),
        ("mesh", "0002_periods_and_exclusive_slots"),
        ("mesh", "0003_capacity_tests"),
        ("mesh", "0004_service_levels"),
        ("mesh", "0005_uplinks_requests_and_budgets"),
        ("mesh", "0006_disk_to_disk_tests"),
        ("mesh", "0007_whom_to_call"),
        ("mesh", "0008_any_kind_of_test"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Mesh",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("name", models.TextField()),
                ("home_site", models.TextField(blank=True, help_text="Site whose agent `manage.py up` runs.")),
                (
                    "alerts",
                    models.JSONField(
                        default=dict, help_text="The [alerts] tables, as monitor.mesh.document.reader reads them."
                    ),
                ),
                ("applied_at", models.DateTimeField()),
                ("service_levels", models.JSONField(default=dict, help_text="The [service_level] table, likewise.")),
                ("budgets", models.JSONField(default=dict, help_text="The [budget] tables, likewise.")),
            ],
            options={
                "db_table": "mesh",
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="only_one_mesh")],
            },
        ),
        migrations.CreateModel(
            name="Site",
            fields=[
                ID,
                ("name", models.TextField(unique=True)),
                ("title", models.TextField()),
                ("latitude_deg", models.FloatField()),
                ("longitude_deg", models.FloatField()),
                ("country", models.TextField(help_text="ISO 3166 alpha-2 code.")),
                ("region", models.TextField()),
                ("has_agent", models.BooleanField()),
                RETIRED_AT,
                ("contact", models.TextField(db_default="", default="", help_text="Contact, as free text.")),
            ],
            options={"db_table": "site", "ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="Uplink",
            fields=[
                ID,
                ("name", models.TextField()),
                RETIRED_AT,
                ("site", models.ForeignKey(on_delete=models.PROTECT, related_name="uplinks", to="mesh.site")),
            ],
            options={
                "db_table": "uplink",
                "constraints": [models.UniqueConstraint(fields=("site", "name"), name="one_uplink_of_a_name_per_site")],
            },
        ),
        migrations.CreateModel(
            name="Host",
            fields=[
                ID,
                ("name", models.TextField(unique=True)),
                ("address", models.TextField()),
                ("family", models.SmallIntegerField(choices=[(4, "IPv4"), (6, "IPv6")])),
                ("for_ping", models.BooleanField(default=True)),
                ("for_throughput", models.BooleanField(default=True)),
                RETIRED_AT,
                ("site", models.ForeignKey(on_delete=models.PROTECT, related_name="hosts", to="mesh.site")),
                (
                    "uplink",
                    models.ForeignKey(null=True, on_delete=models.PROTECT, related_name="hosts", to="mesh.uplink"),
                ),
            ],
            options={"db_table": "host", "ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                ID,
                ("name", models.TextField(unique=True)),
                ("shape", models.TextField()),
                RETIRED_AT,
                ("sites", models.ManyToManyField(related_name="groups", to="mesh.site")),
            ],
            options={"db_table": "site_group", "ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="Test",
            fields=[
                ID,
                ("name", models.TextField(unique=True)),
                ("kind", models.TextField(help_text="Name of its kind in probes.kinds.")),
                ("every_s", models.PositiveIntegerField()),
                ("parameters", models.JSONField(default=dict)),
                RETIRED_AT,
                (
                    "priority",
                    models.SmallIntegerField(db_default=0, help_text="of throughput tests: higher goes first"),
                ),
                (
                    "slip_s",
                    models.PositiveIntegerField(
                        help_text="maximum delay of its slots; null: within the period", null=True
                    ),
                ),
            ],
            options={"db_table": "test", "ordering": ["name"]},
        ),
        migrations.CreateModel(
            name="Path",
            fields=[
                ID,
                ("family", models.SmallIntegerField(choices=[(4, "IPv4"), (6, "IPv6")])),
                RETIRED_AT,
                ("destination", models.ForeignKey(on_delete=models.PROTECT, related_name="paths_in", to="mesh.host")),
                ("source", models.ForeignKey(on_delete=models.PROTECT, related_name="paths_out", to="mesh.host")),
            ],
            options={
                "db_table": "path",
                "constraints": [models.UniqueConstraint(fields=("source", "destination"), name="one_path_per_pair")],
            },
        ),
        migrations.CreateModel(
            name="Measurement",
            fields=[
                ID,
                ("started_at", models.DateTimeField()),
                RETIRED_AT,
                ("path", models.ForeignKey(on_delete=models.PROTECT, related_name="measurements", to="mesh.path")),
                ("test", models.ForeignKey(on_delete=models.PROTECT, related_name="measurements", to="mesh.test")),
            ],
            options={
                "db_table": "measurement",
                "constraints": [
                    models.UniqueConstraint(fields=("path", "test"), name="one_measurement_per_path_and_test")
                ],
            },
        ),
        migrations.CreateModel(
            name="MeasurementPeriod",
            fields=[
                ID,
                ("every_s", models.PositiveIntegerField()),
                ("packet_bytes", ArrayField(base_field=models.IntegerField(), default=list, size=None)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(help_text="Null while active.", null=True)),
                (
                    "measurement",
                    models.ForeignKey(on_delete=models.PROTECT, related_name="periods", to="mesh.measurement"),
                ),
            ],
            options={
                "db_table": "measurement_period",
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("measurement",),
                        name="one_period_at_a_time",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Slot",
            fields=[
                ID,
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                (
                    "outcome",
                    models.TextField(
                        choices=[
                            ("measured", "measured"),
                            ("dns_failure", "dns_failure"),
                            ("not_permitted", "not_permitted"),
                            ("no_route", "no_route"),
                            ("tool_failure", "tool_failure"),
                            ("busy", "busy"),
                            ("refused", "refused"),
                            ("missed", "missed"),
                        ],
                        null=True,
                    ),
                ),
                ("detail", models.TextField(blank=True)),
                (
                    "measurement",
                    models.ForeignKey(on_delete=models.PROTECT, related_name="slots", to="mesh.measurement"),
                ),
                (
                    "carried_bytes",
                    models.BigIntegerField(help_text="bytes sent by the test; null without figures", null=True),
                ),
                (
                    "served",
                    models.JSONField(
                        help_text="as probes.throughput.spec.ServerReport; null without a report", null=True
                    ),
                ),
            ],
            options={
                "db_table": "slot",
                "indexes": [
                    models.Index(fields=["measurement", "starts_at"], name="slot_by_measurement"),
                    models.Index(
                        condition=models.Q(("outcome__isnull", True)), fields=["ends_at"], name="open_slot_by_end"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="slot_ends_after_start"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SlotHost",
            fields=[
                ID,
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("host", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="mesh.host")),
                ("slot", models.ForeignKey(on_delete=models.CASCADE, related_name="hosts", to="mesh.slot")),
            ],
            options={
                "db_table": "slot_host",
                "constraints": [
                    ExclusionConstraint(
                        expressions=[
                            (models.Func("host", "host", models.Value("[]"), function="int8range"), "&&"),
                            (models.Func("starts_at", "ends_at", function="tstzrange"), "&&"),
                        ],
                        name="one_slot_per_host_at_a_time",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SlotUplink",
            fields=[
                ID,
                ("starts_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("slot", models.ForeignKey(on_delete=models.CASCADE, related_name="uplinks", to="mesh.slot")),
                ("uplink", models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="mesh.uplink")),
            ],
            options={
                "db_table": "slot_uplink",
                "constraints": [
                    ExclusionConstraint(
                        expressions=[
                            (models.Func("uplink", "uplink", models.Value("[]"), function="int8range"), "&&"),
                            (models.Func("starts_at", "ends_at", function="tstzrange"), "&&"),
                        ],
                        name="one_slot_per_uplink_at_a_time",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SlotRequest",
            fields=[
                (
                    "slot",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
                        primary_key=True,
                        related_name="request",
                        serialize=False,
                        to="mesh.slot",
                    ),
                ),
                ("asked_at", models.DateTimeField()),
                ("asked_by", models.TextField()),
                ("parameters", models.JSONField()),
            ],
            options={"db_table": "slot_request"},
        ),
    ]
