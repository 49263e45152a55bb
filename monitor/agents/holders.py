"""Bind a site's token to the agent that uses it first, by its latest start (`probes.site.identity`).

A moved data folder's later start takes over; a new folder needs a new token (`manage.py site rotate`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q

from monitor.agents.models import AgentToken
from monitor.agents.request_bodies import RequestRefused
from probes.commands.own_command import MANAGE

IDENTITY = re.compile(r"([0-9a-f]{16})\.([0-9]{1,18})")
# Maximum interval between requests of a refused agent.
SHOWN_FOR = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class SecondAgent:
    site_id: int
    refused_at: datetime
    address: str  # empty where unknown


@dataclass(frozen=True, slots=True)
class Binding:
    """A token and its instance, None before first use."""

    pk: int
    instance: str | None
    instance_start: int | None


def require_holder(token: Binding, told: str | None, address: str, now: datetime) -> None:
    """Bind a free token to the agent of identity `told`, if sent. Raises `RequestRefused` where another holds it."""
    if told is None and token.instance is None:
        return
    instance, start = _read(told) if told is not None else (None, 0)
    if (instance, start) == (token.instance, token.instance_start) or _bind_token(token.pk, instance, start, now):
        return
    holder = AgentToken.objects.select_related("site").get(pk=token.pk)
    AgentToken.objects.filter(pk=token.pk).update(refused_at=now, refused_from=address)
    raise RequestRefused(409, _refusal_message(holder, instance))


def _read(told: str) -> tuple[str, int]:
    parts = IDENTITY.fullmatch(told)
    if parts is None:
        raise RequestRefused(400, "invalid agent identity; is the agent of another version?")
    return parts[1], int(parts[2])


def _bind_token(token_id: int, instance: str | None, start: int, now: datetime) -> bool:
    free = Q(instance=None) | Q(instance=instance, instance_start__lt=start)
    if instance is None:
        return False
    taken = AgentToken.objects.filter(free, pk=token_id).update(instance=instance, instance_start=start, held_since=now)
    return taken == 1 or AgentToken.objects.filter(pk=token_id, instance=instance, instance_start=start).exists()


def _refusal_message(holder: AgentToken, instance: str | None) -> str:
    since = "" if holder.held_since is None else f" since {holder.held_since.isoformat(' ', 'seconds')}"
    if instance == holder.instance:
        return (
            f"a copy of this agent's data folder was started later and works for {holder.site.name}{since}; "
            "stop one of the two, then start the other again"
        )
    return (
        f"another agent works for {holder.site.name}{since}; stop one of the two. If this one is to take its place, "
        f"`{MANAGE} site rotate {holder.site.name}` at the centre prints the command for it"
    )


def second_agents(now: datetime) -> dict[int, SecondAgent]:
    rows = AgentToken.objects.filter(revoked_at=None, refused_at__gt=now - SHOWN_FOR).order_by("refused_at")
    return {
        row.site_id: SecondAgent(row.site_id, row.refused_at, row.refused_from or "") for row in rows if row.refused_at
    }


def enrolled_sites() -> set[str]:
    return set(AgentToken.objects.filter(revoked_at=None).values_list("site__name", flat=True))
