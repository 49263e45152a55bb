"""Check the agents' versions in `manage.py check`, before an upgrade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.db import OperationalError, connection

import probes
from monitor.agents.models import AgentHealth
from monitor.agents.protocol import OLDEST_AGENT_VERSION
from probes.site.versions import is_older


def check_agents(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    if "default" not in (databases or ()):
        return []
    try:
        if AgentHealth._meta.db_table not in connection.introspection.table_names():
            return []
        versions = dict(AgentHealth.objects.order_by("site__name").values_list("site__name", "agent_version"))
    except OperationalError:
        return []  # the check of the database says so
    return list(version_messages(versions, probes.__version__))


def version_messages(versions: Mapping[str, str], own_version: str) -> Iterator[CheckMessage]:
    """Messages on agents that a centre of `own_version` would refuse."""
    older = [site for site, version in versions.items() if is_older(version, than=OLDEST_AGENT_VERSION)]
    newer = [site for site, version in versions.items() if is_older(own_version, than=version)]
    if older:
        yield checks.Warning(
            f"agents that this release would refuse: {_listed(older, versions)}",
            hint=f"Upgrade them to {OLDEST_AGENT_VERSION} or later; until then they measure and keep their results.",
            id="agents.W001",
        )
    if newer:
        yield checks.Warning(
            f"agents newer than this centre, {own_version}: {_listed(newer, versions)}",
            hint="Upgrade the centre first; agents that it refuses keep their results until then.",
            id="agents.W002",
        )


def _listed(sites: Sequence[str], versions: Mapping[str, str]) -> str:
    return ", ".join(f"{site} ({versions[site]})" for site in sites)
