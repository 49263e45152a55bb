"""Changes of a planted fault as settings of the lab, and the mesh with a new path."""

from __future__ import annotations

import pytest

from monitor.mesh.document.expansion import measurements
from monitor.mesh.document.reader import parse
from probes.lab.control import PathStatus
from probes.lab.emulated_path import PathCounters
from probes.lab.mesh import mesh_toml, namespace_addresses
from probes.lab.scenario import load_scenario
from probes.lab.settings import PathSettings
from tests.lab_truth.faults import PlannedChange
from tests.lab_truth.new_path import NEW_SITES, mesh_with_new_path
from tests.lab_truth.planting import settings_of
from tests.lab_truth.stored import SCENARIO
from tests.lab_truth.truth import Signal

USUAL = PathSettings(delay_ms=51.0, jitter_ms=0.3, loss_ratio=0.002, rate_mbps=20.0)
PATH = PathStatus(
    source="ornl", destination="nersc", settings=USUAL, counts=PathCounters(), held=0, original=USUAL
)  # fmt: skip


@pytest.mark.parametrize(
    ("signal", "value", "settings"),
    [
        (Signal.LOSS, 0.25, {"loss_ratio": 0.25, "policer_mbps": None}),
        (Signal.LOSS, None, {"loss_ratio": 0.002, "policer_mbps": None}),
        (Signal.RTT, 60.0, {"delay_ms": 111.0}),
        (Signal.RTT, None, {"delay_ms": 51.0}),
        (Signal.JITTER, 30.0, {"jitter_ms": 30.0}),
        (Signal.RATE, 3e6, {"rate_mbps": 3.0}),
        (Signal.RATE, None, {"rate_mbps": 20.0}),
    ],
)
def test_a_change_sets_or_restores_its_setting(
    signal: Signal, value: float | None, settings: dict[str, float | None]
) -> None:
    assert settings_of(PlannedChange(0, signal, "ornl", "nersc", value), PATH) == settings


def test_a_loss_by_size_is_a_shallow_bucket() -> None:
    change = PlannedChange(0, Signal.LOSS, "ornl", "nersc", 1.0, over_bytes=600)

    assert settings_of(change, PATH) == {"policer_mbps": 1000.0, "policer_bytes": 600}


@pytest.mark.parametrize(("name", "at"), NEW_SITES)
def test_the_new_path_is_the_only_one_more(name: str, at: str) -> None:
    scenario = load_scenario(SCENARIO)
    usual = mesh_toml(scenario, namespace_addresses(scenario))

    before = set(measurements(parse(usual.encode(), "mesh.toml")))
    after = set(measurements(parse(mesh_with_new_path(usual, name, at).encode(), "mesh.toml")))

    assert before < after
    assert [(entry.source, entry.destination) for entry in after - before] == [("slac-ipv6", name)]
