"""What is happening while there is nothing to show yet, and when the first result is due.

In: what is planned, who has delivered, and the time. Out: a heading and sentences for the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from monitor.analysis import figures
from monitor.archive.queries import AgentContact
from monitor.mesh.models import Kind, Measurement, Mesh, Site, Test
from monitor.web import times
from probes.ping.spec import PingSpec

DELIVERY_AND_ROLLUP = timedelta(seconds=20)
"""From the end of a cycle to its figures on the page: the agent's delivery and the next roll-up."""


@dataclass(frozen=True, slots=True)
class FirstRun:
    """What the page says instead of an empty grid. `due_at` is None when nothing can come yet."""

    heading: str
    sentences: tuple[str, ...]
    due_at: datetime | None = None


def first_run(contacts: Sequence[AgentContact], now: datetime) -> FirstRun:
    """What a page without any data has to say."""
    mesh = Mesh.objects.first()
    if mesh is None:
        return FirstRun(
            "No mesh yet",
            (
                "Nothing says what to measure.",
                "Write a mesh.toml with your sites and run: manage.py mesh apply mesh.toml",
            ),
        )
    tests = _ping_tests()
    if not tests:
        return FirstRun(
            "Nothing is planned", (f"The mesh “{mesh.name}” has no ping test on any path. Add one to mesh.toml.",)
        )
    silent = _silent_agents(contacts)
    started = max(mesh.applied_at, *(contact.received_at for contact in contacts)) if contacts else mesh.applied_at
    due_at = min(_first_due(test, max(started, now - timedelta(days=1))) for test in tests)
    return FirstRun("Waiting for the first results", tuple(_waiting(mesh, silent, due_at, now)), due_at)


def _waiting(mesh: Mesh, silent: list[str], due_at: datetime, now: datetime) -> list[str]:
    paths = Measurement.objects.filter(retired_at=None, test__kind=Kind.PING).values("path_id").distinct().count()
    said = [f"The mesh “{mesh.name}” is applied: {paths} paths are to be measured."]
    if silent:
        said.append(f"No agent has delivered yet from: {', '.join(silent)}. An agent fetches its plan when it starts.")
    if due_at > now:
        wait = figures.duration((due_at - now).total_seconds())
        said.append(f"The first result is due at {due_at:%H:%M:%S} UTC, in {wait}. This page shows it by itself.")
    else:
        said.append(
            f"The first result was due at {times.second(due_at)}. Look at the logs of the agents and of the worker; "
            "an agent is started with: python -m probes site --centre URL --token-file FILE"
        )
    return said


def _ping_tests() -> list[Test]:
    in_use = {"retired_at": None, "measurements__retired_at": None, "measurements__isnull": False}
    return list(Test.objects.filter(kind=Kind.PING, **in_use).distinct())


def _silent_agents(contacts: Sequence[AgentContact]) -> list[str]:
    heard = {contact.site_id for contact in contacts}
    sites = Site.objects.in_use().filter(has_agent=True).values_list("id", "name")
    return [name for site_id, name in sites if site_id not in heard]


def _first_due(test: Test, started: datetime) -> datetime:
    """When the first cycle that begins after `started` is on the page: cycles begin at multiples of their period."""
    cycle = -(-started.timestamp() // test.every_s) * test.every_s
    lasts_s = msgspec.convert({"targets": (), **_schedule(test)}, PingSpec).duration_s
    return datetime.fromtimestamp(cycle + lasts_s, tz=UTC) + DELIVERY_AND_ROLLUP


def _schedule(test: Test) -> dict[str, object]:
    """Those parameters of the test that say how long a cycle takes."""
    names = {field.name for field in msgspec.structs.fields(PingSpec)}
    return {name: value for name, value in test.parameters.items() if name in names}
