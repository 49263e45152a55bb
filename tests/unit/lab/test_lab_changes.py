"""Changes of a running lab's paths: their bounds, the time they began, and sites that are down. No namespaces."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from probes.lab import control
from probes.lab.emulated_path import EmulatedPath
from probes.lab.process import _Lab
from probes.lab.routing.network import Network
from probes.lab.routing.topology import Topology
from probes.lab.settings import LabError, PathSettings
from probes.lab.sites import site_requests, sites_down
from probes.lab.status_table import status_text
from tests.facts import lacks

STATE = control.LabState(
    pid=1, scenario="three", title="Three sites", seed=1, started_at=datetime(2026, 11, 23, tzinfo=UTC), user_fd=None,
    scheduling="normal", control_socket="", centre_port=None, sites={},
)  # fmt: skip


def _unused(*_: Any) -> None:
    raise AssertionError("no packet is sent")


@pytest.fixture
def lab() -> Any:
    names = ("cern", "ornl", "slac")
    settings = PathSettings(delay_ms=40.0, loss_ratio=0.001, rate_mbps=20.0)
    paths = {(a, b): EmulatedPath(a, b, settings, random.Random(1)) for a in names for b in names if a != b}
    relay: Any = SimpleNamespace(
        paths=paths,
        network=Network(Topology(), {}, 1, push=_unused, deliver=_unused),
        in_transit=lambda: dict.fromkeys(paths, 0),
        unroutable=dict,
        late_over_1ms=0,
        latest_s=0.0,
        late_s=0.0,
    )
    return _Lab(STATE, [], relay, None)


def status(lab: Any) -> control.LabStatus:
    reply: control.Reply = lab.answer(control.StatusRequest())
    assert reply.status is not None
    return reply.status


def change(lab: Any, **changes: float) -> datetime | None:
    lab.answer(control.SetRequest(source="cern", destination="slac", changes=dict(changes)))
    return next(path.changed_at for path in status(lab).paths if (path.source, path.destination) == ("cern", "slac"))


def test_the_same_value_again_keeps_the_time_of_the_change(lab: Any) -> None:
    first = change(lab, loss_ratio=0.2)

    assert first is not None
    assert change(lab, loss_ratio=0.2) == first
    assert change(lab, loss_ratio=0.3) != first


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"rate_mbps": 0}, ("rate mbps 0", "0.001 to 10,000 Mbit/s", "unlimited")),
        ({"delay_ms": 70_000}, ("delay ms 70000", "0 to 60,000 ms")),
    ],
)
def test_a_value_out_of_bounds_is_a_sentence(lab: Any, changes: dict[str, float], facts: tuple[str, ...]) -> None:
    with pytest.raises(LabError) as raised:
        change(lab, **changes)

    assert lacks(str(raised.value), *facts) == []
    assert "Expected" not in str(raised.value)


def take(lab: Any, name: str, *, is_down: bool) -> None:
    for request in site_requests(status(lab), name, is_down=is_down):
        lab.answer(request)


def lossy(lab: Any) -> set[tuple[str, str]]:
    return {(path.source, path.destination) for path in status(lab).paths if path.settings.loss_ratio == 1}


def test_a_site_that_is_down_loses_all_of_its_paths(lab: Any) -> None:
    take(lab, "cern", is_down=True)

    assert lossy(lab) == {("cern", "slac"), ("cern", "ornl"), ("slac", "cern"), ("ornl", "cern")}
    assert sites_down(status(lab)) == ["cern"]
    assert "cern: down" in status_text(status(lab))

    take(lab, "cern", is_down=False)
    assert {(path.settings.loss_ratio, path.changed_at) for path in status(lab).paths} == {(0.001, None)}
    assert "down" not in status_text(status(lab))
