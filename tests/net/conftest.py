"""Fixtures of tests that need network namespaces: skipped where they cannot be had, failed where CI is set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from probes.lab.namespaces import namespaces_available
from tests.lab import RunningLab


@pytest.fixture(scope="session")
def namespaces_required() -> None:
    """Skip a test, or in CI fail it, where this machine gives no network namespaces."""
    reason = namespaces_available()
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must have network namespaces: {reason}")
    pytest.skip(f"no network namespaces: {reason}")


@pytest.fixture
def start_lab(namespaces_required: None) -> Iterator[Callable[..., RunningLab]]:
    """A function that starts labs like `RunningLab(…)`; they end with the test."""
    with ExitStack() as labs:

        def start(*arguments: str, **options: object) -> RunningLab:
            return labs.enter_context(RunningLab(*arguments, **options))  # type: ignore[arg-type]

        yield start


@pytest.fixture
def lab(start_lab: Callable[..., RunningLab]) -> RunningLab:
    """The scenario `three-sites`, running."""
    return start_lab("three-sites")
