"""Broken paths in words, and waiting for their incident at a centre, which a small web server stands for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from probes.lab.breaks import difference_text, undo_request, wait_for_incident, watch_ends
from probes.lab.control import PathStatus
from probes.lab.emulated_path import PathCounters
from probes.lab.settings import LabError, PathSettings
from probes.quantities import duration_text
from tests.facts import lacks

PLANTED_AT = datetime(2026, 11, 23, 14, 2, 10, tzinfo=UTC)
ORIGINAL = PathSettings(delay_ms=40.0, rate_mbps=100.0)


def path(**changes: float | None) -> PathStatus:
    settings = PathSettings(**{"delay_ms": 40.0, "rate_mbps": 100.0, **changes})  # type: ignore[arg-type]
    return PathStatus(
        source="cern",
        destination="slac",
        settings=settings,
        counts=PathCounters(),
        held=0,
        original=ORIGINAL,
        changed_at=PLANTED_AT,
    )


def test_a_difference_names_each_changed_setting_with_its_unit() -> None:
    text = difference_text(path(loss_ratio=0.2, delay_ms=90.0, rate_mbps=None))

    assert lacks(text, "delay 90 ms", "20% loss", "rate unlimited") == []
    assert "queue" not in text


def test_undo_restores_all_settings_of_the_scenario() -> None:
    assert PathSettings(**undo_request(path(loss_ratio=0.2)).changes) == ORIGINAL  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (48, "48 s"), (60, "1 min"), (108, "1 min 48 s"), (3600, "1 h"), (7530, "2 h 5 min")],
)
def test_a_duration_is_read_like_a_stopwatch(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


class Centre(BaseHTTPRequestHandler):
    """Answers with the incidents of the class."""

    incidents: dict[int, dict[str, object]] = {}

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        is_list = path == "/api/v1/incidents" and ("site=cern" in query or "site" not in query)
        body = list(self.incidents.values()) if is_list else self.incidents.get(int(path.rpartition("/")[2]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def centre() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Centre) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def incident(
    number: int,
    added_at: datetime,
    ends: tuple[str, str],
    reopened_at: datetime | None = None,
    opened_at: datetime | None = None,
) -> None:
    finding = {"source": ends[0], "destination": ends[1], "added_at": added_at.isoformat().replace("+00:00", "Z")}
    reopened = None if reopened_at is None else reopened_at.isoformat().replace("+00:00", "Z")
    history = [{"turn": "found", "at": finding["added_at"]}]
    history += [] if opened_at is None else [{"turn": "opened", "at": opened_at.isoformat()}]
    Centre.incidents[number] = {
        "id": number, "title": "loss", "reopened_at": reopened, "findings": [finding], "history": history,
        "closed_at": None,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def no_incidents() -> None:
    Centre.incidents = {}


def test_the_watch_returns_the_incident_of_either_direction(centre: str) -> None:
    incident(1, PLANTED_AT - timedelta(hours=1), ("cern", "slac"))
    incident(2, PLANTED_AT + timedelta(seconds=30), ("cern", "uct"))
    incident(3, PLANTED_AT + timedelta(seconds=108), ("slac", "cern"))

    opened = wait_for_incident(centre, ("cern", "slac"), PLANTED_AT, 0, 0.01)

    assert opened is not None
    assert opened.opened_at - PLANTED_AT == timedelta(seconds=108)
    assert opened.url == f"{centre}/incidents/3/"


def test_the_watch_counts_until_the_incident_opened(centre: str) -> None:
    found_at = PLANTED_AT + timedelta(seconds=38)
    incident(1, found_at, ("cern", "slac"), opened_at=found_at + timedelta(seconds=20))

    opened = wait_for_incident(centre, ("cern", "slac"), PLANTED_AT, 0, 0.01)

    assert opened is not None
    assert opened.opened_at - PLANTED_AT == timedelta(seconds=58)


def test_the_watch_counts_a_reopened_incident_and_ends_without_any(centre: str) -> None:
    assert wait_for_incident(centre, ("cern", "slac"), PLANTED_AT, 0, 0.01) is None

    incident(1, PLANTED_AT - timedelta(hours=1), ("cern", "slac"), PLANTED_AT + timedelta(seconds=9))
    opened = wait_for_incident(centre, ("cern", "slac"), PLANTED_AT, 0, 0.01)
    assert opened is not None
    assert opened.opened_at == PLANTED_AT + timedelta(seconds=9)


def test_the_watch_of_an_end_waits_for_incidents_of_the_path_alone(
    centre: str, capsys: pytest.CaptureFixture[str]
) -> None:
    restored_at = PLANTED_AT + timedelta(minutes=5)
    incident(1, PLANTED_AT, ("slac", "cern"))
    incident(2, PLANTED_AT, ("cern", "uct"))

    with pytest.raises(LabError, match=f"still open after 0 s: {centre}/incidents/1/"):
        watch_ends(centre, ("cern", "slac"), restored_at, 0, 0.01)
    with pytest.raises(LabError, match="still open"):
        watch_ends(centre, None, restored_at, 0, 0.01)
    Centre.incidents[1]["closed_at"] = (restored_at + timedelta(seconds=108)).isoformat()
    capsys.readouterr()
    watch_ends(centre, ("cern", "slac"), restored_at, 0, 0.01)

    assert capsys.readouterr().out.splitlines()[1:] == ["incident resolved after 1 min 48 s: loss"]


def test_the_watch_of_an_end_without_an_incident_ends_at_once(centre: str, capsys: pytest.CaptureFixture[str]) -> None:
    watch_ends(centre, ("cern", "slac"), PLANTED_AT, 60)

    assert "no open incident" in capsys.readouterr().out


def test_the_watch_says_that_no_centre_answers() -> None:
    with pytest.raises(LabError, match=r"manage.py up --lab"):
        wait_for_incident("http://127.0.0.1:1", ("cern", "slac"), PLANTED_AT, 0)
