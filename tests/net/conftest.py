"""Labs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.lab import RunningLab


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
