"""The mesh with its sites, hosts and paths, and rows that an apply retires."""

from __future__ import annotations

from typing import Any, Self, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Model, QuerySet

RowT = TypeVar("RowT", bound=Model, covariant=True)

RETIRED_AT_HELP = "When it left mesh.toml; null while it is in use."


class Family(models.IntegerChoices):
    IPV4 = 4, "IPv4"
    IPV6 = 6, "IPv6"


class InUseQuerySet(QuerySet[RowT, RowT]):
    """Rows that an apply retires and never deletes."""

    def in_use(self) -> Self:
        return self.filter(retired_at=None)


class PathQuerySet(InUseQuerySet["Path"]):
    def with_hosts(self) -> Self:
        """Load both hosts and their sites in the same query."""
        return self.select_related("source__site", "destination__site")

    def in_use(self) -> Self:
        return super().in_use().with_hosts()


class Mesh(models.Model):
    """Settings of `mesh.toml` besides sites, groups and tests."""

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
    sweeps = models.JSONField(
        default=dict, db_default={}, help_text="Keys of the [[sweep]] tables, by name of the sweep."
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
    """Site; without an agent (`has_agent`) it only answers."""

    name = models.TextField(unique=True)
    former_names = ArrayField(
        models.TextField(), default=list, db_default=[], help_text="Earlier names, as in mesh.toml."
    )
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
    """Link shared by hosts of a site, limited to a single throughput test at a time."""

    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="uplinks")
    name = models.TextField()
    retired_at = models.DateTimeField(null=True, help_text=RETIRED_AT_HELP)

    objects = InUseQuerySet.as_manager()

    class Meta:
        db_table = "uplink"
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="one_uplink_of_a_name_per_site")]

    def __str__(self) -> str:
        return f"{self.site}/{self.name}"


class HostAddresses:
    """Addresses of a host; `peers` override `address` by the peer's site."""

    __slots__ = ()

    address: Any
    peers: Any
    site: Any

    def address_for(self, peer: HostAddresses) -> str:
        """Address at which another host reaches this host."""
        return str(self._for_site(peer.site.name).get("address", self.address))

    def source_for(self, peer: HostAddresses) -> str:
        """Address from which this host sends to another."""
        return str(self._for_site(peer.site.name).get("source", self.address_for(peer)))

    def _for_site(self, site: str) -> dict[str, str]:
        for entry in self.peers:
            if site in entry["sites"]:
                return dict(entry)
        return {}


class Host(HostAddresses, models.Model):
    """Address or resolvable name at a site, in one address family."""

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
    behind_nat = models.BooleanField(
        default=False, db_default=False, help_text="Whether no other host can reach it first, as in mesh.toml."
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


class Path(models.Model):
    """Ordered pair of hosts of one family, the unit of every series."""

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


class Group(models.Model):
    """Sites measured together, for the pages."""

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
