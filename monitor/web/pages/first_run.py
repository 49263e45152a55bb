"""Text of pages without data: when the first result is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
from django.utils.html import format_html

from monitor.agents.holders import enrolled_sites
from monitor.analysis import figures
from monitor.archive.queries.operation.deliveries import AgentContact, agent_contacts
from monitor.archive.queries.paths import newest_measurement_at
from monitor.mesh.models import KindName, Measurement, Mesh, Path, Site, Test
from monitor.mesh.queries import next_slot, sizes_sent
from monitor.web.request import times
from probes.commands.own_command import MANAGE
from probes.packets.spec import PingSpec

# Delay from the end of a cycle to its figures on the page.
DELIVERY_AND_ROLLUP = timedelta(seconds=20)

# An agent just started may fetch its plan after the reckoned cycle, and measure in the next.
MAY_BE_LATE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class FirstRun:
    """Times are marked up."""

    heading: str
    sentences: tuple[str, ...]


NO_MESH = FirstRun(
    "No mesh yet",
    ("Nothing says what to measure.", f"Write a mesh.toml with your sites and run: {MANAGE} mesh apply mesh.toml"),
)


def first_run(contacts: Sequence[AgentContact], now: datetime) -> FirstRun:
    mesh = Mesh.objects.first()
    if mesh is None:
        return NO_MESH
    tests = _ping_tests()
    if not tests:
        return FirstRun(
            "Nothing is planned", (f"The mesh “{mesh.name}” has no ping test on any path. Add one to mesh.toml.",)
        )
    silent = _silent_agents(contacts)
    started = max(mesh.applied_at, *(contact.received_at for contact in contacts)) if contacts else mesh.applied_at
    due_at = min(_first_due(test, max(started, now - timedelta(days=1))) for test in tests)
    return FirstRun("Waiting for the first results", tuple(_waiting(mesh, silent, due_at, now)))


def still_waiting(now: datetime) -> FirstRun | None:
    """The text of an empty page; None once anything was measured."""
    return None if newest_measurement_at() is not None else first_run(agent_contacts(), now)


def path_waits(path: Path, packet_bytes: int, since: datetime, now: datetime) -> list[str]:
    """Text of a path without results since `since`."""
    if path.retired_at is not None:
        return [f"The path has been retired since {times.minute(path.retired_at)}: nothing measures it."]
    if path.destination.behind_nat:
        return [f"{path.destination} is behind NAT: it measures to others, but no ping reaches it from outside."]
    pings = (
        Measurement.objects.in_use().filter(path=path, test__kind__in=KindName.PING.alternatives).select_related("test")
    )
    if not pings:
        return ["No ping, TCP handshake or STAMP test of mesh.toml measures this path."]
    contacts = {contact.site_id: contact for contact in agent_contacts()}
    contact = contacts.get(path.source.site_id)
    due_at = min(_first_due(ping.test, ping.started_at) for ping in pings)
    said = [_never_delivered([path.source.site.name])] if contact is None else []
    if due_at > now:
        return [*said, _due(due_at, now)]
    sizes = sorted({size for ping in pings for size in _spec(ping.test).packet_bytes})
    if packet_bytes not in sizes:
        there = " and ".join(map(str, sizes))
        return [f"Ping tests of mesh.toml measure this path with packets of {there} bytes, not of {packet_bytes}."]
    if contact is not None:
        said.append(f"The agent of {path.source.site.name} last delivered {times.age(contact.received_at, now)}.")
    due_since = times.minute(max(since, due_at))
    said.append(f"Results have been due since {due_since}; see “Scheduled vs completed” below.")
    return said


def tests_wait(now: datetime) -> list[str]:
    if not Mesh.objects.exists():
        return list(NO_MESH.sentences)
    if not Measurement.objects.in_use().filter(test__kind=KindName.THROUGHPUT).exists():
        return ["No path of the mesh has one: add a test of kind throughput to mesh.toml and to a group."]
    silent = _silent_agents(agent_contacts())
    said = [_never_delivered(silent)] if silent else []
    slot = next_slot(KindName.THROUGHPUT, now)
    if slot is None:
        awaited = " A new path waits until the agents of both ends have come, for an hour at most." if silent else ""
        return [*said, f"Not scheduled yet: twice a minute the worker schedules tests up to an hour ahead.{awaited}"]
    begins = _clock(slot.starts_at, now)
    return [*said, format_html("The next one, {}, begins at {}.", slot.measurement.path, begins)]


def _never_delivered(silent: Sequence[str]) -> str:
    enrolled = enrolled_sites()
    without_token = [name for name in silent if name not in enrolled]
    with_token = [name for name in silent if name in enrolled]
    said = [f"No report yet from: {', '.join(silent)}. An agent fetches its plan when it starts."]
    if without_token:
        whose = f" ({', '.join(without_token)})" if with_token else ""
        said.append(f"{MANAGE} site enrol NAME prints the command that enrols an agent{whose}.")
    if with_token:
        whose = ", ".join(with_token) if without_token else "They"
        verb = "has" if len(with_token) == 1 and without_token else "have"
        said.append(f"{whose} {verb} a token: check that the agents run, with python -m probes site status.")
    return " ".join(said)


def _due(due_at: datetime, now: datetime) -> str:
    return format_html("The first result is due at {}. This page updates by itself.", _clock(due_at, now))


def _clock(at: datetime, now: datetime) -> str:
    """`12:30:44 UTC, in 44 s`."""
    wait = figures.duration((at - now).total_seconds())
    return format_html("{}, in {}", times.clock(at), wait)


def _waiting(mesh: Mesh, silent: list[str], due_at: datetime, now: datetime) -> list[str]:
    paths = (
        Measurement.objects.filter(retired_at=None, test__kind__in=KindName.PING.alternatives)
        .values("path_id")
        .distinct()
        .count()
    )
    said = [f"The mesh “{mesh.name}” is applied: {paths} {'path is' if paths == 1 else 'paths are'} to be measured."]
    if silent:
        said.append(_never_delivered(silent))
    if due_at > now:
        said.append(_due(due_at, now))
    elif now - due_at <= MAY_BE_LATE:
        said.append("The first result is due now. This page updates by itself.")
    else:
        said.append(
            f"The first result was due at {times.second(due_at)}. Look at the logs of the agents and of the worker; "
            "an agent is started with: python -m probes site --centre URL --token-file FILE"
        )
    return said


def _ping_tests() -> list[Test]:
    in_use = {"retired_at": None, "measurements__retired_at": None, "measurements__isnull": False}
    return list(Test.objects.filter(kind__in=KindName.PING.alternatives, **in_use).distinct())


def _silent_agents(contacts: Sequence[AgentContact]) -> list[str]:
    heard = {contact.site_id for contact in contacts}
    sites = Site.objects.in_use().filter(has_agent=True).values_list("id", "name")
    return [name for site_id, name in sites if site_id not in heard]


def _first_due(test: Test, started: datetime) -> datetime:
    """When the first cycle after `started` is shown; cycles begin at multiples of their period."""
    cycle = -(-started.timestamp() // test.every_s) * test.every_s
    return datetime.fromtimestamp(cycle + _spec(test).duration_s, tz=UTC) + DELIVERY_AND_ROLLUP


def _spec(test: Test) -> PingSpec:
    names = {field.name for field in msgspec.structs.fields(PingSpec)}
    parameters = {name: value for name, value in test.parameters.items() if name in names}
    sizes = sizes_sent(test.parameters.get("packet_bytes"))
    return msgspec.convert({**parameters, "packet_bytes": sizes, "targets": ()}, PingSpec)
