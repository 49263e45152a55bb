"""Bind a site's token to a single agent instance, so that two agents never deliver as the same site.

The first instance that uses a token holds it, by its latest start (`probes.site.identity`). Others are refused and
shown on the sites page. Where an agent moves to another machine with its data folder, the later start takes over
automatically; an agent with a new folder needs its own token (`manage.py site rotate`).
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
SHOWN_FOR = timedelta(minutes=5)
"""Maximum interval between requests of a refused agent."""


@dataclass(frozen=True, slots=True)
class SecondAgent:
    """An agent refused because another holds its site's token; `address` is empty where unknown."""

    site_id: int
    refused_at: datetime
    address: str


@dataclass(frozen=True, slots=True)
class Binding:
    """The instance that a token is bound to, and its start; None before its first use."""

    pk: int
    instance: str | None
    instance_start: int | None


def require_holder(token: Binding, told: str | None, address: str, now: datetime) -> None:
    """Bind a token to the requesting agent if it is free. Raises `RequestRefused` where another agent holds it.

    `told` is the identity sent by the agent. An agent that sends none is accepted while the token is free.
    """
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
    """Bind the token to this start; whether it is bound to it now."""
    free = Q(instance=None) | Q(instance=instance, instance_start__lt=start)
    if instance is None:
        return False
    taken = AgentToken.objects.filter(free, pk=token_id).update(instance=instance, instance_start=start, held_since=now)
    return taken == 1 or AgentToken.objects.filter(pk=token_id, instance=instance, instance_start=start).exists()


def _refusal_message(holder: AgentToken, instance: str | None) -> str:
    """Message for the second agent."""
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
    """Refused second agents, by site id."""
    rows = AgentToken.objects.filter(revoked_at=None, refused_at__gt=now - SHOWN_FOR).order_by("refused_at")
    return {
        row.site_id: SecondAgent(row.site_id, row.refused_at, row.refused_from or "") for row in rows if row.refused_at
    }


def enrolled_sites() -> set[str]:
    """Names of the sites whose agent has a valid token."""
    return set(AgentToken.objects.filter(revoked_at=None).values_list("site__name", flat=True))
