"""Deliberately broken paths of a lab: difference from the scenario, restoration, and incident."""

from __future__ import annotations

import argparse
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec

from probes.commands.own_command import MANAGE, probes_command
from probes.lab import control
from probes.lab.control import LabState, LabStatus, PathStatus, SetRequest
from probes.lab.routing.protocol import RouteRequest, RouteStatus
from probes.lab.routing.topology import resolve_link
from probes.lab.scenario import resolve_path
from probes.lab.settings import LabError
from probes.quantities import duration_text

POLL_S = 2.0
REQUEST_TIMEOUT_S = 10.0
# Longest wait where the centre does not tell the time that its rules need.
WATCH_S = 900.0
WATCH_RESERVE = 1.5
MOST_INCIDENTS = 20


@dataclass(frozen=True, slots=True)
class OpenedIncident:
    title: str
    opened_at: datetime
    url: str  # of its page


def broken_paths(status: LabStatus) -> list[PathStatus]:
    """The paths unlike the scenario, the latest change first."""
    broken = [path for path in status.paths if path.changed_at is not None]
    return sorted(broken, key=lambda path: path.changed_at or status.lab.started_at, reverse=True)


def broken_links(status: LabStatus) -> list[PathStatus]:
    return [link for link in status.links if link.changed_at is not None]


def changed_routes(status: LabStatus) -> list[RouteStatus]:
    return [route for route in status.routes if route.changed_at is not None]


def undo_request(path: PathStatus, *, is_link: bool = False) -> SetRequest:
    if path.original is None:
        raise LabError("this lab is of an earlier version and does not know its scenario's settings; restart it")
    original = msgspec.structs.asdict(path.original)
    return SetRequest(source=path.source, destination=path.destination, changes=original, is_link=is_link)


def difference_text(path: PathStatus) -> str:
    """Changed settings as in "20% loss, delay 90 ms", or `changed`."""
    if path.original is None:
        return "changed"
    return settings_text(
        {
            name: value
            for name, value in msgspec.structs.asdict(path.settings).items()
            if value != getattr(path.original, name)
        }
    )


def settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(_setting_text(name, value) for name, value in settings.items())


def change_text(changes: dict[str, Any], *, is_routed: bool) -> str:
    """Changed settings; with routers the delay adds to the links'."""
    added = " in addition to its links" if is_routed and "delay_ms" in changes else ""
    # The delay comes last, so that the words stand beside it.
    return settings_text(dict(sorted(changes.items(), key=lambda item: item[0] == "delay_ms"))) + added


def _setting_text(name: str, value: float | None) -> str:
    meaning, _, unit = name.rpartition("_")
    meaning = meaning.replace("_", " ")
    if value is None:
        return f"{meaning} unlimited" if unit == "mbps" else f"{meaning} by its other settings"
    if unit == "ratio":
        return f"{100 * value:g}% {meaning}"
    return f"{meaning} {value:g} {'Mbit/s' if unit == 'mbps' else unit}"


def check_link_options(arguments: argparse.Namespace) -> None:
    """Raise `LabError` for options that links lack."""
    if arguments.path:
        raise LabError("--link and a path exclude each other: give one of them")
    if arguments.rtt_ms is not None:
        raise LabError("--rtt-ms is of a path; a link has its --delay-ms in each direction")
    if arguments.watch:
        raise LabError("--watch waits for the incident of a path; a link may be part of several: see the page /lab/")


def undo(arguments: argparse.Namespace) -> int:
    """Run `lab undo`."""
    status, began = control.ask_status(arguments.run_dir), datetime.now(UTC)
    pair = resolve_path(":".join(arguments.path), status.lab.sites) if arguments.path else None
    if arguments.link is not None:
        if pair is not None:
            raise LabError("give either a path or --link")
        pair = resolve_link(arguments.link, status.link_names)
    paths = [] if arguments.link is not None else broken_paths(status)
    links = [] if arguments.path else broken_links(status)
    routes = [] if arguments.link is not None else changed_routes(status)
    count = 0
    for path, is_link in (*((path, False) for path in paths), *((link, True) for link in links)):
        if pair is None or {path.source, path.destination} == set(pair):
            control.ask(arguments.run_dir, undo_request(path, is_link=is_link))
            print(f"{path.source} → {path.destination}: restored ({difference_text(path)} before)")
            count += 1
    for route in routes:
        if pair is None or {route.source, route.destination} == set(pair):
            request = RouteRequest(source=route.source, destination=route.destination, routes=None)
            control.ask(arguments.run_dir, request)
            print(f"{route.source} → {route.destination}: route restored")
            count += 1
    if not count:
        print("nothing to undo: the settings are those of the scenario")
    if arguments.watch:
        watch_ends(_centre_url(status.lab), pair, began)
    return 0


def expected_effect(state: LabState, **query: str) -> tuple[list[str], float | None]:
    """The centre's sentences about faults, and the longest time to an incident; empty without a centre."""
    if state.centre_port is None:
        return [], None
    try:
        answer = _get(f"{state.centre_url}/lab/expected/?{urlencode(query)}")
    except LabError:
        return [], None
    return answer["sentences"], answer["wait_s"]


def expectation(run_dir: Path, effect: list[str], pair: tuple[str, str], *, is_watched: bool) -> list[str]:
    hint = [] if is_watched or not effect else ["--watch waits for it"]
    return [*effect, *hint, f"undo: {probes_command()} lab undo{run_dir_option(run_dir)} {pair[0]} {pair[1]}"]


def run_dir_option(run_dir: Path, data: Path | None = None) -> str:
    """The option for a command to find this lab, if needed."""
    return "" if run_dir.absolute() == control.find_run_dir(data).absolute() else f" --run-dir {run_dir}"


def watch(state: LabState, pair: tuple[str, str], began: datetime, wait_s: float | None) -> int:
    """Wait for the incident, and print its time; exit status 1 if none has opened."""
    centre = _centre_url(state)
    most_s = WATCH_S if wait_s is None else max(WATCH_S, WATCH_RESERVE * wait_s)
    print(f"planted at {began:%H:%M:%S} UTC; waiting for the incident (Ctrl-C ends only the waiting)", flush=True)
    incident = wait_for_incident(centre, pair, began, most_s)
    if incident is None:
        raise LabError(f"no incident of {pair[0]} and {pair[1]} opened within {duration_text(most_s)}")
    took_s = (incident.opened_at - began).total_seconds()
    print(f"incident opened after {duration_text(took_s)}: {incident.title}")
    print(incident.url)
    return 0


def watch_ends(
    centre: str, pair: tuple[str, str] | None, began: datetime, wait_s: float = WATCH_S, poll_s: float = POLL_S
) -> None:
    """Wait until this path's incidents, or all, are resolved. Raises `LabError` after `wait_s`."""
    waiting = _open_incidents(centre, pair)
    if not waiting:
        print("no open incident to wait for")
        return
    incidents = "the incident is" if len(waiting) == 1 else f"{len(waiting)} incidents are"
    print(
        f"restored at {began:%H:%M:%S} UTC; waiting until {incidents} resolved (Ctrl-C ends only the waiting)",
        flush=True,
    )
    until = time.monotonic() + wait_s
    while waiting:
        for number in list(waiting):
            incident = _get(f"{centre}/api/v1/incidents/{number}")
            if incident["closed_at"] is not None:
                waiting.remove(number)
                took_s = (datetime.fromisoformat(incident["closed_at"]) - began).total_seconds()
                print(f"incident resolved after {duration_text(took_s)}: {incident['title']}", flush=True)
        if waiting and time.monotonic() > until:
            raise LabError(f"still open after {duration_text(wait_s)}: {centre}/incidents/{waiting[0]}/")
        time.sleep(poll_s if waiting else 0.0)


def _open_incidents(centre: str, pair: tuple[str, str] | None) -> list[int]:
    incidents = _incidents(centre, pair)
    return [int(incident["id"]) for incident in incidents if pair is None or _joined_at(incident, pair) is not None]


def _incidents(centre: str, pair: tuple[str, str] | None) -> Iterator[dict[str, Any]]:
    query = {"limit": MOST_INCIDENTS} if pair is None else {"site": pair[0], "limit": MOST_INCIDENTS}
    for incident in _get(f"{centre}/api/v1/incidents?{urlencode(query)}"):
        yield _get(f"{centre}/api/v1/incidents/{incident['id']}")


def _centre_url(state: LabState) -> str:
    if state.centre_port is None:
        raise LabError(f"--watch needs a centre: start the lab with `{MANAGE} up --lab`")
    return state.centre_url


def wait_for_incident(
    centre: str, pair: tuple[str, str], since: datetime, wait_s: float, poll_s: float = POLL_S
) -> OpenedIncident | None:
    """The incident that either direction joined; None if none within `wait_s`. Raises `LabError` if the centre does not
    permit reading."""
    until = time.monotonic() + wait_s
    while True:
        for incident in _incidents(centre, pair):
            joined_at = _joined_at(incident, pair)
            if joined_at is not None and joined_at >= since:
                opened_at = _opened_at(incident, joined_at)
                return OpenedIncident(incident["title"], opened_at, f"{centre}/incidents/{incident['id']}/")
        if time.monotonic() > until:
            return None
        time.sleep(poll_s)


def _joined_at(incident: dict[str, Any], pair: tuple[str, str]) -> datetime | None:
    joined = [
        datetime.fromisoformat(max(finding["added_at"], incident["reopened_at"] or ""))
        for finding in incident["findings"]
        if {finding["source"], finding["destination"]} == set(pair)
    ]
    return min(joined, default=None)


def _opened_at(incident: dict[str, Any], joined_at: datetime) -> datetime:
    turns = [datetime.fromisoformat(turn["at"]) for turn in incident["history"] if turn["turn"] == "opened"]
    return max([joined_at, *turns])


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=REQUEST_TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        error.close()
        raise LabError(f"{url}: answers {error.code} {error.reason}; look at the incidents page instead") from error
    except (OSError, ValueError) as error:
        raise LabError(f"{url}: {error}; is the centre running, with `{MANAGE} up --lab`?") from error
