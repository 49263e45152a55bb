"""Sites that have another name in mesh.toml than before: the key `formerly` of a [[site]] names the earlier ones.

A renamed site stays the same row, and with it hosts, paths, results, tokens, incidents and annotations. Texts that were
written before, such as titles of past incidents and reports, keep the earlier name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django.dispatch import Signal

from monitor.mesh.document.entries import SiteEntry
from monitor.mesh.models import Host, Site

site_renamed = Signal()
"""Sent in the transaction of an apply, with `old` and `new`, for rooms that store names of sites."""


def rename_sites(sites: Iterable[SiteEntry]) -> dict[str, str]:
    """Rename each site that the database has under an earlier name only. Returns the earlier names by the new ones.

    A host that has the name of its site, the default, is renamed too.
    """
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
    """The present names of sites by those of `names` that are earlier ones, and no site's now."""
    rows = Site.objects.filter(former_names__overlap=list(names)).values_list("name", "former_names")
    current = {former: name for name, former_names in rows for former in former_names if former in names}
    taken = set(Site.objects.filter(name__in=current).values_list("name", flat=True)) if current else set()
    return {former: name for former, name in current.items() if former not in taken}
