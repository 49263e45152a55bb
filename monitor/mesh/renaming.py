"""Rename sites by the key `formerly` of [[site]]; earlier texts keep the earlier name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.dispatch import Signal

from monitor.mesh.document.entries import SiteEntry
from monitor.mesh.models import Host, Site

# Sent in an apply's transaction with `old` and `new`, for code that stores site names.
site_renamed = Signal()


def rename_sites(sites: Iterable[SiteEntry]) -> dict[str, str]:
    """Rename sites known only by an earlier name, and equally named hosts; return earlier names by new names."""
    renamed: dict[str, str] = {}
    for site in sites:
        if not site.formerly or Site.objects.filter(name=site.name).exists():
            continue
        row = Site.objects.filter(name__in=site.formerly).order_by("-retired_at", "pk").last()
        if row is None:
            continue
        old, row.name = row.name, site.name
        row.save(update_fields=["name"])
        if site.name in {host.name for host in site.hosts}:
            Host.objects.filter(site=row, name=old).update(name=site.name)
        site_renamed.send(sender=None, old=old, new=site.name)
        renamed[site.name] = old
    return renamed


def current_names(names: Sequence[str]) -> Mapping[str, str]:
    """Present names of sites by earlier names in use by no site."""
    rows = Site.objects.filter(former_names__overlap=list(names)).values_list("name", "former_names")
    current = {former: name for name, former_names in rows for former in former_names if former in names}
    taken = set(Site.objects.filter(name__in=current).values_list("name", flat=True)) if current else set()
    return {former: name for former, name in current.items() if former not in taken}
