"""Traces, routes, and the periods of routes; `trace` is a hypertable where the server has TimescaleDB."""

from importlib import import_module

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models

import monitor.archive.fields

TABLES = import_module("monitor.archive.migrations.0001_tables")


def make_hypertable(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(TABLES.USABLE)
        (usable,) = cursor.fetchone()
        if usable:
            cursor.execute(TABLES.MAKE_HYPERTABLE, ["trace", "measured_at", "7 days"])


class Migration(migrations.Migration):
    dependencies = [
        ("archive", "0008_measured_bursts"),
    ]

    operations = [
        migrations.CreateModel(
            name="PathRoute",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path_id", models.IntegerField()),
                ("protocol", models.TextField()),
                ("flow", models.BigIntegerField()),
                ("route_id", models.BigIntegerField()),
                ("since", models.DateTimeField(help_text="first trace")),
                ("last_at", models.DateTimeField(help_text="last trace")),
                (
                    "until",
                    models.DateTimeField(
                        help_text="first trace on the next route; null for the present route", null=True
                    ),
                ),
            ],
            options={
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
            name="Route",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("path_id", models.IntegerField()),
                (
                    "number",
                    models.IntegerField(help_text="among the routes of the path, in order of their first traces"),
                ),
                (
                    "hops",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(null=True),
                        help_text="addresses from TTL 1 on, null if never seen",
                        size=None,
                    ),
                ),
                (
                    "learned_at",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.DateTimeField(null=True), help_text="of each hop", size=None
                    ),
                ),
                (
                    "reached_at",
                    models.DateTimeField(help_text="null if no trace has reached the destination", null=True),
                ),
                ("first_at", models.DateTimeField(help_text="of the first trace on it")),
            ],
            options={
                "db_table": "route",
                "indexes": [
                    models.Index(fields=["path_id"], name="route_by_path"),
                    django.contrib.postgres.indexes.GinIndex(fields=["hops"], name="route_by_hop"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Trace",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "path_id",
                        "measured_at",
                        "protocol",
                        "flow",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("path_id", models.IntegerField()),
                ("measured_at", models.DateTimeField()),
                ("protocol", models.TextField()),
                ("flow", models.BigIntegerField(help_text="-1 if not known")),
                ("test", models.TextField()),
                ("outcome", models.TextField()),
                ("reason", models.TextField(help_text="as probes.trace.spec.TraceReason")),
                ("reached", models.BooleanField()),
                ("route_id", models.BigIntegerField(help_text="null if no router replied", null=True)),
                ("sent", django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), size=None)),
                (
                    "rtts_ms",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=monitor.archive.fields.RealField(null=True), size=None
                    ),
                ),
                (
                    "unknown_ttls",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SmallIntegerField(),
                        help_text="of hops that were silent or ended the trace with an error",
                        null=True,
                        size=None,
                    ),
                ),
                (
                    "inferred_ttls",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.SmallIntegerField(),
                        help_text="of hops that were probed for another target",
                        null=True,
                        size=None,
                    ),
                ),
                (
                    "mpls",
                    models.JSONField(help_text="label, traffic class and TTL of each entry of the stack", null=True),
                ),
                (
                    "errors",
                    models.JSONField(help_text="name and router of the ICMP error that ended the trace", null=True),
                ),
                ("others", models.JSONField(help_text="routers of other flows", null=True)),
                ("address", models.GenericIPAddressField(null=True)),
                ("during_test", models.BooleanField()),
                ("detail", models.TextField(null=True)),
            ],
            options={
                "db_table": "trace",
                "indexes": [models.Index(fields=["measured_at"], name="trace_by_time")],
            },
        ),
        migrations.RunPython(make_hypertable, migrations.RunPython.noop),
    ]
