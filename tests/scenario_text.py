"""Scenarios of the lab from text, read as the files they are."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from probes.lab.scenario import Scenario, read_scenario


def scenario_of(text: str, name: str = "test") -> Scenario:
    """The scenario of a file with this text. Raises `ScenarioError`."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        return read_scenario(file)
