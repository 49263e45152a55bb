"""Traces (a hypertable with TimescaleDB), their routes, and periods in which a flow took a route."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q

from monitor.archive.fields import RealField

NO_FLOW = -1


class Route(models.Model):
    """Route of a path: two routes differ in length or at a TTL where both know the router.

    Hops silent in a trace are filled in from others.
    """

    path_id = models.IntegerField()
    number = models.IntegerField(help_text="among the routes of the path, in order of their first traces")
    hops = ArrayField(models.TextField(null=True), help_text="addresses from TTL 1 on, null if never seen")
    learned_at = ArrayField(models.DateTimeField(null=True), help_text="of each hop")
    reached_at = models.DateTimeField(null=True, help_text="null if no trace has reached the destination")
    first_at = models.DateTimeField(help_text="of the first trace on it")

    class Meta:
        db_table = "route"
        indexes = [
            models.Index(fields=["path_id"], name="route_by_path"),
            GinIndex(fields=["hops"], name="route_by_hop"),
        ]


class PathRoute(models.Model):
    """Uninterrupted period of a flow's traces with the same route; the flow left between `last_at` and `until`."""

    path_id = models.IntegerField()
    protocol = models.TextField()
    flow = models.BigIntegerField()
    route_id = models.BigIntegerField()
    since = models.DateTimeField(help_text="first trace")
    last_at = models.DateTimeField(help_text="last trace")
    until = models.DateTimeField(null=True, help_text="first trace on the next route; null for the present route")
    learned_at = ArrayField(
        models.DateTimeField(null=True),
        null=True,
        help_text="first trace of the flow that showed each hop; null for periods from before 0035",
    )
    reached_at = models.DateTimeField(null=True, help_text="first trace of the flow that reached the destination")

    class Meta:
        db_table = "path_route"
        constraints = [
            models.UniqueConstraint(fields=["path_id", "protocol", "flow", "since"], name="path_route_by_flow"),
            models.UniqueConstraint(
                fields=["path_id", "protocol", "flow"], condition=Q(until=None), name="path_route_at_present"
            ),
        ]
        indexes = [
            models.Index(fields=["route_id"], name="path_route_by_route"),
            models.Index(fields=["since"], name="path_route_by_time"),
        ]


class Trace(models.Model):
    """Trace, as `probes.trace.spec.TraceRun`; hops are in its route.

    `sent` counts probes from TTL 1 on; `rtts_ms` is null without a reply. `mpls`, `errors` and `others` are keyed by
    TTL.
    """

    pk = models.CompositePrimaryKey("path_id", "measured_at", "protocol", "flow")
    path_id = models.IntegerField()
    measured_at = models.DateTimeField()
    protocol = models.TextField()
    flow = models.BigIntegerField(help_text="-1 if not known")
    test = models.TextField()
    outcome = models.TextField()
    reason = models.TextField(help_text="as probes.trace.spec.TraceReason")
    reached = models.BooleanField()
    route_id = models.BigIntegerField(null=True, help_text="null if no router replied")
    sent = ArrayField(models.SmallIntegerField())
    rtts_ms = ArrayField(RealField(null=True))
    unknown_ttls = ArrayField(
        models.SmallIntegerField(), null=True, help_text="of hops that were silent or ended the trace with an error"
    )
    inferred_ttls = ArrayField(
        models.SmallIntegerField(), null=True, help_text="of hops that were probed for another target"
    )
    mpls = models.JSONField(null=True, help_text="label, traffic class and TTL of each entry of the stack")
    errors = models.JSONField(null=True, help_text="name and router of the ICMP error that ended the trace")
    others = models.JSONField(null=True, help_text="routers of other flows")
    flow_effect = models.JSONField(null=True, help_text="null for a trace of a single flow")
    address = models.GenericIPAddressField(null=True)
    during_test = models.BooleanField()
    detail = models.TextField(null=True)

    class Meta:
        db_table = "trace"
        indexes = [models.Index(fields=["measured_at"], name="trace_by_time")]
