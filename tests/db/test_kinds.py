"""Kinds of measurement as plug-ins: a kind from outside the tree needs only its entries in the registries."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OF_THIS_RUN = ("SOUNDINGS_DATABASE_URL", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER")
"""The process starts its own database server."""


def test_a_kind_from_outside_the_tree_works_end_to_end():
    """In a separate process: the wire, the limits and the checks are built from the registries when imported."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.toy_kind.registered", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, "tests/toy_kind/whole_way.py"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in OF_THIS_RUN},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )

    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert "5 passed" in run.stdout
