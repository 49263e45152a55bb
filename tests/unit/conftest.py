"""Fixtures of the unit tests: a machine without addresses of its own, so that no test address is local, and the secrets
of docker-compose.yml."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def no_own_addresses(monkeypatch):
    monkeypatch.setattr("probes.site.limits.networks.is_own", lambda address, family: False)


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A folder with the files that the service `secrets` creates."""
    subprocess.run(["sh", ROOT / "scripts/compose-secrets.sh", tmp_path], check=True)
    return tmp_path
