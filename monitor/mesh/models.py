"""The mesh: sites, hosts, paths, tests, and the measurements and slots derived from them.

`monitor.mesh.apply` writes the rows from `mesh.toml`, `monitor.mesh.schedule.slots` writes slots. An apply deletes only
slots that have not begun; rows no longer in the file get `retired_at`, so that their history keeps its name. The
querysets here and the functions of `queries` read them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Self, TypeVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, RangeOperators
from django.db import models
from django.db.models import Model, Q, QuerySet

from probes.contract import Outcome

RowT = TypeVar("RowT", bound=Model, covariant=True)


RETIRED_AT_HELP = "When it left mesh.toml; null while it is in use."


class Family(models.IntegerChoices):
    IPV4 = 4, "IPv4"
    IPV6 = 6, "IPv6"


class KindName(StrEnum):
    """Kinds that pages, alerts and reports use by name; `probes.kinds` lists all kinds."""

    PING = "ping"
    TCP_PING = "tcp-ping"
    STAMP = "stamp"
    THROUGHPUT = "throughput"

    @property
    def alternatives(self) -> tuple[KindName, ...]:
        """This kind, and those that stand in for it on paths without it."""
        return (KindName.PING, KindName.TCP_PING, KindName.STAMP) if self is KindName.PING else (self,)


class InUseQuerySet(QuerySet[RowT, RowT]):
    """Rows that an apply retires and never deletes."""

    def in_use(self) -> Self:
        """Rows that are in mesh.toml now."""
        return self.filter(retired_at=None)


class PathQuerySet(InUseQuerySet["Path"]):
    def with_hosts(self) -> Self:
        """With both hosts and their sites, in the same query."""
        return self.select_related("source__site", "destination__site")

    def in_use(self) -> Self:
        """Paths measured now, with both hosts and their sites."""
        return super().in_use().with_hosts()


class MeasurementQuerySet(InUseQuerySet["Measurement"]):
    def from_site(self, site_id: int) -> Self:
        """Measurements whose source is a host of this site."""
        return self.filter(path__source__site=site_id)

    def with_hosts(self) -> Self:
        """With the test, the path, both its hosts and their sites, in the same query."""
        return self.select_related("test", "path__source__site", "path__destination__site")


class SlotQuerySet(QuerySet["Slot", "Slot"]):
    def of_site(self, site_id: int) -> Self:
        """Slots that a host of this site takes part in, as client or server."""
        return self.filter(Q(measurement__path__source__site=site_id) | Q(measurement__path__destination__site=site_id))

    def to_come(self, since: datetime, until: datetime) -> Self:
        """Slots that have not ended at `since`, have no outcome, and start before `until`."""
        return self.filter(outcome=None, ends_at__gt=since, starts_at__lt=until)


class Mesh(models.Model):
    """The mesh of this installation: settings of `mesh.toml` besides sites, groups and tests."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    name = models.TextField()
    home_site = models.TextField(blank=True, help_text="Site whose agent `manage.py up` runs.")
    alerts = models.JSONField(
        default=dict, help_text="The [alerts] tables, as monitor.mesh.document.reader reads them."
    )
    service_levels = models.JSONField(default=dict, help_text="The [service_level] table, likewise.")
    budgets = models.JSONField(default=dict, help_text="The [budget] tables, likewise.")
    networks = models.JSONField(
        default=dict, db_default={}, help_text="Name and AS number of own networks, by prefix: the [[network]] tables."
    )
    applied_at = models.DateTimeField()
    pings_until = models.DateTimeField(
        null=True, help_text="Until when agents are given on-demand pings; null if nobody has asked for any."
    )
    traces_until = models.DateTimeField(
        null=True, help_text="Until when agents are given on-demand traces; null if none was asked for."
    )

    class Meta:
        db_table = "mesh"
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="only_one_mesh")]


class Site(models.Model):
    """A site. A monitoring site runs an agent (`has_agent`), a remote site only answers."""

    name = models.TextField(unique=True)
    title = models.TextField()
    latitude_deg = models.FloatField()
    longitude_deg = models.FloatField()
    country = models.TextField(help_text="ISO 3166 alpha-2 code.")
    region = models.TextField()
    contact = models.TextField(default="", db_default="", help_text="Contact, as free text.")
    has_agent = models.BooleanField()
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = InUseQuerySet.as_manager()

    class Meta:
        db_table = "site"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Uplink(models.Model):
    """A link shared by several hosts of a site: limited to a single throughput test at a time."""

    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="uplinks")
    name = models.TextField()
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = InUseQuerySet.as_manager()

    class Meta:
        db_table = "uplink"
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="one_uplink_of_a_name_per_site")]

    def __str__(self) -> str:
        return f"{self.site}/{self.name}"


class Host(models.Model):
    """An address at a site, in one address family; `address` is a literal or a name that resolves in it."""

    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="hosts")
    uplink = models.ForeignKey(Uplink, on_delete=models.PROTECT, related_name="hosts", null=True)
    name = models.TextField(unique=True)
    address = models.TextField()
    family = models.SmallIntegerField(choices=Family)
    for_ping = models.BooleanField(default=True)
    for_throughput = models.BooleanField(default=True)
    interface = models.TextField(null=True, help_text="Interface or VRF by which its pings leave.")
    namespace = models.TextField(null=True, help_text="Network namespace from which its pings are sent.")
    iperf3_ports = ArrayField(
        models.IntegerField(), null=True, help_text="First and last port of a public iperf3 server."
    )
    peers = models.JSONField(
        default=list, db_default=[], help_text="Other addresses for some sites: as PeerEntry of mesh.toml."
    )
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = InUseQuerySet.as_manager()

    class Meta:
        db_table = "host"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def address_for(self, peer: Host) -> str:
        """The address at which another host reaches this one."""
        return str(self._for_site(peer.site.name).get("address", self.address))

    def source_for(self, peer: Host) -> str:
        """The address from which this host sends to another."""
        return str(self._for_site(peer.site.name).get("source", self.address_for(peer)))

    def _for_site(self, site: str) -> dict[str, str]:
        return next((entry for entry in self.peers if site in entry["sites"]), {})


class Path(models.Model):
    """An ordered pair of hosts of one family: the unit of every series."""

    source = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="paths_out")
    destination = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="paths_in")
    family = models.SmallIntegerField(choices=Family)
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = PathQuerySet.as_manager()

    class Meta:
        db_table = "path"
        constraints = [models.UniqueConstraint(fields=["source", "destination"], name="one_path_per_pair")]

    def __str__(self) -> str:
        return f"{self.source} → {self.destination}"


class Test(models.Model):
    """A kind of measurement with its schedule. `parameters` are the fields of its spec, as in mesh.toml."""

    name = models.TextField(unique=True)
    kind = models.TextField(help_text="Name of its kind in probes.kinds.")
    every_s = models.PositiveIntegerField()
    parameters = models.JSONField(default=dict)
    priority = models.SmallIntegerField(db_default=0, help_text="of throughput tests: higher goes first")
    slip_s = models.PositiveIntegerField(null=True, help_text="maximum delay of its slots; null: within the period")
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = InUseQuerySet.as_manager()

    class Meta:
        db_table = "test"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Group(models.Model):
    """Sites measured together, for the pages: which paths a group contains follows from its sites."""

    name = models.TextField(unique=True)
    shape = models.TextField()
    sites = models.ManyToManyField(Site, related_name="groups")
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = InUseQuerySet.as_manager()

    class Meta:
        db_table = "site_group"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Measurement(models.Model):
    """A test on a path. `started_at` is its first start; `periods` have its schedules since then.

    `is_beside_pings` is set where a plan is built (`monitor.mesh.plan`): whether a ping test measures the path as well.
    """

    is_beside_pings = False

    path = models.ForeignKey(Path, on_delete=models.PROTECT, related_name="measurements")
    test = models.ForeignKey(Test, on_delete=models.PROTECT, related_name="measurements")
    started_at = models.DateTimeField()
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = MeasurementQuerySet.as_manager()

    class Meta:
        db_table = "measurement"
        constraints = [models.UniqueConstraint(fields=["path", "test"], name="one_measurement_per_path_and_test")]

    def __str__(self) -> str:
        return f"{self.path}, {self.test}"


class MeasurementPeriod(models.Model):
    """A period during which a measurement ran on the same schedule, so that past schedules can be counted.

    A period begins when the measurement returns or its schedule changes. `packet_bytes` are the sizes of the bursts
    that it gives its path: empty except for pings, and for STAMP tests of paths without pings.
    """

    measurement = models.ForeignKey(Measurement, on_delete=models.PROTECT, related_name="periods")
    every_s = models.PositiveIntegerField()
    packet_bytes = ArrayField(models.IntegerField(), default=list)
    pattern = models.TextField(default="burst", db_default="burst", help_text="of pings: burst or even")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, help_text="Null while active.")

    class Meta:
        db_table = "measurement_period"
        constraints = [
            models.UniqueConstraint(
                fields=["measurement"], condition=models.Q(ended_at__isnull=True), name="one_period_at_a_time"
            )
        ]


class Slot(models.Model):
    """A scheduled execution of a throughput test. `outcome` is null until it has ended.

    The connecting end reports the outcome; `served` is the report of the listening end.
    """

    measurement = models.ForeignKey(Measurement, on_delete=models.PROTECT, related_name="slots")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    outcome = models.TextField(null=True, choices=[(outcome.value, outcome.value) for outcome in Outcome])
    detail = models.TextField(blank=True)
    served = models.JSONField(null=True, help_text="as probes.throughput.spec.ServerReport; null without a report")
    carried_bytes = models.BigIntegerField(null=True, help_text="bytes sent by the test; null without figures")

    objects = SlotQuerySet.as_manager()

    class Meta:
        db_table = "slot"
        constraints = [
            models.CheckConstraint(condition=models.Q(ends_at__gt=models.F("starts_at")), name="slot_ends_after_start")
        ]
        indexes = [
            models.Index(fields=["measurement", "starts_at"], name="slot_by_measurement"),
            models.Index(fields=["ends_at"], condition=models.Q(outcome__isnull=True), name="open_slot_by_end"),
        ]

    @property
    def parameters(self) -> dict[str, Any]:
        """Fields of its spec: as requested, else those of its test."""
        request: SlotRequest | None = getattr(self, "request", None)
        parameters: dict[str, Any] = self.measurement.test.parameters if request is None else request.parameters
        return parameters


class SlotRequest(models.Model):
    """Request of an on-demand slot: by whom, when, and with which parameters."""

    slot = models.OneToOneField(Slot, on_delete=models.CASCADE, related_name="request", primary_key=True)
    asked_at = models.DateTimeField()
    asked_by = models.TextField()
    parameters = models.JSONField()

    class Meta:
        db_table = "slot_request"


def _one_at_a_time(column: str, name: str) -> ExclusionConstraint:
    """Exclusion constraint: no two rows with the same id in `column` overlap in time. The id is a range of length one,
    since a GiST index takes ranges without an extension."""
    return ExclusionConstraint(
        name=name,
        expressions=[
            (models.Func(column, column, models.Value("[]"), function="int8range"), RangeOperators.OVERLAPS),
            (models.Func("starts_at", "ends_at", function="tstzrange"), RangeOperators.OVERLAPS),
        ],
    )


class SlotHost(models.Model):
    """Reservation of a host for the duration of a slot; a host has no overlapping reservations."""

    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="hosts")
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()

    class Meta:
        db_table = "slot_host"
        constraints = [_one_at_a_time("host", "one_slot_per_host_at_a_time")]
        indexes = [models.Index(fields=["ends_at"], name="slot_host_by_end")]


class SlotUplink(models.Model):
    """Reservation of an uplink, as `SlotHost`."""

    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="uplinks")
    uplink = models.ForeignKey(Uplink, on_delete=models.PROTECT, related_name="+")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()

    class Meta:
        db_table = "slot_uplink"
        constraints = [_one_at_a_time("uplink", "one_slot_per_uplink_at_a_time")]


class PingRequest(models.Model):
    """On-demand pings of a path in both directions, as a user asked for them; `PingRun` is a direction."""

    path = models.ForeignKey(Path, on_delete=models.PROTECT, related_name="ping_requests")
    asked_at = models.DateTimeField()
    asked_by = models.TextField()

    class Meta:
        db_table = "ping_request"
        indexes = [models.Index(fields=["path", "-asked_at"], name="ping_request_by_path")]


class PingRun(models.Model):
    """On-demand pings from the source of a path. They are no results of the archive: no summary, alert or report reads
    them. The newest report of the agent stands here (`probes.site.wire.OnDemandPingReport`)."""

    request = models.ForeignKey(PingRequest, on_delete=models.CASCADE, related_name="runs")
    path = models.ForeignKey(Path, on_delete=models.PROTECT, related_name="ping_runs")
    fetched_at = models.DateTimeField(null=True, help_text="When its agent got it with its plan.")
    started_at = models.DateTimeField(null=True, help_text="By the centre's clock, as the agent reported it.")
    rtts_ms = ArrayField(
        models.FloatField(null=True), default=list, help_text="In sending order, null without a reply."
    )
    awaited = ArrayField(
        models.SmallIntegerField(), default=list, help_text="Indices of rtts_ms that may still be answered."
    )
    outcome = models.TextField(null=True, help_text="Of probes.contract.Outcome, or not_taken_up; null until it ended.")
    detail = models.TextField(blank=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "ping_run"
        constraints = [
            models.UniqueConstraint(fields=["path"], condition=Q(ended_at=None), name="one_ping_run_per_path_at_a_time")
        ]


class TraceRequest(models.Model):
    """A trace of a path on demand, from its source; its result is a trace of the archive."""

    path = models.ForeignKey(Path, on_delete=models.PROTECT, related_name="trace_requests")
    reason = models.TextField(help_text="As probes.trace.spec.TraceReason.")
    asked_at = models.DateTimeField()
    asked_by = models.TextField(help_text="A user, or an incident.")
    fetched_at = models.DateTimeField(null=True, help_text="When its agent got it with its plan.")

    class Meta:
        db_table = "trace_request"
        indexes = [models.Index(fields=["path", "-asked_at"], name="trace_request_by_path")]
